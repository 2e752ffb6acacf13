/** One schedule: what comes next, what happened, and what can be done with it. */
import { useSignal } from "@preact/signals";
import { useRef } from "preact/hooks";
import { call, callText, clusterNow } from "../../api/call.ts";
import type { ScheduleView } from "../../api/types.ts";
import { useAsk } from "../../core/ask.ts";
import { fieldsOf } from "../../core/exact_json.ts";
import { count } from "../../core/numbers.ts";
import { go, link } from "../../core/route.ts";
import { may } from "../../core/session.ts";
import { duration } from "../../core/time.ts";
import { Badge, Facts, Field, Head, Panel, textOf, Trouble } from "../../parts/basics.tsx";
import { Confirm } from "../../parts/dialog.tsx";
import { Instant } from "../../parts/instant.tsx";
import { attempt } from "../../parts/toasts.tsx";
import { isEditable } from "./draft.ts";
import { EditDialog } from "./edit_dialog.tsx";
import { History, NextFirings } from "./firings.tsx";
import { ruleOf, targetOf } from "./words.ts";

type Doing = "fire" | "pause" | "edit" | "delete" | null;

export function SchedulePage({ id }: { id: string }) {
  const doing = useSignal<Doing>(null);
  const path = { id };
  const { answer, problem, again } = useAsk(
    `schedule ${id}`,
    (signal) => callText("GET /schedules/{id}", { path, signal }),
    5,
  );
  const schedule: ScheduleView | null = answer.value ? JSON.parse(answer.value) : null;
  const close = () => (doing.value = null);
  const resume = () => void attempt(() => call("POST /schedules/{id}/resume", { path }), `${id} goes on.`).then(again);
  return (
    <>
      <Head title={id} up={["Schedules", link(["schedules"])]}>
        {schedule && (schedule.paused ? <Badge tone="warn">paused</Badge> : <Badge tone="good">active</Badge>)}
        {schedule && may("schedules", id) && (
          <div class="row">
            <button type="button" onClick={() => (doing.value = "fire")}>Fire now …</button>
            {schedule.paused
              ? <button type="button" onClick={resume}>Resume</button>
              : <button type="button" onClick={() => (doing.value = "pause")}>Pause …</button>}
            {isEditable(schedule) && <button type="button" onClick={() => (doing.value = "edit")}>Edit …</button>}
            <button type="button" class="danger" onClick={() => (doing.value = "delete")}>Delete …</button>
          </div>
        )}
      </Head>
      <Trouble problem={problem.value} again={again} />
      {schedule && (
        <>
          <About schedule={schedule} />
          <div class="grid">
            <NextFirings id={id} version={schedule.version} />
            <History id={id} />
          </div>
        </>
      )}
      {doing.value === "fire" && <Fire id={id} done={again} onClose={close} />}
      {doing.value === "pause" && <Pause id={id} done={again} onClose={close} />}
      {doing.value === "delete" && <Delete id={id} onClose={close} />}
      {doing.value === "edit" && schedule && (
        <EditDialog schedule={schedule} body={fieldsOf(answer.value!).get("body")} done={again} onClose={close} />
      )}
    </>
  );
}

function About({ schedule }: { schedule: ScheduleView }) {
  return (
    <Panel>
      <Facts
        facts={[
          ["When", <span class="mono" key="rule">{ruleOf(schedule)}</span>],
          ["Time zone", schedule.time_zone ?? "UTC"],
          ["Target", targetOf(schedule.target)],
          ["Next", <Instant at={schedule.next_at_ms} near key="next" />],
          ["Last", <Instant at={schedule.last_at_ms} near key="last" />],
          ["Firings", count(schedule.firings)],
          [
            "After an outage",
            `${schedule.missed ?? "last"} of what was missed within ${duration(schedule.missed_within_ms ?? 0)}`,
          ],
          ["When clocks change", `gap: ${schedule.on_gap ?? "after"}, overlap: ${schedule.on_overlap ?? "first"}`],
          ["Version", `${schedule.version}${schedule.tzdata ? `, time zones ${schedule.tzdata}` : ""}`],
          ...(schedule.note ? [["Note", schedule.note] as [string, string]] : []),
        ]}
      />
    </Panel>
  );
}

interface Doable {
  id: string;
  done: () => void;
  onClose: () => void;
}

/** Its instant is that of the dialog: what is sent twice is the same firing. */
function Fire({ id, done, onClose }: Doable) {
  const at_ms = useRef(Math.round(clusterNow()));
  const act = async () => {
    await call("POST /schedules/{id}/fire", { path: { id }, body: { at_ms: at_ms.current } });
    return `${id} has fired.`;
  };
  return (
    <Confirm title={`Fire ${id} now?`} action="Fire now" act={act} done={done} onClose={onClose}>
      <p>Once more, beside what is planned.</p>
    </Confirm>
  );
}

function Pause({ id, done, onClose }: Doable) {
  const note = useSignal("");
  const act = async () => {
    await call("POST /schedules/{id}/pause", { path: { id }, body: { note: note.value } });
    return `${id} is paused.`;
  };
  return (
    <Confirm title={`Pause ${id}`} action="Pause" act={act} done={done} onClose={onClose}>
      <Field label="Why (shown to others)">
        <input value={note.value} onInput={(event) => (note.value = textOf(event))} />
      </Field>
    </Confirm>
  );
}

function Delete({ id, onClose }: { id: string; onClose: () => void }) {
  const act = async () => {
    await call("DELETE /schedules/{id}", { path: { id } });
    return `${id} is deleted.`;
  };
  return (
    <Confirm
      title={`Delete ${id}?`}
      action="Delete"
      danger
      act={act}
      done={() => go(link(["schedules"]))}
      onClose={onClose}
    >
      <p>It will not fire any more; what was set ahead is taken back.</p>
    </Confirm>
  );
}
