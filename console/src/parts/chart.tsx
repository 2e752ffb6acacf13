/**
 * A chart over time, drawn by uPlot. Series are stacked from the first at the bottom; a selection with the pointer is a zoom.
 * The chart is made anew when its series or the theme change, and only given data when these change.
 */
import { useEffect, useRef } from "preact/hooks";
import uPlot from "uplot";
import { short } from "../core/numbers.ts";
import { colour, theme } from "../core/theme.ts";

export interface Series {
  name: string;
  colour: string;
  values: number[];
  line?: boolean;
}

export interface ChartProps {
  label: string;
  /** The beginning of each slot in milliseconds. */
  times: number[];
  step: number;
  series: Series[];
  height?: number;
  mark?: number | null;
  spikes?: boolean[];
  onZoom?: (from: number, to: number) => void;
  onHover?: (index: number | null) => void;
}

/** Each series on top of those before it; lines stay where they are. Drawn from the top down, so that all can be seen. */
export function stacked(series: Series[]): number[][] {
  let below: number[] = [];
  return series.map((one) => {
    if (one.line) return one.values;
    below = one.values.map((value, index) => value + (below[index] ?? 0));
    return below;
  });
}

function dataOf({ times, step, series }: ChartProps): uPlot.AlignedData {
  const sums = stacked(series);
  const order = drawingOrder(series);
  const last = times.length ? times[times.length - 1]! + step : 0;
  const xs = [...times, last].map((at) => at / 1000);
  return [xs, ...order.map((index) => [...sums[index]!, sums[index]![times.length - 1] ?? 0])];
}

function drawingOrder(series: Series[]): number[] {
  const indexes = series.map((_, index) => index);
  return [...indexes.filter((index) => !series[index]!.line).reverse(), ...indexes.filter((index) => series[index]!.line)];
}

const SECOND = 1, MINUTE = 60, HOUR = 3600, DAY = 86_400;
const MONTH_AND_DAY = "\n{D} {MMM}";

/** Labels of the axis by the distance between them: 24 hours, the day below where it changes. */
const TIMES: uPlot.Axis.Values = ([
  [365 * DAY, "{YYYY}", null],
  [28 * DAY, "{MMM}", "\n{YYYY}"],
  [DAY, "{D} {MMM}", null],
  [HOUR, "{HH}:00", MONTH_AND_DAY],
  [MINUTE, "{HH}:{mm}", MONTH_AND_DAY],
  [SECOND, "{HH}:{mm}:{ss}", MONTH_AND_DAY],
] as [number, string, string | null][]).map((
  [distance, text, day],
) => [distance, text, day, null, day, null, null, null, 1]);

function optionsOf(props: ChartProps, latest: { current: ChartProps }, width: number, drawn: () => void): uPlot.Options {
  const steps = uPlot.paths.stepped!({ align: 1 });
  const axis = {
    stroke: colour("muted"),
    grid: { stroke: colour("grid"), width: 1 },
    ticks: { show: false },
    font: "12px system-ui",
  };
  return {
    width,
    height: props.height ?? 260,
    padding: [12, 24, 0, 0],
    legend: { show: false },
    cursor: { drag: { x: true, y: false, setScale: false }, points: { show: false }, y: false },
    scales: { x: { time: true }, y: { range: (_u, _min, max) => [0, Math.max(1, max * 1.08)] } },
    axes: [{ ...axis, space: 90, values: TIMES }, {
      ...axis,
      size: 56,
      values: (_u, splits) => splits.map((value) => short(value)),
    }],
    series: [{}, ...drawingOrder(props.series).map((index) => seriesOf(props.series[index]!, steps))],
    hooks: {
      setCursor: [(u) => latest.current.onHover?.(hovered(u, latest.current))],
      setSelect: [(u) => zoomed(u, latest.current)],
      draw: [(u) => marks(u, latest.current), drawn],
    },
  };
}

function seriesOf(one: Series, paths: uPlot.Series.PathBuilder): uPlot.Series {
  const paint = colour(one.colour);
  return one.line
    ? { stroke: paint, width: 1.5, dash: [6, 4], points: { show: false } }
    : { fill: paint, width: 0, paths, points: { show: false } };
}

function hovered(u: uPlot, props: ChartProps): number | null {
  const at = u.cursor.left !== undefined && u.cursor.left >= 0 ? u.posToVal(u.cursor.left, "x") * 1000 : null;
  if (at === null || !props.times.length) return null;
  const index = Math.floor((at - props.times[0]!) / props.step);
  return index >= 0 && index < props.times.length ? index : null;
}

function zoomed(u: uPlot, props: ChartProps): void {
  if (u.select.width < 4) return;
  const from = u.posToVal(u.select.left, "x") * 1000, to = u.posToVal(u.select.left + u.select.width, "x") * 1000;
  u.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
  props.onZoom?.(Math.round(from), Math.round(to));
}

function marks(u: uPlot, props: ChartProps): void {
  const { ctx } = u, { top, height, left, width } = u.bbox;
  ctx.save();
  ctx.fillStyle = colour("bad");
  const tall = 4 * devicePixelRatio;
  props.spikes?.forEach((spike, index) => {
    if (!spike) return;
    const from = u.valToPos(props.times[index]! / 1000, "x", true);
    const to = u.valToPos((props.times[index]! + props.step) / 1000, "x", true);
    ctx.fillRect(Math.max(left, from), top, Math.max(2 * devicePixelRatio, to - from), tall);
  });
  if (props.mark !== null && props.mark !== undefined) {
    const x = u.valToPos(props.mark / 1000, "x", true);
    ctx.fillStyle = colour("accent");
    if (x >= left && x <= left + width) ctx.fillRect(x - devicePixelRatio, top, 2 * devicePixelRatio, height);
  }
  ctx.restore();
}

export function Chart(props: ChartProps) {
  const host = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const latest = useRef(props);
  latest.current = props;
  const began = useRef<number | null>(performance.now());
  const drawn = () => {
    if (began.current !== null) performance.measure(`chart of ${latest.current.times.length}`, { start: began.current });
    began.current = null;
  };
  const shape = props.series.map((one) => `${one.name}/${one.colour}`).join() + theme.value;

  useEffect(() => {
    const element = host.current!;
    plot.current = new uPlot(optionsOf(props, latest, element.clientWidth || 600, drawn), dataOf(props), element);
    const sizes = new ResizeObserver(() =>
      plot.current?.setSize({ width: Math.max(200, element.clientWidth), height: props.height ?? 260 })
    );
    sizes.observe(element);
    return () => {
      sizes.disconnect();
      plot.current?.destroy();
    };
  }, [shape, props.height]);

  useEffect(() => {
    began.current = performance.now();
    plot.current?.setData(dataOf(props));
  }, [props.times, props.series]);
  useEffect(() => plot.current?.redraw(false), [props.mark, props.spikes]);
  return <div class="chart" ref={host} role="img" aria-label={props.label} />;
}
