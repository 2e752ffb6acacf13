/** Asks for the new instant of a message, or of many. */
import { useSignal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { clusterNow, Problem } from "../../api/call.ts";
import { fromInput, parseDuration, toInput } from "../../core/time.ts";
import { Field, Segments, textOf } from "../../parts/basics.tsx";
import { Confirm } from "../../parts/dialog.tsx";
import type { Change } from "./message_filter.ts";

type How = "now" | "after" | "at";

export function MoveDialog({ title, action, act, done, onClose, children }: {
  title: string;
  action: string;
  act: (change: Change) => Promise<string>;
  done: () => void;
  onClose: () => void;
  children?: ComponentChildren;
}) {
  const how = useSignal<How>("now");
  const after = useSignal("1h");
  const at = useSignal(toInput(clusterNow() + 3_600_000));
  const change = (): Change => {
    if (how.value === "now") return { after_ms: 0 };
    if (how.value === "at") return { at_ms: fromInput(at.value) ?? clusterNow() };
    const length = parseDuration(after.value);
    if (length === null) throw new Problem(0, "say how long, like 90s, 15m, 4h or 2d", "");
    return { after_ms: length };
  };
  return (
    <Confirm title={title} action={action} act={async () => await act(change())} done={done} onClose={onClose}>
      {children}
      <Segments
        label="When"
        choices={[["now", "now"], ["after", "after"], ["at", "at"]]}
        chosen={how.value}
        onChoose={(value) => (how.value = value)}
      />
      {how.value === "after" && (
        <Field label="From now (90s, 15m, 4h, 2d)">
          <input value={after.value} onInput={(event) => (after.value = textOf(event))} />
        </Field>
      )}
      {how.value === "at" && (
        <Field label="Local time">
          <input type="datetime-local" step="1" value={at.value} onInput={(event) => (at.value = textOf(event))} />
        </Field>
      )}
    </Confirm>
  );
}
