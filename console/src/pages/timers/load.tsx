/** How many timers are pending, slot by slot. */
import { useComputed, useSignal } from "@preact/signals";
import { call } from "../../api/call.ts";
import type { Load as LoadOfTimers } from "../../api/types.ts";
import { useAsk } from "../../core/ask.ts";
import { count } from "../../core/numbers.ts";
import { now } from "../../core/pause.ts";
import { setQuery } from "../../core/route.ts";
import { localTime, niceStep } from "../../core/time.ts";
import { Panel, Trouble } from "../../parts/basics.tsx";
import { Chart } from "../../parts/chart.tsx";
import { RangePicker, useRange } from "../../parts/range.tsx";

const DEFAULT_MS = 3_600_000;
const MOST_SLOTS = 480;

export function TimersLoad() {
  const range = useRange(DEFAULT_MS);
  const step = niceStep(range.to - range.from, MOST_SLOTS);
  const from = Math.floor(range.from / step) * step / 1000, to = Math.ceil(range.to / step) * step / 1000;
  const { answer, problem } = useAsk<LoadOfTimers>(
    `timers load ${from} ${to}`,
    (signal) =>
      call("GET /timers/load", { query: { from, to, step: step / 1000 } as never, signal }) as Promise<LoadOfTimers>,
    5,
  );
  const hover = useSignal<number | null>(null);
  const picture = useComputed(() => {
    const slots = answer.value?.slots ?? [];
    return {
      times: slots.map((one) => one.from * 1000),
      series: [
        { name: "pending", colour: "waiting", values: slots.map((one) => one.pending) },
        { name: "planned", colour: "planned", values: slots.map((one) => one.planned ?? 0) },
      ],
    };
  });
  const slot = hover.value === null ? undefined : answer.value?.slots[hover.value];
  const planned = slot?.planned ? `, ${count(slot.planned)} planned by schedules` : "";
  return (
    <Panel title="Pending timers" aside={<RangePicker range={range} />}>
      <Trouble problem={problem.value} />
      <Chart
        label="Pending timers by their second"
        height={200}
        times={picture.value.times}
        step={step}
        series={picture.value.series}
        mark={now.value}
        onZoom={(from, to) => setQuery({ from, to })}
        onHover={(index) => (hover.value = index)}
      />
      <p class="readout">
        {slot
          ? `${localTime(slot.from * 1000)}: ${count(slot.pending)} pending${planned}`
          : "Drag over the chart to zoom in."}
      </p>
    </Panel>
  );
}
