/** Starts a switch. The request ends when the switch ends, so the page watches it meanwhile. One key makes one switch: what
 * is sent twice is the same. */
import { useSignal } from "@preact/signals";
import { call } from "../../api/call.ts";
import { useAsk } from "../../core/ask.ts";
import { Field, textOf, Trouble } from "../../parts/basics.tsx";
import { Dialog } from "../../parts/dialog.tsx";
import { attempt } from "../../parts/toasts.tsx";

export function SwitchDialog({ name, from, onClose, onStarted, onEnded }: {
  name: string;
  from: string;
  onClose: () => void;
  onStarted: () => void;
  onEnded: () => void;
}) {
  const { answer, problem } = useAsk("storages", (signal) => call("GET /storages", { signal }));
  const storages = answer.value ?? [];
  const chosen = useSignal<string | null>(null);
  const force = useSignal(false);
  const target = chosen.value ?? storages.find((one) => one.id !== from)?.id ?? storages[0]?.id ?? "";
  const onSubmit = (event: Event) => {
    event.preventDefault();
    const headers = { "Idempotency-Key": crypto.getRandomValues(new Uint32Array(4)).join("-") };
    onClose();
    onStarted();
    const start = () =>
      call("POST /event-types/{name}/timelines", {
        path: { name },
        body: { storage_id: target, force: force.value },
        headers,
      });
    void attempt(start, `${name} is on ${target} now.`).then(onEnded);
  };
  return (
    <Dialog title={`Switch ${name} to another storage`} onClose={onClose}>
      <Trouble problem={problem.value} />
      <form onSubmit={onSubmit}>
        <p class="muted">
          Publishers wait for some milliseconds while all nodes move on; nothing that was acknowledged is lost, and readers
          go on over the border.
        </p>
        <Field label="Storage">
          <select value={target} onChange={(event) => (chosen.value = textOf(event))}>
            {storages.map((one) => (
              <option key={one.id} value={one.id}>{one.id === from ? `${one.id} (in use now)` : one.id}</option>
            ))}
          </select>
        </Field>
        <label class="row">
          <input type="checkbox" checked={force.value} onChange={(event) => (force.value = event.currentTarget.checked)} />
          Leave {from} behind even if it is dead
        </label>
        <div class="actions">
          <button type="button" onClick={onClose}>Keep as it is</button>
          <button type="submit" class="primary" disabled={!target}>Switch</button>
        </div>
      </form>
    </Dialog>
  );
}
