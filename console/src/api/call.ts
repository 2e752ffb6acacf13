/** Calls of the API, typed by its own table. An answer that is no success becomes a `Problem` with what the node said. */
import type { Operations } from "./types.ts";

/** The script lies at `<prefix>/console/assets/`, the API at `<prefix>/`, whatever the address of the page is. */
const BASE = new URL("../..", import.meta.url);

type Method = keyof Operations;
type Fields<Part> = { [Name in keyof Part]: Part[Name] | null | undefined };

export interface Given<Operation extends Method> {
  path?: Operations[Operation]["path"];
  query?: Partial<Fields<Operations[Operation]["query"]>>;
  /** A text is sent as it stands, so that the numbers in it are not rounded. */
  body?: Operations[Operation]["body"] | string;
  headers?: Record<string, string>;
  signal?: AbortSignal;
}

export class Problem extends Error {
  constructor(
    readonly status: number,
    message: string,
    readonly code: string,
    readonly extras: Record<string, unknown> = {},
  ) {
    super(message);
  }
}

/** Told of every 401, so that the login page can be shown. */
export const unauthenticated = { happened: (): void => undefined };

/** How far the cluster's clock is ahead of the browser's, by the latest answer. */
export const clusterClock = { offset: 0 };

export function clusterNow(): number {
  return Date.now() + clusterClock.offset;
}

export function address(operation: string, path: object = {}, query: object = {}): URL {
  const pattern = operation.slice(operation.indexOf(" ") + 1);
  const names = path as Record<string, string>;
  const filled = pattern.replace(/\{(\w+)\}/g, (_, name) => encodeURIComponent(String(names[name] ?? "")));
  const target = new URL(filled.slice(1), BASE);
  for (const [name, value] of Object.entries(query)) {
    if (value !== null && value !== undefined && value !== "") target.searchParams.set(name, String(value));
  }
  return target;
}

export async function request(operation: string, given: Given<Method>): Promise<Response> {
  const headers: Record<string, string> = { Accept: "application/json", ...given.headers };
  if (given.body !== undefined) headers["Content-Type"] = "application/json";
  const body = typeof given.body === "string" ? given.body : JSON.stringify(given.body);
  const [method] = operation.split(" ");
  let response: Response;
  try {
    response = await fetch(address(operation, given.path, given.query), { method, headers, body, signal: given.signal });
  } catch (failure) {
    if (failure instanceof DOMException && failure.name === "AbortError") throw failure;
    throw new Problem(0, "the node does not answer", "unreachable");
  }
  const now = Number(response.headers.get("X-Meantime-Now"));
  if (now) clusterClock.offset = now - Date.now();
  if (response.ok) return response;
  if (response.status === 401) unauthenticated.happened();
  throw await problemOf(response);
}

async function problemOf(response: Response): Promise<Problem> {
  try {
    const { detail, code, ...extras } = await response.json();
    return new Problem(response.status, detail ?? response.statusText, code ?? "", extras);
  } catch {
    return new Problem(response.status, response.statusText || `status ${response.status}`, "");
  }
}

export async function call<Operation extends Method>(
  operation: Operation,
  given: Given<Operation> = {},
): Promise<Operations[Operation]["answer"]> {
  const response = await request(operation, given as Given<Method>);
  const text = await response.text();
  return (text ? JSON.parse(text) : undefined) as Operations[Operation]["answer"];
}

/** The answer as the text that was sent, for what must be shown exactly. */
export async function callText<Operation extends Method>(
  operation: Operation,
  given: Given<Operation> = {},
): Promise<string> {
  return await (await request(operation, given as Given<Method>)).text();
}

/** The lines of a stream as they come, until it ends or the signal says so. */
export async function* lines<Operation extends Method>(
  operation: Operation,
  given: Given<Operation>,
): AsyncGenerator<string> {
  const response = await request(operation, given as Given<Method>);
  if (!response.body) return;
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const pieces = (rest + value).split("\n");
    rest = pieces.pop() ?? "";
    for (const piece of pieces) if (piece.trim()) yield piece;
  }
}
