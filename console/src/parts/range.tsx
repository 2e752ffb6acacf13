/** The range of a chart: from seconds to months, moved and zoomed by buttons; what is chosen stands in the address. A range
 * that is not chosen begins now and goes with the time. */
import { now } from "../core/pause.ts";
import { numberIn, query, setQuery } from "../core/route.ts";
import { duration } from "../core/time.ts";
import { Segments } from "./basics.tsx";

const SPANS: [string, string][] = [
  ["60000", "1 min"],
  ["600000", "10 min"],
  ["3600000", "1 h"],
  ["21600000", "6 h"],
  ["86400000", "1 d"],
  ["604800000", "7 d"],
  ["2592000000", "30 d"],
  ["31536000000", "1 y"],
];
const SHORTEST = 5_000, LONGEST = 400 * 86_400_000;

export interface Range {
  from: number;
  to: number;
  follows: boolean;
  span: number;
}

export function useRange(usual: number): Range {
  const from = numberIn("from"), to = numberIn("to"), span = numberIn("span") ?? usual;
  if (from !== null && to !== null && to > from) return { from, to, follows: false, span: to - from };
  const grain = Math.max(1000, span / 60);
  const start = Math.floor(now.value / grain) * grain;
  return { from: start, to: start + span, follows: true, span };
}

/** A range of another length around the same middle. */
export function zoomed(range: Range, factor: number): { from: number; to: number } {
  const middle = (range.from + range.to) / 2;
  const half = Math.min(LONGEST, Math.max(SHORTEST, (range.to - range.from) * factor)) / 2;
  return { from: Math.round(middle - half), to: Math.round(middle + half) };
}

export function moved(range: Range, part: number): { from: number; to: number } {
  const by = Math.round((range.to - range.from) * part);
  return { from: range.from + by, to: range.to + by };
}

export function RangePicker({ range }: { range: Range }) {
  const chosen = range.follows ? query("span") ?? String(range.span) : null;
  const set = (next: { from: number; to: number }) => setQuery({ ...next, at: null });
  return (
    <>
      <Segments
        label="Range"
        choices={SPANS}
        chosen={chosen}
        onChoose={(span) => setQuery({ span, from: null, to: null, at: null })}
      />
      <div class="segments" role="group" aria-label="Move and zoom">
        <button type="button" aria-label="Earlier" onClick={() => set(moved(range, -0.5))}>←</button>
        <button type="button" aria-label="Zoom in" onClick={() => set(zoomed(range, 0.5))}>+</button>
        <button type="button" aria-label="Zoom out" onClick={() => set(zoomed(range, 2))}>−</button>
        <button type="button" aria-label="Later" onClick={() => set(moved(range, 0.5))}>→</button>
      </div>
      {!range.follows && <span class="small muted">{duration(range.to - range.from)}</span>}
    </>
  );
}
