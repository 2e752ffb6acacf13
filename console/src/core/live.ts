/**
 * The event stream of the node: one snapshot, then what has changed, about once a second. The state says whether what is shown
 * is fresh: `live`, `stale` after some silence, `lost` when the stream has ended, `paused` by the viewer's choice.
 */
import { computed, effect, signal } from "@preact/signals";
import { address, clusterClock } from "../api/call.ts";
import { applied, type Snapshot } from "./deltas.ts";
import { now, paused } from "./pause.ts";
import { loadSession, session } from "./session.ts";

export type LiveState = "connecting" | "live" | "stale" | "lost" | "paused";

const STALE_AFTER_MS = 5_000;
const AGAIN_AFTER_MS = 2_000;

export const snapshot = signal<Snapshot | null>(null);
const heardAt = signal<number | null>(null);
const connected = signal(false);
let source: EventSource | null = null;
let waiting: ReturnType<typeof setTimeout> | undefined;

export const staleSince = computed(() => heardAt.value);
export const liveState = computed<LiveState>(() => {
  if (paused.value) return "paused";
  if (heardAt.value === null) return connected.value ? "connecting" : "lost";
  if (!connected.value) return "lost";
  return now.value - clusterClock.offset - heardAt.value > STALE_AFTER_MS ? "stale" : "live";
});

function heard(next: Snapshot): void {
  snapshot.value = next;
  heardAt.value = Date.now();
  if (next.now_ms) clusterClock.offset = next.now_ms - Date.now();
}

function open(): void {
  close();
  connected.value = true;
  source = new EventSource(address("GET /console/events"));
  source.addEventListener("snapshot", (event) => heard(JSON.parse((event as MessageEvent).data)));
  source.addEventListener("delta", (event) => {
    if (snapshot.value) heard(applied(snapshot.value, JSON.parse((event as MessageEvent).data)));
  });
  source.onerror = () => {
    close();
    waiting = setTimeout(retry, AGAIN_AFTER_MS);
  };
}

/** The end of a stream may be the end of a session. */
async function retry(): Promise<void> {
  if (session.value?.authentication) await loadSession().catch(() => undefined);
  if (session.value && !paused.value) open();
}

function close(): void {
  clearTimeout(waiting);
  source?.close();
  source = null;
  connected.value = false;
}

export function startLive(): void {
  effect(() => {
    if (session.value && !paused.value) queueMicrotask(open);
    else close();
  });
}
