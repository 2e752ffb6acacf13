/**
 * The future of a topic: how much is due when, against what its consumers have shown they can take. The range and the instant
 * of the slider stand in the address.
 */
import { useComputed, useSignal } from "@preact/signals";
import { call } from "../../api/call.ts";
import { useAsk } from "../../core/ask.ts";
import { now } from "../../core/pause.ts";
import { link, numberIn, setQuery } from "../../core/route.ts";
import { count, rate } from "../../core/numbers.ts";
import { localTime, niceStep } from "../../core/time.ts";
import { Panel, Trouble } from "../../parts/basics.tsx";
import { Chart, type Series } from "../../parts/chart.tsx";
import { RangePicker, useRange } from "../../parts/range.tsx";
import { type LoadAnswer, type LoadSlot, spikesOf } from "./outlook.ts";
import { Slider } from "./slider.tsx";

const DEFAULT_MS = 24 * 3_600_000;
/** `slots` in the address asks for finer ones, up to what a node gives. */
const USUAL_SLOTS = 480, MOST_SLOTS = 10_000;

const PARTS = [
  ["processing", "processing", "leases that end"],
  ["available", "available", "due already"],
  ["waiting", "waiting", "waiting"],
  ["planned", "planned", "planned by schedules"],
] as const;

export function Load({ topic, available }: { topic: string; available: number }) {
  const range = useRange(DEFAULT_MS);
  const step = niceStep(range.to - range.from, Math.min(MOST_SLOTS - 2, numberIn("slots") ?? USUAL_SLOTS));
  const from = Math.floor(range.from / step) * step;
  const to = Math.ceil(range.to / step) * step;
  const asked = useAsk<LoadAnswer>(
    `load ${topic} ${from} ${to} ${step}`,
    (signal) =>
      call("GET /topics/{topic}/load", {
        path: { topic },
        query: { from_ms: from, to_ms: to, step_ms: step },
        signal,
      }),
    3,
  );
  const hover = useSignal<number | null>(null);
  const slots = asked.answer.value?.slots ?? [];
  const capacity = asked.answer.value?.capacity_per_s ?? null;
  const picture = useComputed(() => drawn(asked.answer.value, step));
  const at = numberIn("at");
  return (
    <>
      <Trouble problem={asked.problem.value} again={asked.again} />
      <Panel title="Future load" aside={<RangePicker range={range} />}>
        <Chart
          label={`Messages of ${topic} by the time they are due`}
          times={picture.value.times}
          step={step}
          series={picture.value.series}
          spikes={picture.value.spikes}
          mark={at ?? now.value}
          onZoom={(from, to) => setQuery({ from, to })}
          onHover={(index) => (hover.value = index)}
        />
        <Readout slot={hover.value === null ? undefined : slots[hover.value]} step={step} />
        <Legend capacity={capacity} planned={slots.some((one) => one.planned)} />
      </Panel>
      <Slider topic={topic} until={range.to} available={available} at={at} />
      <Spikes topic={topic} slots={slots} step={step} spikes={picture.value.spikes} />
    </>
  );
}

function drawn(answer: LoadAnswer | null, step: number): { times: number[]; series: Series[]; spikes: boolean[] } {
  const slots = answer?.slots ?? [];
  const series: Series[] = PARTS.filter(([name]) => name !== "planned" || slots.some((one) => one.planned))
    .map(([name, colour]) => ({ name, colour, values: slots.map((one) => one[name] ?? 0) }));
  const capacity = answer?.capacity_per_s;
  if (capacity) {
    series.push({
      name: "capacity",
      colour: "bad",
      line: true,
      values: slots.map(() => capacity * step / 1000),
    });
  }
  return { times: slots.map((one) => one.from_ms), series, spikes: spikesOf(slots, step, capacity ?? null) };
}

function Readout({ slot, step }: { slot: LoadSlot | undefined; step: number }) {
  if (!slot) return <p class="readout">Drag over the chart to zoom in.</p>;
  const parts = PARTS.filter(([name]) => slot[name]).map(([name, , words]) => `${count(slot[name])} ${words}`);
  return (
    <p class="readout">
      {localTime(slot.from_ms)} to {localTime(slot.from_ms + step)}: {parts.join(", ") || "nothing"}
    </p>
  );
}

function Legend({ capacity, planned }: { capacity: number | null; planned: boolean }) {
  return (
    <div class="legend">
      {PARTS.filter(([name]) => name !== "planned" || planned).map(([name, colour, words]) => (
        <span key={name}>
          <i class={`swatch ${colour}`} /> {words}
        </span>
      ))}
      {capacity !== null && (
        <span>
          <i class="swatch line capacity" /> capacity shown by consumers: {rate(capacity)}
        </span>
      )}
      {capacity === null && <span>No consumer has shown a capacity lately.</span>}
    </div>
  );
}

const MOST_SPIKES = 5;

function Spikes({ topic, slots, step, spikes }: { topic: string; slots: LoadSlot[]; step: number; spikes: boolean[] }) {
  const found = slots.filter((_, index) => spikes[index]).sort((a, b) => b.waiting - a.waiting).slice(0, MOST_SPIKES);
  if (!found.length) return null;
  return (
    <Panel title="Spikes">
      <ul class="log">
        {found.map((one) => (
          <li key={one.from_ms}>
            <span>{localTime(one.from_ms)}</span>
            <strong>{count(one.waiting)} due</strong>
            <a href={link(["topics", topic], { tab: "load", from: one.from_ms - 2 * step, to: one.from_ms + 3 * step })}>
              Zoom in
            </a>
            <a href={link(["topics", topic], { tab: "messages", from: one.from_ms, to: one.from_ms + step })}>Messages</a>
          </li>
        ))}
      </ul>
    </Panel>
  );
}
