/** What has been done, said once in the corner. A failure stays until it is closed. */
import { signal } from "@preact/signals";
import { Problem } from "../api/call.ts";

interface Toast {
  id: number;
  text: string;
  bad: boolean;
}

const toasts = signal<Toast[]>([]);
const SHOWN_FOR_MS = 5000;
let next = 0;

export function tell(text: string, bad = false): void {
  const id = ++next;
  toasts.value = [...toasts.value.slice(-3), { id, text, bad }];
  if (!bad) setTimeout(() => close(id), SHOWN_FOR_MS);
}

function close(id: number): void {
  toasts.value = toasts.value.filter((one) => one.id !== id);
}

/** Does it, and says how it went. */
export async function attempt(act: () => Promise<unknown>, done: string): Promise<boolean> {
  try {
    await act();
    tell(done);
    return true;
  } catch (failure) {
    tell(failure instanceof Problem ? failure.message : String(failure), true);
    return false;
  }
}

export function Toasts() {
  return (
    <div class="toasts" role="status" aria-live="polite">
      {toasts.value.map((one) => (
        <div key={one.id} class={one.bad ? "toast bad" : "toast"}>
          <span>{one.text}</span>
          <button type="button" aria-label="Close" onClick={() => close(one.id)}>×</button>
        </div>
      ))}
    </div>
  );
}
