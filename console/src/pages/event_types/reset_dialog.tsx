/** Moves a subscription to the beginning, the end, or a cursor of each partition. */
import { useSignal } from "@preact/signals";
import { call } from "../../api/call.ts";
import type { SubscriptionDocument } from "../../api/types.ts";
import { plural } from "../../core/numbers.ts";
import { Field, textOf } from "../../parts/basics.tsx";
import { Confirm } from "../../parts/dialog.tsx";

type Where = "begin" | "end" | "cursor";

export function ResetDialog({ subscription, rows, onClose, done }: {
  subscription: SubscriptionDocument;
  rows: { event_type: string; partition: string }[];
  onClose: () => void;
  done: () => void;
}) {
  const where = useSignal<Where>("begin");
  const cursor = useSignal("");
  const partition = useSignal("");
  const chosen = partition.value ? rows.filter((one) => keyOf(one) === partition.value) : rows;
  const act = async () => {
    const items = [];
    for (const one of chosen) items.push({ ...one, offset: await offsetOf(one, where.value, cursor.value.trim()) });
    await call("PATCH /subscriptions/{id}/cursors", { path: { id: subscription.id }, body: { items } });
    return `${plural(items.length, "partition")} reset.`;
  };
  return (
    <Confirm
      title={`Reset the subscription of ${subscription.owning_application}`}
      action={`Reset ${plural(chosen.length, "partition")}`}
      danger
      act={act}
      done={done}
      onClose={onClose}
    >
      <p class="muted">Its readers are disconnected and begin again at the new place.</p>
      <Field label="Partitions">
        <select value={partition.value} onChange={(event) => (partition.value = textOf(event))}>
          <option value="">all {rows.length}</option>
          {rows.map((one) => <option key={keyOf(one)} value={keyOf(one)}>{keyOf(one)}</option>)}
        </select>
      </Field>
      <Field label="To">
        <select value={where.value} onChange={(event) => (where.value = textOf(event) as Where)}>
          <option value="begin">the beginning: read all again that is still there</option>
          <option value="end">the end: leave out what was not read</option>
          <option value="cursor">a cursor</option>
        </select>
      </Field>
      {where.value === "cursor" && (
        <Field label="Cursor: reading goes on after it">
          <input
            class="mono"
            required
            value={cursor.value}
            onInput={(event) => (cursor.value = textOf(event))}
            placeholder="001-0001-000000000000000041"
          />
        </Field>
      )}
    </Confirm>
  );
}

function keyOf(one: { event_type: string; partition: string }): string {
  return `${one.event_type} ${one.partition}`;
}

async function offsetOf(one: { event_type: string; partition: string }, where: Where, cursor: string): Promise<string> {
  if (where === "begin") return "BEGIN";
  if (where === "cursor") return cursor;
  const path = { name: one.event_type, partition: one.partition };
  return (await call("GET /event-types/{name}/partitions/{partition}", { path })).newest_available_offset;
}
