/** Sets a timer. */
import { useSignal } from "@preact/signals";
import { call, Problem } from "../../api/call.ts";
import { setQuery } from "../../core/route.ts";
import { parseDuration } from "../../core/time.ts";
import { Field, Panel, textOf } from "../../parts/basics.tsx";
import { tell } from "../../parts/toasts.tsx";

export function SetTimer() {
  const target = useSignal("event-type:");
  const after = useSignal("1m");
  const callback = useSignal('{"hello": "from a timer"}');
  const problem = useSignal<string | null>(null);
  const onSubmit = async (event: Event) => {
    event.preventDefault();
    problem.value = null;
    try {
      const length = parseDuration(after.value);
      if (length === null) throw new Problem(0, "say how long, like 90s, 15m, 4h or 2d", "");
      const given = `{"after": ${Math.round(length / 1000)}, "callback_topic": ${
        JSON.stringify(target.value.trim())
      }, "callback": ${callback.value || '""'}}`;
      const { token } = await call("POST /timers", { body: given });
      tell(`The timer ${token} is set.`);
      setQuery({ token });
    } catch (failure) {
      problem.value = failure instanceof Problem ? failure.message : String(failure);
    }
  };
  return (
    <Panel title="Set a timer">
      <form class="stack" onSubmit={onSubmit}>
        <div class="fields">
          <Field label="Calls back (event-type:<name> or a Kafka topic)">
            <input class="mono" required value={target.value} onInput={(event) => (target.value = textOf(event))} />
          </Field>
          <Field label="After (90s, 15m, 4h)">
            <input required value={after.value} onInput={(event) => (after.value = textOf(event))} />
          </Field>
        </div>
        <Field label="Callback, JSON">
          <textarea rows={3} value={callback.value} onInput={(event) => (callback.value = textOf(event))} />
        </Field>
        {problem.value && <div class="notice bad" role="alert">{problem.value}</div>}
        <div class="row">
          <button type="submit" class="primary">Set</button>
        </div>
      </form>
    </Panel>
  );
}
