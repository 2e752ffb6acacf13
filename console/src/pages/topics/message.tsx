/** One message: its body exactly as it was sent, why it failed, and what can be done with it. */
import { useSignal } from "@preact/signals";
import { call, callText } from "../../api/call.ts";
import type { FailedAttempt, MessageView } from "../../api/types.ts";
import { useAsk } from "../../core/ask.ts";
import { fieldsOf } from "../../core/exact_json.ts";
import { may } from "../../core/session.ts";
import { Facts, Trouble } from "../../parts/basics.tsx";
import { Confirm } from "../../parts/dialog.tsx";
import { Instant } from "../../parts/instant.tsx";
import { Json } from "../../parts/json.tsx";
import { deleteAll, moveAll } from "./message_filter.ts";
import { MoveDialog } from "./move_dialog.tsx";

type Doing = "move" | "delete" | null;

export function MessageDetail({ topic, message, done }: { topic: string; message: MessageView; done: () => void }) {
  const doing = useSignal<Doing>(null);
  const path = { topic, message_id: message.id };
  const asked = useAsk(
    `message ${topic} ${message.id} ${message.version}`,
    (signal) => callText("GET /topics/{topic}/messages/{message_id}", { path, query: { all: true }, signal }),
  );
  const fields = fieldsOf(asked.answer.value ?? "{}");
  const owner = may("produce", message.producer_group), operator = may("operate", topic);
  const close = () => (doing.value = null);
  const headers = { "X-Producer-Group": message.producer_group };
  const only = { ids: [message.id] };
  const remove = async () => {
    if (!owner) await deleteAll(topic, only, 1);
    else await call("DELETE /topics/{topic}/messages/{message_id}", { path, query: { version: message.version }, headers });
    return `${message.id} is deleted.`;
  };
  const move = async (change: { at_ms?: number; after_ms?: number }) => {
    const body = { ...change, version: message.version };
    if (!owner) await moveAll(topic, only, change, 1);
    else await call("PATCH /topics/{topic}/messages/{message_id}", { path, body, headers });
    return `${message.id} is moved.`;
  };
  return (
    <div class="stack">
      <div class="grid">
        <Facts
          facts={[
            ["Wished for", <Instant at={message.created_for_ms} key="wish" />],
            ["Producer group", message.producer_group],
            ["Version", message.version],
            ["Bucket", message.bucket_id],
            ["Attempts", message.attempts],
            ["Held by", message.lock_consumer_id ?? "nobody"],
          ]}
        />
        <Body fields={fields} />
      </div>
      <Trouble problem={asked.problem.value} again={asked.again} />
      <History fields={fields} />
      {(owner || operator) && (
        <div class="row">
          <button type="button" onClick={() => (doing.value = "move")}>Move …</button>
          <button type="button" class="danger" onClick={() => (doing.value = "delete")}>Delete …</button>
        </div>
      )}
      {doing.value === "move" && (
        <MoveDialog title={`Move ${message.id}`} action="Move" act={move} done={done} onClose={close} />
      )}
      {doing.value === "delete" && (
        <Confirm title={`Delete ${message.id}?`} action="Delete" danger act={remove} done={done} onClose={close}>
          <p>It will not be delivered any more. This cannot be undone.</p>
        </Confirm>
      )}
    </div>
  );
}

function Body({ fields }: { fields: Map<string, string> }) {
  const body = fields.get("body"), bytes = fields.get("body_b64");
  if (body !== undefined) return <Json label="Body" text={body} />;
  if (bytes !== undefined) return <Json label="Body in base64" text={bytes} />;
  return fields.size ? <p class="muted">This key may not see bodies.</p> : <p class="muted">The body is on its way.</p>;
}

export function History({ fields }: { fields: Map<string, string> }) {
  const letter = fields.has("dead_letter") ? JSON.parse(fields.get("dead_letter")!) : null;
  const history: FailedAttempt[] = letter?.history ?? JSON.parse(fields.get("history") ?? "[]");
  if (!letter && !history.length) return null;
  return (
    <div>
      {letter && (
        <p>
          Died in <strong>{letter.topic}</strong> <Instant at={letter.died_at_ms} near /> after {letter.attempts} attempts
          {letter.reason && (
            <>
              : <strong>{letter.reason}</strong>
            </>
          )}
        </p>
      )}
      <ul class="log">
        {history.map((one) => (
          <li key={one.attempt}>
            <span class="muted">attempt {one.attempt}</span> <Instant at={one.at_ms} /> <span>{one.consumer_id}</span>
            <span class="break">{one.reason}</span>
          </li>
        ))}
      </ul>
    </div>
  );
}
