/** What the slots of a load say of the future. */
import type { LoadView, Slot } from "../../api/types.ts";

export type LoadSlot = Slot;
export type LoadAnswer = LoadView;

export interface Outlook {
  due: number;
  backlog: number;
  worst: number;
  worstAt: number | null;
}

/**
 * What becomes due from now until `at`, beside what is available already. With a capacity, consumers take that much a second
 * and the rest waits; without one, all of it does.
 */
export function outlook(
  slots: LoadSlot[],
  step: number,
  now: number,
  at: number,
  available: number,
  capacity: number | null,
): Outlook {
  let due = available, backlog = available, worst = available;
  let worstAt: number | null = null;
  for (const slot of slots) {
    const from = Math.max(now, slot.from_ms), to = Math.min(at, slot.from_ms + step);
    if (to <= from) continue;
    const ahead = slot.from_ms + step - from;
    const coming = (slot.waiting + (slot.planned ?? 0)) * (to - from) / ahead;
    due += coming;
    backlog = Math.max(0, backlog + coming - (capacity ?? 0) * (to - from) / 1000);
    if (backlog > worst) [worst, worstAt] = [backlog, slot.from_ms];
  }
  return { due: Math.round(due), backlog: Math.round(backlog), worst: Math.round(worst), worstAt };
}

/** More than consumers can take; where nobody knows what that is, four times what is usual and not next to nothing. */
export function spikesOf(slots: LoadSlot[], step: number, capacity: number | null): boolean[] {
  const loads = slots.map((one) => one.waiting + (one.planned ?? 0));
  const busy = loads.filter((load) => load > 0).sort((a, b) => a - b);
  const usual = busy[Math.floor(busy.length / 2)] ?? 0;
  const limit = capacity ? capacity * step / 1000 : Math.max(10, usual * 4);
  return loads.map((load) => load > limit);
}
