/**
 * A filter over JSON texts: a word that the text contains, or `path operator value` with `=`, `!=`, `>`, `<`, `>=`, `<=` or
 * `~` (contains), several joined by `and`. Whole numbers of any size are compared exactly.
 */
import { fieldsOf } from "./exact_json.ts";

interface Condition {
  path: string[];
  operator: string;
  value: string;
}

export type Filter = Condition[];

const CONDITION = /^([\w.@-]+)\s*(>=|<=|!=|=|>|<|~)\s*(.+)$/;

export function parseFilter(text: string): Filter | null {
  const parts = text.trim().split(/\s+and\s+/i).filter(Boolean);
  return parts.length ? parts.map(condition) : null;
}

function condition(part: string): Condition {
  const [, path, operator, value] = CONDITION.exec(part.trim()) ?? [];
  if (!path || !operator || value === undefined) return { path: [], operator: "~", value: part.trim() };
  return { path: path.split("."), operator, value: value.trim().replace(/^"(.*)"$/, "$1") };
}

export function matches(filter: Filter, text: string): boolean {
  return filter.every((one) => holds(one, one.path.length ? valueAt(text, one.path) : text));
}

function valueAt(text: string, path: string[]): string | undefined {
  let found: string | undefined = text;
  for (const name of path) found = found === undefined ? undefined : fieldsOf(found).get(name);
  return found;
}

function holds({ operator, value }: Condition, found: string | undefined): boolean {
  if (found === undefined) return operator === "!=";
  const plain = found.startsWith('"') && found.endsWith('"') ? String(JSON.parse(found)) : found;
  if (operator === "~") return plain.toLowerCase().includes(value.toLowerCase());
  const order = compared(plain, value);
  switch (operator) {
    case "=":
      return order === 0;
    case "!=":
      return order !== 0;
    case ">":
      return order > 0;
    case "<":
      return order < 0;
    case ">=":
      return order >= 0;
    default:
      return order <= 0;
  }
}

/** As numbers where both are, else as texts. */
function compared(found: string, value: string): number {
  const whole = /^-?\d+$/;
  if (whole.test(found) && whole.test(value)) {
    const difference = BigInt(found) - BigInt(value);
    return difference > 0n ? 1 : difference < 0n ? -1 : 0;
  }
  const numbers = [Number(found), Number(value)] as const;
  if (found.trim() && value.trim() && numbers.every((one) => !Number.isNaN(one))) return Math.sign(numbers[0] - numbers[1]);
  return found === value ? 0 : found > value ? 1 : -1;
}
