/** Which messages are meant: by status, by the time they are due, by the beginning of their ids. It stands in the address, and
 * the same filter that lists them is sent to count, move and delete them. */
import { call } from "../../api/call.ts";
import type { FilterForm, MessagesView } from "../../api/types.ts";
import { numberIn, query } from "../../core/route.ts";

export const STATUSES = ["waiting", "available", "processing", "dead"] as const;
export type Status = typeof STATUSES[number];

export type MessageFilter = FilterForm;

export function filterInAddress(): MessageFilter {
  const status = query("status") as Status | null;
  return present({
    status: status && STATUSES.includes(status) ? status : undefined,
    from_ms: numberIn("from") ?? undefined,
    to_ms: numberIn("to") ?? undefined,
    id_prefix: query("id") ?? undefined,
  });
}

function present<Part extends object>(part: Part): Part {
  return Object.fromEntries(Object.entries(part).filter(([, value]) => value !== undefined && value !== "")) as Part;
}

export const PAGE = 50;

export async function listed(
  topic: string,
  filter: MessageFilter,
  after: string | null,
  signal: AbortSignal,
): Promise<MessagesView> {
  const { ids: _, ...rest } = filter;
  const asked = { ...rest, all: true, bodies: false, after, limit: PAGE };
  return await call("GET /topics/{topic}/messages", { path: { topic }, query: asked, signal });
}

/** How many messages the filter holds that can be changed: counted as the change itself will count them. */
export async function counted(topic: string, filter: MessageFilter): Promise<number> {
  return (await call("POST /topics/{topic}/messages/delete", { path: { topic }, body: { filter, dry_run: true } })).count ??
    0;
}

export interface Change {
  at_ms?: number;
  after_ms?: number;
}

export async function moveAll(topic: string, filter: MessageFilter, change: Change, expect: number): Promise<number> {
  const body = { filter, ...change, expect };
  return (await call("POST /topics/{topic}/messages/move", { path: { topic }, body })).count;
}

export async function deleteAll(topic: string, filter: MessageFilter, expect: number): Promise<number> {
  return (await call("POST /topics/{topic}/messages/delete", { path: { topic }, body: { filter, expect } })).count ?? 0;
}
