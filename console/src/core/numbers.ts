/** Numbers for people: separators, short forms, rates and sizes. */

const plain = new Intl.NumberFormat("en");

export function count(value: number | null | undefined): string {
  return value === null || value === undefined ? "–" : plain.format(value);
}

export function short(value: number): string {
  const size = Math.abs(value);
  if (size < 10_000) return plain.format(Math.round(value * 10) / 10);
  if (size < 1_000_000) return `${trimmed(value / 1_000)} k`;
  return size < 1_000_000_000 ? `${trimmed(value / 1_000_000)} M` : `${trimmed(value / 1_000_000_000)} G`;
}

function trimmed(value: number): string {
  return (Math.abs(value) >= 100 ? value.toFixed(0) : value.toFixed(1)).replace(/\.0$/, "");
}

export function rate(perSecond: number | null | undefined): string {
  if (perSecond === null || perSecond === undefined) return "–";
  if (perSecond > 0 && perSecond < 0.05) return "< 0.1/s";
  return `${perSecond < 10 ? perSecond.toFixed(1) : short(Math.round(perSecond))}/s`;
}

export function plural(amount: number, noun: string, many = `${noun}s`): string {
  return `${count(amount)} ${amount === 1 ? noun : many}`;
}
