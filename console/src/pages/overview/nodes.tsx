/** Nodes with their state and how far their clocks were from cluster time during the last minutes. */
import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { call } from "../../api/call.ts";
import type { LiveNode } from "../../api/types.ts";
import { useAsk } from "../../core/ask.ts";
import { now } from "../../core/pause.ts";
import { Badge, Panel, type Tone } from "../../parts/basics.tsx";
import { type Point, Sparkline } from "../../parts/sparkline.tsx";
import { type Column, Table } from "../../parts/table.tsx";

const SHOWN_MS = 300_000;
const TONES: Record<string, Tone> = { healthy: "good", degraded: "warn", inactive: "bad" };

type Row = LiveNode & { id: string; history: Point[] };

const COLUMNS: Column<Row>[] = [
  { title: "Node", show: (one) => <span class="name">{one.id}</span> },
  { title: "State", show: (one) => <Badge tone={TONES[one.state] ?? ""}>{one.state}</Badge> },
  {
    title: "Clock",
    number: true,
    show: (one) => typeof one.offset_ms === "number" ? `${one.offset_ms.toFixed(2)} ms` : "–",
  },
  {
    title: "Drift, last 5 minutes",
    narrow: true,
    show: (one) => <Sparkline points={one.history} label={`Drift of ${one.id}`} />,
  },
  { title: "Address", narrow: true, show: (one) => <span class="mono break">{one.url}</span> },
  { title: "Release", narrow: true, show: (one) => one.release ?? "–" },
  {
    title: "Why",
    show: (one) => <span class="break small">{one.reasons.map((reason) => reason.detail).join("; ")}</span>,
  },
];

/** What the node remembers, and then what the live stream adds. */
export function Nodes({ nodes }: { nodes: Record<string, LiveNode> }) {
  const past = useAsk("drift", (signal) => call("GET /nodes", { query: { history_s: 300 }, signal }));
  const points = useSignal<Record<string, Point[]>>({});
  useEffect(() => {
    const found = past.answer.value?.nodes ?? [];
    const before = Object.fromEntries(
      found.map((one) => [one.id, (one.history ?? []).map((point) => ({ at: point.at_ms, value: point.offset_ms }))]),
    );
    points.value = { ...before, ...nonempty(points.value, before) };
  }, [past.answer.value]);
  useEffect(() => {
    const at = now.value;
    const next = { ...points.value };
    for (const [id, node] of Object.entries(nodes)) {
      if (typeof node.offset_ms !== "number") continue;
      next[id] = [...(next[id] ?? []), { at, value: node.offset_ms }].filter((one) => one.at > at - SHOWN_MS);
    }
    points.value = next;
  }, [now.value]);
  const rows = Object.entries(nodes).sort(([a], [b]) => a.localeCompare(b, "en", { numeric: true }))
    .map(([id, node]) => ({ ...node, id, history: points.value[id] ?? [] }));
  return (
    <Panel title="Nodes" flush>
      <Table label="Nodes" columns={COLUMNS} rows={rows} keyOf={(one) => one.id} />
    </Panel>
  );
}

function nonempty(seen: Record<string, Point[]>, before: Record<string, Point[]>): Record<string, Point[]> {
  return Object.fromEntries(Object.entries(seen).map(([id, points]) => [id, [...(before[id] ?? []), ...points]]));
}
