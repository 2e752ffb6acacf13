/** One timer by its token; it can be cancelled here while there is time. */
import { useSignal } from "@preact/signals";
import { call } from "../../api/call.ts";
import type { KnownTimerView } from "../../api/types.ts";
import { useAsk } from "../../core/ask.ts";
import { query, setQuery } from "../../core/route.ts";
import { may } from "../../core/session.ts";
import { Badge, Facts, Field, Panel, textOf, type Tone, Trouble } from "../../parts/basics.tsx";
import { Confirm } from "../../parts/dialog.tsx";
import { Instant } from "../../parts/instant.tsx";

const TONES: Record<string, Tone> = { pending: "info", fired: "good", cancelled: "", rejected: "bad" };

export function LookUp() {
  const token = query("token") ?? "";
  const text = useSignal(token);
  const onSubmit = (event: Event) => {
    event.preventDefault();
    setQuery({ token: text.value.trim() });
  };
  return (
    <Panel title="Look up a timer">
      <form class="stack" onSubmit={onSubmit}>
        <Field label="Token">
          <input class="mono" value={text.value} onInput={(event) => (text.value = textOf(event))} />
        </Field>
        <div class="row">
          <button type="submit">Look up</button>
        </div>
      </form>
      {token && <Known key={token} token={token} />}
    </Panel>
  );
}

function Known({ token }: { token: string }) {
  const cancelling = useSignal(false);
  const path = { token };
  const { answer, problem, again } = useAsk(`timer ${token}`, (signal) => call("GET /timers/{token}", { path, signal }), 2);
  const timer = answer.value as KnownTimerView | null;
  if (problem.value && !timer) {
    return <p class="notice">{problem.value.status === 404 ? "No timer has this token." : problem.value.message}</p>;
  }
  if (!timer) return null;
  const cancel = async () => {
    await call("DELETE /timers/{token}", { path, query: { at: timer.at } });
    return "The timer is cancelled.";
  };
  return (
    <div class="stack found">
      <Facts
        facts={[
          ["State", <Badge tone={TONES[timer.state] ?? ""} key="state">{timer.state}</Badge>],
          ["Second", <Instant at={timer.at * 1000} near key="at" />],
          ["Fired", <Instant at={timer.fired_at_ms} key="fired" />],
          ...(timer.reason ? [["Reason", timer.reason] as [string, string]] : []),
        ]}
      />
      <Trouble problem={problem.value} />
      {timer.state === "pending" && may("timers") && (
        <div class="row">
          <button type="button" class="danger" onClick={() => (cancelling.value = true)}>Cancel …</button>
        </div>
      )}
      {cancelling.value && (
        <Confirm
          title={`Cancel ${token}?`}
          action="Cancel the timer"
          danger
          act={cancel}
          done={again}
          onClose={() => (cancelling.value = false)}
        >
          <p>It will not call back. A timer can be set again under another token or second.</p>
        </Confirm>
      )}
    </div>
  );
}
