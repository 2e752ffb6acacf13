/**
 * JSON as it was sent. JavaScript would round large integers, sort keys that are numbers and drop repeated ones, so bodies are
 * never parsed: the text is cut at its borders and shown with new white space only.
 */

const SPACE = /[ \t\r\n]*/y;
const TOKEN = /"(?:[^"\\]|\\.)*"|[{}[\],:]|[^\s{}[\],:"]+/y;

function tokenAt(text: string, at: number): { token: string; end: number } | null {
  SPACE.lastIndex = at;
  SPACE.exec(text);
  TOKEN.lastIndex = SPACE.lastIndex;
  const found = TOKEN.exec(text);
  return found ? { token: found[0], end: TOKEN.lastIndex } : null;
}

/** Where the value that begins at `at` ends. */
function endOfValue(text: string, at: number): number {
  let depth = 0;
  for (let next = tokenAt(text, at); next; next = tokenAt(text, next.end)) {
    if (next.token === "{" || next.token === "[") depth++;
    if (next.token === "}" || next.token === "]") depth--;
    if (depth === 0) return next.end;
  }
  return text.length;
}

/** The fields of an object, each as the text that stands there. */
export function fieldsOf(text: string): Map<string, string> {
  const found = new Map<string, string>();
  let next = tokenAt(text, 0);
  if (next?.token !== "{") return found;
  for (next = tokenAt(text, next.end); next && next.token !== "}"; next = tokenAt(text, next.end)) {
    if (next.token === ",") continue;
    const colon = tokenAt(text, next.end);
    if (!colon) break;
    const end = endOfValue(text, colon.end);
    found.set(JSON.parse(next.token), text.slice(colon.end, end).trim());
    next = { token: "", end };
  }
  return found;
}

/** The entries of an array, each as the text that stands there. */
export function entriesOf(text: string): string[] {
  const found: string[] = [];
  let next = tokenAt(text, 0);
  if (next?.token !== "[") return found;
  let start = next.end;
  for (next = tokenAt(text, start); next && next.token !== "]"; next = tokenAt(text, start)) {
    if (next.token === ",") {
      start = next.end;
      continue;
    }
    const end = endOfValue(text, start);
    found.push(text.slice(start, end).trim());
    start = end;
  }
  return found;
}

/** The same tokens on lines of their own, indented; a short array or object stays on one line. */
export function pretty(text: string, width = 72): string {
  try {
    JSON.parse(text);
  } catch {
    return text;
  }
  const lines = prettied(text, 0, width);
  return lines ?? text;
}

function prettied(text: string, depth: number, width: number): string | null {
  const flat = flattened(text);
  if (flat === null) return null;
  const first = flat[0];
  if ((first !== "{" && first !== "[") || flat.length + depth * 2 <= width) return flat;
  const inner = "  ".repeat(depth + 1);
  const parts = first === "{"
    ? rawFields(text).map(([key, value]) => `${inner}${key}: ${prettied(value, depth + 1, width) ?? value}`)
    : entriesOf(text).map((value) => inner + (prettied(value, depth + 1, width) ?? value));
  return `${first}\n${parts.join(",\n")}\n${"  ".repeat(depth)}${first === "{" ? "}" : "]"}`;
}

/** Keys with their quotes, in the order they were sent, repeated ones too. */
function rawFields(text: string): [string, string][] {
  const found: [string, string][] = [];
  let next = tokenAt(text, tokenAt(text, 0)?.end ?? 0);
  while (next && next.token !== "}") {
    if (next.token !== ",") {
      const colon = tokenAt(text, next.end);
      if (!colon) break;
      const end = endOfValue(text, colon.end);
      found.push([next.token, text.slice(colon.end, end).trim()]);
      next = { token: "", end };
    }
    next = tokenAt(text, next.end);
  }
  return found;
}

/** On one line, with the white space of a careful writer; null where it is not JSON. */
function flattened(text: string): string | null {
  let flat = "", last = "";
  let next = tokenAt(text, 0);
  if (!next) return null;
  let end = 0;
  for (; next; next = tokenAt(text, next.end)) {
    const { token } = next;
    if (last === "," || last === ":") flat += " ";
    if (last === "{" && token !== "}") flat += " ";
    if (token === "}" && last !== "{" && last !== "") flat += " ";
    flat += token;
    last = token;
    end = next.end;
  }
  return text.slice(end).trim() === "" ? flat : null;
}
