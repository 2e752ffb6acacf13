/** How late callbacks were written, over all dispatchers. */
import type { DispatcherStatus } from "../../api/types.ts";
import { count } from "../../core/numbers.ts";
import { duration } from "../../core/time.ts";
import { Figure, Panel } from "../../parts/basics.tsx";
import { Histogram } from "../../parts/histogram.tsx";

export function Lateness({ dispatcher }: { dispatcher: DispatcherStatus }) {
  const lateness = dispatcher.lateness_ms;
  const buckets = lateness.histogram ?? [];
  return (
    <Panel title="Lateness">
      <div class="grid small">
        <Figure label="half within">{duration(lateness.p50)}</Figure>
        <Figure label="99 % within" tone={lateness.p99 > 1000 ? "warn" : ""}>{duration(lateness.p99)}</Figure>
        <Figure label="held">{count(dispatcher.held)}</Figure>
        <Figure label="dispatchers" tone={dispatcher.instances ? "" : "bad"}>{count(dispatcher.instances)}</Figure>
      </div>
      {buckets.length > 0 && (
        <Histogram
          bounds={buckets.flatMap((one) => one.le_ms ?? [])}
          counts={buckets.map((one) => one.count)}
        />
      )}
    </Panel>
  );
}
