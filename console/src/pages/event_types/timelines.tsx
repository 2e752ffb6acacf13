/** Timelines as a strip along time, and the switch to another storage: started here, watched while it runs. */
import { useSignal } from "@preact/signals";
import { call } from "../../api/call.ts";
import type { TimelineView } from "../../api/types.ts";
import { useAsk } from "../../core/ask.ts";
import { count } from "../../core/numbers.ts";
import { may } from "../../core/session.ts";
import { duration } from "../../core/time.ts";
import { now } from "../../core/pause.ts";
import { Panel, Trouble } from "../../parts/basics.tsx";
import { Instant, milliseconds } from "../../parts/instant.tsx";
import { type Column, Table } from "../../parts/table.tsx";
import { SwitchDialog } from "./switch_dialog.tsx";
import { Switches } from "./switches.tsx";

export function Timelines({ name, compacted }: { name: string; compacted: boolean }) {
  const asking = useSignal(false);
  const busy = useSignal(false);
  const { answer, problem, again } = useAsk(
    `timelines ${name}`,
    (signal) => call("GET /event-types/{name}/timelines", { path: { name }, signal }),
    5,
  );
  const timelines = answer.value ?? [];
  const active = timelines[timelines.length - 1];
  const onStarted = () => (busy.value = true);
  const onEnded = () => {
    busy.value = false;
    again();
  };
  return (
    <>
      <Trouble problem={problem.value} again={again} />
      <Panel
        title="Timelines"
        aside={may("admin") && !compacted && (
          <button type="button" class="primary" disabled={busy.value} onClick={() => (asking.value = true)}>
            Switch to a storage …
          </button>
        )}
      >
        {timelines.length > 0 && <Strip timelines={servedBy(timelines)} />}
      </Panel>
      {asking.value && active && (
        <SwitchDialog
          name={name}
          from={active.storage_id}
          onClose={() => (asking.value = false)}
          onStarted={onStarted}
          onEnded={onEnded}
        />
      )}
      <Switches name={name} running={busy.value} />
      <Panel title="Borders" flush>
        <Table label="Timelines" columns={COLUMNS} rows={servedBy(timelines).reverse()} keyOf={(one) => String(one.order)} />
      </Panel>
    </>
  );
}

/** A timeline with the time that it served; the last one still does. */
export interface Served extends TimelineView {
  from: number;
  until: number | null;
}

export function servedBy(timelines: TimelineView[]): Served[] {
  const begins = timelines.map((one) => milliseconds(one.switched_at ?? one.created_at));
  return timelines.map((one, index) => ({ ...one, from: begins[index]!, until: begins[index + 1] ?? null }));
}

const COLUMNS: Column<Served>[] = [
  { title: "Order", number: true, show: (one) => one.order },
  { title: "Storage", show: (one) => one.storage_id },
  { title: "Topic in Kafka", narrow: true, show: (one) => <span class="mono break">{one.topic}</span> },
  { title: "From", show: (one) => <Instant at={one.from} /> },
  { title: "Until", show: (one) => <Instant at={one.until} /> },
  { title: "Last offsets", narrow: true, show: (one) => one.latest_position?.offsets.map(count).join(", ") ?? "open" },
  { title: "Removed", narrow: true, show: (one) => one.deleted ? "yes" : <Instant at={one.cleaned_up_at} near /> },
];

/** Widths follow the time that each has served, within bounds that leave every one readable. */
export function shares(timelines: Served[], until: number): number[] {
  const lengths = timelines.map((one) => Math.max(1, (one.until ?? until) - one.from));
  const longest = Math.max(...lengths);
  return lengths.map((length) => Math.max(0.12, length / longest));
}

function Strip({ timelines }: { timelines: Served[] }) {
  const widths = shares(timelines, now.value);
  return (
    <div class="strip" role="list" aria-label="Timelines along time" tabIndex={0}>
      {timelines.map((one, index) => (
        <div
          key={one.order}
          role="listitem"
          class={`timeline ${one.until ? "" : "active"} ${one.deleted ? "deleted" : ""}`}
          style={{ flexGrow: widths[index] }}
        >
          <strong>{one.storage_id}</strong>
          <span class="small">{one.deleted ? "removed" : one.until ? "closed" : "active"}, order {one.order}</span>
          <div class="small muted">
            since <Instant at={one.from} />, for {duration((one.until ?? now.value) - one.from)}
          </div>
        </div>
      ))}
    </div>
  );
}
