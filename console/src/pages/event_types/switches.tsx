/** Switches of an event type: the latest in detail, phase by phase, with who has acknowledged and how long publishers waited. */
import { call } from "../../api/call.ts";
import type { SwitchView } from "../../api/types.ts";
import { useAsk } from "../../core/ask.ts";
import { Badge, Facts, Panel, type Tone, Trouble } from "../../parts/basics.tsx";
import { Empty } from "../../parts/empty.tsx";
import { Instant } from "../../parts/instant.tsx";
import { type Column, Table } from "../../parts/table.tsx";

export function toneOf(state: string): Tone {
  return state === "done" ? "good" : state === "failed" ? "bad" : "warn";
}

export function Switches({ name, running }: { name: string; running: boolean }) {
  const { answer, problem } = useAsk(
    `switches ${name} ${running}`,
    (signal) => call("GET /event-types/{name}/switches", { path: { name }, signal }),
    running ? 0.2 : 3,
  );
  const switches = answer.value ?? [];
  const latest = switches[switches.length - 1];
  return (
    <>
      <Trouble problem={problem.value} />
      {latest && <Latest name={name} one={latest} />}
      {answer.value && (
        <Panel title="All switches" flush>
          {switches.length === 0
            ? (
              <Empty title="It has never been switched">
                A switch moves new events to another storage while publishers and readers go on.
              </Empty>
            )
            : <Table label="Switches" columns={COLUMNS} rows={[...switches].reverse()} keyOf={(one) => one.id} />}
        </Panel>
      )}
    </>
  );
}

const COLUMNS: Column<SwitchView>[] = [
  { title: "Started", show: (one) => <Instant at={one.started_at} /> },
  { title: "To", show: (one) => one.storage_id },
  { title: "State", show: (one) => <Badge tone={toneOf(one.state)}>{one.state}</Badge> },
  { title: "Stall", number: true, show: (one) => one.stall_ms === null ? "–" : `${one.stall_ms.toFixed(0)} ms` },
  { title: "By", narrow: true, show: (one) => one.owner },
  { title: "Error", narrow: true, show: (one) => <span class="break">{one.error ?? ""}</span> },
];

function Latest({ name, one }: { name: string; one: SwitchView }) {
  const { answer } = useAsk(
    `switch ${one.id} ${one.state}`,
    (signal) => call("GET /event-types/{name}/switches/{switch_id}", { path: { name, switch_id: one.id }, signal }),
  );
  const shown = { ...one, ...answer.value, state: one.state };
  const longest = Math.max(1, ...shown.phases.map((phase) => phase.ms));
  return (
    <Panel title="Latest switch" aside={<Badge tone={toneOf(one.state)}>{one.state}</Badge>}>
      <div class="grid">
        <Facts
          facts={[
            ["To", one.storage_id],
            ["Started", <Instant at={one.started_at} near key="at" />],
            ["Publishers waited", one.stall_ms === null ? "–" : `${one.stall_ms.toFixed(1)} ms`],
            ["Led by", one.owner],
            ["Acknowledged", acknowledgements(shown)],
            ...(one.error ? [["Error", one.error] as [string, string]] : []),
          ]}
        />
        <div class="phases" role="list" aria-label="Phases">
          {shown.phases.map((phase) => (
            <div class="phase" role="listitem" key={phase.name}>
              <span>{phase.name}</span>
              <span class="track">
                <span class="fill block" style={{ width: `${(phase.ms / longest) * 100}%` }} />
              </span>
              <span class="ms">{phase.ms.toFixed(1)} ms</span>
            </div>
          ))}
        </div>
      </div>
    </Panel>
  );
}

function acknowledgements(one: SwitchView): string {
  const said = one.acknowledged.map((node) => `${node.node} ${node.ms.toFixed(0)} ms`);
  const late = one.overtaken.map((node) => `${node} (overtaken)`);
  return [...said, ...late].join(", ") || "–";
}
