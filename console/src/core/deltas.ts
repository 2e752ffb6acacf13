/** What the event stream carries, and how a delta changes a snapshot. What is not known is not there. */
import type { LiveStateView } from "../api/types.ts";

export type Snapshot = LiveStateView;

/** As a JSON merge patch: objects are merged, null takes away, everything else replaces. */
export function applied(before: Snapshot, delta: unknown): Snapshot {
  return merged(before, delta) as Snapshot;
}

function merged(before: unknown, change: unknown): unknown {
  if (!isObject(change)) return change;
  const result: Record<string, unknown> = isObject(before) ? { ...before } : {};
  for (const [name, value] of Object.entries(change)) {
    if (value === null) delete result[name];
    else result[name] = merged(result[name], value);
  }
  return result;
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
