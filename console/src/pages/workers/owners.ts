/** Who owns which queue, followed as it changes. The first line of a queue is how it is; every other one is a hand-over. */
import { type Signal, useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { lines } from "../../api/call.ts";
import type { OwnerChangeView, QueueDocument } from "../../api/types.ts";
import { paused } from "../../core/pause.ts";

export interface HandOver {
  queue: string;
  name: string;
  from: string | null;
  to: string | null;
  at: number;
}

export interface Owners {
  owners: Map<string, string | null>;
  seen: HandOver[];
}

const MOST_KEPT = 50;
const AGAIN_AFTER_MS = 2_000;

export function nameOf(queue: Pick<QueueDocument, "event_type" | "partition" | "queue">): string {
  return queue.event_type ? `${queue.event_type} ${queue.partition}` : queue.queue;
}

export function noted(before: Owners, change: OwnerChangeView): Owners {
  const { queue, owner, at_ms } = change;
  const known = before.owners.has(queue), former = before.owners.get(queue) ?? null;
  const owners = new Map(before.owners).set(queue, owner);
  if (!known || former === owner) return { ...before, owners };
  const handOver = { queue, name: nameOf(change), from: former, to: owner, at: at_ms };
  return { owners, seen: [handOver, ...before.seen].slice(0, MOST_KEPT) };
}

/** What the stream has told; one that ends is opened again. */
export function useOwners(app: string): Signal<Owners> {
  const state = useSignal<Owners>({ owners: new Map(), seen: [] });
  useEffect(() => {
    if (paused.value) return;
    const ending = new AbortController();
    const follow = async () => {
      while (!ending.signal.aborted) {
        try {
          for await (const line of lines("GET /apps/{app}/changes", { path: { app }, signal: ending.signal })) {
            state.value = noted(state.value, JSON.parse(line));
          }
        } catch {
          // The node is away, or the page is left.
        }
        await new Promise((resolve) => setTimeout(resolve, AGAIN_AFTER_MS));
      }
    };
    void follow();
    return () => ending.abort();
  }, [app, paused.value]);
  return state;
}
