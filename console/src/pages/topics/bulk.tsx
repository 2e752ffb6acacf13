/** What can be done with all messages that the filter holds. The number is asked for when the action is chosen, said, and sent
 * along: when it is no longer true, the node changes nothing. */
import { useSignal } from "@preact/signals";
import { Problem } from "../../api/call.ts";
import { plural } from "../../core/numbers.ts";
import { utcTime } from "../../core/time.ts";
import { Confirm } from "../../parts/dialog.tsx";
import { tell } from "../../parts/toasts.tsx";
import { type Change, counted, deleteAll, type MessageFilter, moveAll } from "./message_filter.ts";
import { MoveDialog } from "./move_dialog.tsx";

type Doing = { what: "move" | "delete"; amount: number } | null;

export function words(filter: MessageFilter): string {
  const parts = [
    filter.status && `status ${filter.status}`,
    typeof filter.from_ms === "number" && `due from ${utcTime(filter.from_ms)}`,
    typeof filter.to_ms === "number" && `due before ${utcTime(filter.to_ms)}`,
    filter.id_prefix && `ids that begin with ${filter.id_prefix}`,
  ].filter(Boolean);
  return parts.join(", ") || "everything in the topic";
}

export function BulkActions({ topic, filter, done }: { topic: string; filter: MessageFilter; done: () => void }) {
  const doing = useSignal<Doing>(null);
  const choose = async (what: "move" | "delete") => {
    try {
      doing.value = { what, amount: await counted(topic, filter) };
    } catch (failure) {
      tell(failure instanceof Problem ? failure.message : String(failure), true);
    }
  };
  const close = () => (doing.value = null);
  const chosen = doing.value;
  return (
    <>
      <button type="button" onClick={() => void choose("move")}>Move all …</button>
      <button type="button" class="danger" onClick={() => void choose("delete")}>Delete all …</button>
      {chosen?.what === "move" && (
        <MoveDialog
          title={`Move ${plural(chosen.amount, "message")}`}
          action={`Move ${plural(chosen.amount, "message")}`}
          act={async (change: Change) => `${plural(await moveAll(topic, filter, change, chosen.amount), "message")} moved.`}
          done={done}
          onClose={close}
        >
          <p>Of {topic}: {words(filter)}. Those that a consumer holds stay as they are.</p>
        </MoveDialog>
      )}
      {chosen?.what === "delete" && (
        <Confirm
          title={`Delete ${plural(chosen.amount, "message")}?`}
          action={`Delete ${plural(chosen.amount, "message")}`}
          danger
          act={async () => `${plural(await deleteAll(topic, filter, chosen.amount), "message")} deleted.`}
          done={done}
          onClose={close}
        >
          <p>Of {topic}: {words(filter)}. They will not be delivered any more. This cannot be undone.</p>
        </Confirm>
      )}
    </>
  );
}
