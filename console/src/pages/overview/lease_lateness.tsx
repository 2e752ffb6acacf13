/** How late leases were handed out, since the nodes began. */
import { Panel } from "../../parts/basics.tsx";
import { Empty } from "../../parts/empty.tsx";
import { Histogram } from "../../parts/histogram.tsx";

export function LeaseLateness({ lateness }: { lateness: { bounds_ms: number[]; counts: number[] } }) {
  const any = lateness.counts.some((one) => one > 0);
  return (
    <Panel title="How late messages were leased">
      {any
        ? <Histogram bounds={lateness.bounds_ms} counts={lateness.counts} />
        : <Empty title="Nothing was leased yet">Counted since the nodes began.</Empty>}
    </Panel>
  );
}
