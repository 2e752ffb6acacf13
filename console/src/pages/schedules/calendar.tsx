/** The next firings of all schedules on the page, day by day; days on which clocks change are marked. */
import { call } from "../../api/call.ts";
import type { NextView, ScheduleView } from "../../api/types.ts";
import { useAsk } from "../../core/ask.ts";
import { link } from "../../core/route.ts";
import { localDay, utcTime } from "../../core/time.ts";
import { Badge } from "../../parts/basics.tsx";
import { dstMark } from "./words.ts";

const OFTEN = 3, EACH = 20, MOST_SCHEDULES = 20, MOST_A_DAY = 8, MOST_DAYS = 14;
const clock = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", hour12: false });

interface Planned extends NextView {
  id: string;
}

interface Entry extends Planned {
  times: number;
}

/** A schedule that fires often is one entry of a day: its first time, and how often it is known to fire. */
export function gathered(firings: Planned[]): Entry[] {
  const often = new Map<string, number>();
  for (const { id } of firings) often.set(id, (often.get(id) ?? 0) + 1);
  const seen = new Set<string>();
  return firings.flatMap((one) => {
    const times = often.get(one.id) ?? 1;
    if (times <= OFTEN) return [{ ...one, times: 1 }];
    if (seen.has(one.id)) return one.note ? [{ ...one, times: 1 }] : [];
    seen.add(one.id);
    return [{ ...one, times }];
  });
}

export function byDay(firings: Planned[]): [string, Planned[]][] {
  const days = new Map<string, Planned[]>();
  for (const one of [...firings].sort((a, b) => a.at_ms - b.at_ms)) {
    const day = localDay(one.at_ms);
    days.set(day, [...(days.get(day) ?? []), one]);
  }
  return [...days].slice(0, MOST_DAYS);
}

export function Calendar({ schedules }: { schedules: ScheduleView[] }) {
  const shown = schedules.filter((one) => !one.paused && one.next_at_ms).slice(0, MOST_SCHEDULES);
  const { answer } = useAsk(
    `calendar ${shown.map((one) => `${one.id} ${one.version} ${one.next_at_ms}`).join()}`,
    async (signal) => {
      const all = await Promise.all(shown.map(async ({ id }) => {
        const { firings } = await call("GET /schedules/{id}/next", { path: { id }, query: { count: EACH }, signal });
        return firings.map((one) => ({ ...one, id }));
      }));
      return all.flat();
    },
  );
  if (!answer.value?.length) return <p class="muted">Nothing is planned.</p>;
  return (
    <div class="calendar">
      {byDay(answer.value).map(([day, all]) => [day, gathered(all)] as const).map(([day, firings]) => (
        <div class="day" key={day}>
          <h3>{day}</h3>
          <ul>
            {firings.slice(0, MOST_A_DAY).map((one) => (
              <li key={`${one.id} ${one.at_ms}`}>
                <time dateTime={new Date(one.at_ms).toISOString()} title={`${one.local}, ${utcTime(one.at_ms)}`}>
                  {clock.format(one.at_ms)}
                </time>
                <a href={link(["schedules", one.id])}>{one.id}</a>
                {one.times > 1 && (
                  <span class="muted">and {one.times - 1}{one.times === EACH ? " or more" : ""} times later</span>
                )}
                {one.note && <Badge tone="warn" bare>{dstMark(one.note)}</Badge>}
              </li>
            ))}
            {firings.length > MOST_A_DAY && <li class="muted">{firings.length - MOST_A_DAY} more</li>}
          </ul>
        </div>
      ))}
    </div>
  );
}
