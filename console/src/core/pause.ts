/** Whether live updates are paused, by the viewer's own choice; and the time of the cluster as a signal that ticks. */
import { signal } from "@preact/signals";
import { clusterNow } from "../api/call.ts";

export const paused = signal(false);
export const now = signal(clusterNow());

export function startClock(): void {
  setInterval(() => {
    if (!paused.value) now.value = clusterNow();
  }, 1000);
}
