/** One rule for times: local time is shown, UTC on hover. Durations are said in the two largest units that matter. */

const SECOND = 1_000, MINUTE = 60_000, HOUR = 3_600_000, DAY = 86_400_000;

const clockOnly = new Intl.DateTimeFormat(undefined, {
  hour: "2-digit",
  minute: "2-digit",
  second: "2-digit",
  hour12: false,
});
const dayAndClock = new Intl.DateTimeFormat(undefined, {
  month: "short",
  day: "numeric",
  hour: "2-digit",
  minute: "2-digit",
  second: "2-digit",
  hour12: false,
});
const dayOnly = new Intl.DateTimeFormat(undefined, { weekday: "short", month: "short", day: "numeric" });
const withYear = new Intl.DateTimeFormat(undefined, { year: "numeric", month: "short", day: "numeric" });

export function localTime(at: number): string {
  const date = new Date(at);
  if (!Number.isFinite(date.getTime())) return "–";
  const now = new Date();
  if (date.toDateString() === now.toDateString()) return clockOnly.format(date);
  return date.getFullYear() === now.getFullYear()
    ? dayAndClock.format(date)
    : `${withYear.format(date)} ${clockOnly.format(date)}`;
}

export function localDay(at: number): string {
  return dayOnly.format(new Date(at));
}

export function utcTime(at: number): string {
  const date = new Date(at);
  return Number.isFinite(date.getTime()) ? `${date.toISOString().replace("T", " ").replace(/\.\d+Z$/, "")} UTC` : "";
}

export function duration(length: number): string {
  const ms = Math.abs(length);
  if (ms < SECOND) return `${Math.round(ms)} ms`;
  const units: [number, string][] = [[DAY, "d"], [HOUR, "h"], [MINUTE, "min"], [SECOND, "s"]];
  const at = units.findIndex(([size]) => ms >= size);
  const [size, name] = units[at] ?? [SECOND, "s"];
  const next = units[at + 1];
  const whole = Math.floor(ms / size);
  if (!next) return `${whole} ${name}`;
  const rest = Math.floor((ms - whole * size) / next[0]);
  return rest && whole < 10 ? `${whole} ${name} ${rest} ${next[1]}` : `${whole} ${name}`;
}

export function relative(at: number, now: number): string {
  const ahead = at - now;
  if (Math.abs(ahead) < SECOND) return "now";
  return ahead > 0 ? `in ${duration(ahead)}` : `${duration(ahead)} ago`;
}

/** What an `<input type="datetime-local" step="1">` shows and gives back; it knows local time only. */
export function toInput(at: number): string {
  const date = new Date(at - new Date(at).getTimezoneOffset() * MINUTE);
  return date.toISOString().slice(0, 19);
}

export function fromInput(text: string): number | null {
  const at = new Date(text).getTime();
  return text && Number.isFinite(at) ? at : null;
}

/** `90s`, `15m`, `4h`, `2d`, a plain number of seconds, or null where the text is none of these. */
export function parseDuration(text: string): number | null {
  const found = /^\s*(\d+(?:\.\d+)?)\s*(ms|s|m|min|h|d|w)?\s*$/.exec(text);
  if (!found) return null;
  const unit = { ms: 1, s: SECOND, m: MINUTE, min: MINUTE, h: HOUR, d: DAY, w: 7 * DAY }[found[2] ?? "s"];
  return Math.round(Number(found[1]) * (unit ?? SECOND));
}

const STEPS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14_400, 21_600, 43_200, 86_400, 604_800];

/** A step that people count in, with at most `most` of them in the range. */
export function niceStep(range: number, most: number): number {
  const wanted = range / most / SECOND;
  return (STEPS.find((step) => step >= wanted) ?? Math.ceil(wanted / 604_800) * 604_800) * SECOND;
}
