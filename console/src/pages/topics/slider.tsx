/** Moves `now` ahead: what will have become due by then, and how far behind consumers will be if they go on as they do. */
import { call } from "../../api/call.ts";
import { useAsk } from "../../core/ask.ts";
import { count, rate } from "../../core/numbers.ts";
import { now } from "../../core/pause.ts";
import { link, setQuery } from "../../core/route.ts";
import { duration, localTime, niceStep, relative } from "../../core/time.ts";
import { Figure, Panel } from "../../parts/basics.tsx";
import { type LoadAnswer, outlook } from "./outlook.ts";

const MOST_SLOTS = 300;
const STEPS = 2000;

export function Slider(
  { topic, until, available, at }: { topic: string; until: number; available: number; at: number | null },
) {
  const step = niceStep(Math.max(60_000, until - now.value), MOST_SLOTS);
  const from_ms = Math.floor(now.value / step) * step, to_ms = Math.ceil(until / step) * step;
  const asked = useAsk<LoadAnswer | null>(`outlook ${topic} ${from_ms} ${to_ms}`, async (signal) => {
    if (to_ms <= from_ms) return null;
    return await call("GET /topics/{topic}/load", {
      path: { topic },
      query: { from_ms, to_ms, step_ms: step },
      signal,
    });
  }, 10);
  const answer = asked.answer.value;
  if (!answer || until <= now.value) return null;
  const capacity = answer.capacity_per_s ?? null;
  const chosen = Math.min(until, Math.max(now.value, at ?? now.value));
  const seen = outlook(answer.slots, step, now.value, chosen, available, capacity);
  const grain = Math.max(1, Math.round((until - now.value) / STEPS));
  const onInput = (event: { currentTarget: HTMLInputElement }) => {
    const value = Number(event.currentTarget.value);
    setQuery({ at: value < now.value + grain ? null : Math.round(value) }, true);
  };
  return (
    <Panel
      title="As of"
      aside={
        <>
          <strong>{localTime(chosen)}</strong>
          <span class="muted">{relative(chosen, now.value)}</span>
          {at !== null && (
            <button type="button" class="tiny" onClick={() => setQuery({ at: null }, true)}>Back to now</button>
          )}
        </>
      }
    >
      <div class="slider">
        <input
          type="range"
          aria-label="Move now ahead"
          aria-valuetext={localTime(chosen)}
          min={now.value}
          max={until}
          step={grain}
          value={chosen}
          onInput={onInput}
        />
        <div class="figures">
          <Figure label="will have become due">{count(seen.due)}</Figure>
          <Figure
            label={capacity ? `will wait, if ${rate(capacity)} are taken` : "will wait, if nobody takes them"}
            tone={seen.backlog && capacity ? "warn" : ""}
          >
            {count(seen.backlog)}
          </Figure>
          {capacity
            ? (
              <Figure label="consumers will be behind by">
                {seen.backlog ? duration(seen.backlog / capacity * 1000) : "nothing"}
              </Figure>
            )
            : null}
          {capacity && seen.worstAt !== null
            ? <Figure label={`waiting at most, at ${localTime(seen.worstAt)}`}>{count(seen.worst)}</Figure>
            : null}
        </div>
        <p class="small">
          <a href={link(["topics", topic], { tab: "messages", status: "waiting", to: Math.round(chosen) })}>
            The messages that become due until then
          </a>
        </p>
      </div>
    </Panel>
  );
}
