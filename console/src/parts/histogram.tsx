/** A histogram of latenesses: a bar for each bound, and one for what was later than all. */
import { count } from "../core/numbers.ts";
import { duration } from "../core/time.ts";

const LATE_MS = 1_000;

export function Histogram({ bounds, counts }: { bounds: number[]; counts: number[] }) {
  const most = Math.max(1, ...counts);
  const total = counts.reduce((sum, one) => sum + one, 0);
  const bars = counts.map((amount, index) => ({ amount, bound: bounds[index] ?? null }));
  const words = (bound: number | null) => bound === null ? "more" : `≤ ${duration(bound)}`;
  return (
    <div class="bars" role="img" aria-label={bars.map((one) => `${words(one.bound)}: ${one.amount}`).join(", ")}>
      {bars.map(({ amount, bound }) => (
        <div key={String(bound)} title={`${words(bound)}: ${count(amount)} of ${count(total)}`}>
          <div
            class={bound !== null && bound <= LATE_MS ? "bar" : "bar late"}
            style={{ height: `${(amount / most) * 82}%` }}
          />
          <small>{bound === null ? "+" : short(bound)}</small>
        </div>
      ))}
    </div>
  );
}

function short(ms: number): string {
  return ms < 1000 ? `${ms}` : ms < 60_000 ? `${ms / 1000}s` : `${ms / 60_000}m`;
}
