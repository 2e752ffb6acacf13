/** An instant as every page shows it: local time, UTC on hover, and how far away it is where that helps. */
import { now } from "../core/pause.ts";
import { localTime, relative, utcTime } from "../core/time.ts";

export function milliseconds(at: number | string): number {
  return typeof at === "number" ? at : Date.parse(at);
}

export function Instant({ at, near = false }: { at: number | string | null | undefined; near?: boolean }) {
  if (at === null || at === undefined || at === "") return <span class="muted">–</span>;
  const ms = milliseconds(at);
  return (
    <time dateTime={new Date(ms).toISOString()} title={utcTime(ms)}>
      {localTime(ms)}
      {near && <span class="muted">{` (${relative(ms, now.value)})`}</span>}
    </time>
  );
}

export function Near({ at }: { at: number }) {
  return (
    <time dateTime={new Date(at).toISOString()} title={`${localTime(at)}, ${utcTime(at)}`}>{relative(at, now.value)}</time>
  );
}
