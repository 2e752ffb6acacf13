/** What is wrong now, how nodes and their clocks are, and how much is done each second. */
import type { LiveRates } from "../../api/types.ts";
import { snapshot } from "../../core/live.ts";
import { rate } from "../../core/numbers.ts";
import { Figure, Head, Panel } from "../../parts/basics.tsx";
import { Empty } from "../../parts/empty.tsx";
import { Busiest } from "./busiest.tsx";
import { LeaseLateness } from "./lease_lateness.tsx";
import { Nodes } from "./nodes.tsx";
import { Wrong } from "./wrong.tsx";

const RATES: [keyof LiveRates, string][] = [
  ["publish", "events published"],
  ["read", "events read"],
  ["create", "messages created"],
  ["lease", "messages leased"],
  ["delete", "messages done"],
  ["fire", "timers fired"],
];

export function OverviewPage() {
  const state = snapshot.value;
  if (!state) {
    return (
      <>
        <Head title="Overview" />
        <Panel>
          <Empty title="Waiting for the node">The first numbers come within a second.</Empty>
        </Panel>
      </>
    );
  }
  return (
    <>
      <Head title="Overview" />
      <Wrong problems={state.problems ?? {}} />
      <div class="grid small">
        {RATES.map(([name, label]) => (
          <Panel key={name}>
            <Figure label={label}>{rate(state.rates?.[name] ?? 0)}</Figure>
          </Panel>
        ))}
      </div>
      <Nodes nodes={state.nodes ?? {}} />
      <div class="grid">
        <Busiest eventTypes={state.event_types ?? {}} topics={state.topics ?? {}} />
        {state.lateness && <LeaseLateness lateness={state.lateness} />}
      </div>
    </>
  );
}
