/** The queues of an application: lag and position; each can be paused and reset. */
import { useSignal } from "@preact/signals";
import { call } from "../../api/call.ts";
import type { QueueDocument } from "../../api/types.ts";
import { count } from "../../core/numbers.ts";
import { may } from "../../core/session.ts";
import { Badge, Field, textOf } from "../../parts/basics.tsx";
import { Confirm } from "../../parts/dialog.tsx";
import { type Column, Table } from "../../parts/table.tsx";
import { attempt } from "../../parts/toasts.tsx";
import { shortened } from "../event_types/tail.tsx";
import { nameOf } from "./owners.ts";

export function Queues({ app, queues, done }: { app: string; queues: QueueDocument[]; done: () => void }) {
  const resetting = useSignal<QueueDocument | null>(null);
  const steer = (queue: QueueDocument, action: "pause" | "resume") =>
    void attempt(
      () => call(`POST /apps/{app}/queues/{queue}/${action}`, { path: { app, queue: queue.queue } }),
      `${nameOf(queue)} ${action === "pause" ? "is paused" : "goes on"}.`,
    ).then(done);
  const columns: Column<QueueDocument>[] = [
    { title: "Queue", show: (one) => <span class="name" title={one.queue}>{nameOf(one)}</span> },
    { title: "State", show: (one) => stateOf(one) },
    { title: "Owner", narrow: true, show: (one) => one.owner ?? "–" },
    { title: "Left to do", number: true, show: (one) => count(one.lag) },
    {
      title: "Done until",
      narrow: true,
      show: (one) => <span class="mono" title={one.cursor}>{shortened(one.cursor) || "–"}</span>,
    },
  ];
  if (may("apps")) {
    columns.push({
      title: "Actions",
      show: (one) => (
        <span class="row">
          <button
            type="button"
            class="tiny"
            aria-label={`${one.paused ? "Resume" : "Pause"} ${nameOf(one)}`}
            onClick={() => steer(one, one.paused ? "resume" : "pause")}
          >
            {one.paused ? "Resume" : "Pause"}
          </button>
          <button type="button" class="tiny" aria-label={`Reset … ${nameOf(one)}`} onClick={() => (resetting.value = one)}>
            Reset …
          </button>
        </span>
      ),
    });
  }
  return (
    <>
      <Table label="Queues" columns={columns} rows={queues} keyOf={(one) => one.queue} />
      {resetting.value && (
        <ResetQueue app={app} queue={resetting.value} done={done} onClose={() => (resetting.value = null)} />
      )}
    </>
  );
}

function stateOf(queue: QueueDocument) {
  if (queue.problem) return <Badge tone="bad">{queue.problem}</Badge>;
  if (queue.paused) return <Badge tone="warn">paused</Badge>;
  return queue.owner ? <Badge tone="good">owned</Badge> : <Badge tone="bad">no owner</Badge>;
}

function ResetQueue(
  { app, queue, done, onClose }: { app: string; queue: QueueDocument; done: () => void; onClose: () => void },
) {
  const cursor = useSignal("BEGIN");
  const act = async () => {
    await call("PUT /apps/{app}/queues/{queue}/last", {
      path: { app, queue: queue.queue },
      body: { cursor: cursor.value.trim() },
    });
    return `${nameOf(queue)} is reset.`;
  };
  return (
    <Confirm title={`Reset ${nameOf(queue)}`} action="Reset" danger act={act} done={done} onClose={onClose}>
      <p>Its job is run again for every event after this cursor. BEGIN does everything again that is still there.</p>
      <Field label="Cursor">
        <input class="mono" required value={cursor.value} onInput={(event) => (cursor.value = textOf(event))} />
      </Field>
    </Confirm>
  );
}
