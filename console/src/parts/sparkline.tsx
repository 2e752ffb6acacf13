/** A line of the latest minutes, with zero marked; drawn as SVG because there may be one for each node. */

export interface Point {
  at: number;
  value: number;
}

const WIDTH = 120, HEIGHT = 28;

export function pathOf(points: Point[], limit: number): string {
  const first = points[0]?.at ?? 0, last = points[points.length - 1]?.at ?? 1;
  const x = (at: number) => ((at - first) / Math.max(1, last - first)) * WIDTH;
  const y = (value: number) => HEIGHT / 2 - (Math.max(-limit, Math.min(limit, value)) / limit) * (HEIGHT / 2 - 2);
  return points.map((one, index) => `${index ? "L" : "M"}${x(one.at).toFixed(1)} ${y(one.value).toFixed(1)}`).join("");
}

export function Sparkline({ points, label }: { points: Point[]; label: string }) {
  const limit = Math.max(1, ...points.map((one) => Math.abs(one.value))) * 1.1;
  return (
    <svg class="spark" viewBox={`0 0 ${WIDTH} ${HEIGHT}`} role="img" aria-label={label} preserveAspectRatio="none">
      <line x1="0" y1={HEIGHT / 2} x2={WIDTH} y2={HEIGHT / 2} />
      {points.length > 1 && <path d={pathOf(points, limit)} />}
    </svg>
  );
}
