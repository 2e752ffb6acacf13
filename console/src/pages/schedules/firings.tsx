/** What a schedule will do, and what it did. */
import { call } from "../../api/call.ts";
import type { FiringView, NextView } from "../../api/types.ts";
import { useAsk } from "../../core/ask.ts";
import { Badge, Panel, type Tone, Trouble } from "../../parts/basics.tsx";
import { Empty } from "../../parts/empty.tsx";
import { Instant } from "../../parts/instant.tsx";
import { type Column, Table } from "../../parts/table.tsx";

export const NEXT: Column<NextView>[] = [
  { title: "When", show: (one) => <Instant at={one.at_ms} near /> },
  { title: "There", show: (one) => <span class="mono">{one.local}</span> },
  { title: "Note", show: (one) => one.note ? <Badge tone="warn" bare>{one.note}</Badge> : "" },
];

const TONES: Record<string, Tone> = { planned: "info", fired: "good", skipped: "", missed: "bad", cancelled: "" };

const FIRED: Column<FiringView>[] = [
  { title: "When", show: (one) => <Instant at={one.at_ms} near /> },
  { title: "State", show: (one) => <Badge tone={TONES[one.state] ?? ""}>{one.state}</Badge> },
  { title: "Why", show: (one) => <span class="break">{one.why ?? ""}</span> },
  { title: "As", narrow: true, show: (one) => <span class="mono break">{one.id ?? one.token ?? ""}</span> },
];

export function NextFirings({ id, version }: { id: string; version: number }) {
  const { answer, problem } = useAsk(
    `next ${id} ${version}`,
    (signal) => call("GET /schedules/{id}/next", { path: { id }, query: { count: 20 }, signal }),
    30,
  );
  return (
    <Panel title="Next firings" flush>
      <Trouble problem={problem.value} />
      {answer.value && (answer.value.firings.length
        ? <Table label="Next firings" columns={NEXT} rows={answer.value.firings} keyOf={(one) => String(one.at_ms)} />
        : <Empty title="It will not fire again" />)}
    </Panel>
  );
}

export function History({ id }: { id: string }) {
  const { answer, problem } = useAsk(
    `firings ${id}`,
    (signal) => call("GET /schedules/{id}/firings", { path: { id }, query: { limit: 50 }, signal }),
    5,
  );
  return (
    <Panel title="History" flush>
      <Trouble problem={problem.value} />
      {answer.value && (answer.value.firings.length
        ? (
          <Table
            label="History"
            columns={FIRED}
            rows={answer.value.firings}
            keyOf={(one) => `${one.at_ms} ${one.id ?? one.token} ${one.created_at_ms}`}
          />
        )
        : <Empty title="It has not fired yet" />)}
    </Panel>
  );
}
