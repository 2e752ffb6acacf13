/** Storages: where events are kept, and which one new event types go to. */
import { useSignal } from "@preact/signals";
import { call } from "../../api/call.ts";
import type { StorageView } from "../../api/types.ts";
import { useAsk } from "../../core/ask.ts";
import { may } from "../../core/session.ts";
import { Badge, Field, Head, Panel, textOf, Trouble } from "../../parts/basics.tsx";
import { Confirm } from "../../parts/dialog.tsx";
import { type Column, Table } from "../../parts/table.tsx";
import { attempt } from "../../parts/toasts.tsx";

export function StoragesPage() {
  const { answer, problem, again } = useAsk("storages", (signal) => call("GET /storages", { signal }), 10);
  const adding = useSignal(false);
  const removing = useSignal<StorageView | null>(null);
  const makeDefault = (id: string) =>
    void attempt(() => call("PUT /storages/default/{storage_id}", { path: { storage_id: id } }), `${id} is the default now.`)
      .then(again);
  const columns: Column<StorageView>[] = [
    {
      title: "Id",
      show: (one) => (
        <>
          <span class="name">{one.id}</span> {one.default && <Badge tone="info" bare>default</Badge>}
        </>
      ),
    },
    { title: "Kind", narrow: true, show: (one) => one.storage_type },
    { title: "Addresses", show: (one) => <span class="mono break">{one.kafka_configuration.bootstrap_servers}</span> },
  ];
  if (may("admin")) {
    columns.push({
      title: "Actions",
      show: (one) =>
        !one.default && (
          <span class="row">
            <button type="button" class="tiny" onClick={() => makeDefault(one.id)}>Make default</button>
            <button type="button" class="tiny danger" onClick={() => (removing.value = one)}>Remove …</button>
          </span>
        ),
    });
  }
  const remove = async () => {
    await call("DELETE /storages/{storage_id}", { path: { storage_id: removing.value!.id } });
  };
  return (
    <>
      <Head title="Storages">
        {may("admin") && <button type="button" onClick={() => (adding.value = true)}>Add a storage …</button>}
      </Head>
      <Trouble problem={problem.value} again={again} />
      {answer.value && (
        <Panel flush>
          <Table label="Storages" columns={columns} rows={answer.value} keyOf={(one) => one.id} />
        </Panel>
      )}
      {adding.value && <AddStorage onClose={() => (adding.value = false)} done={again} />}
      {removing.value && (
        <Confirm
          title={`Remove ${removing.value.id}?`}
          action="Remove"
          danger
          act={remove}
          done={again}
          onClose={() => (removing.value = null)}
        >
          <p>Meantime forgets it; what is stored there stays. A storage that is in use is not removed.</p>
        </Confirm>
      )}
    </>
  );
}

function AddStorage({ onClose, done }: { onClose: () => void; done: () => void }) {
  const id = useSignal("");
  const servers = useSignal("");
  const act = async () => {
    const kafka_configuration = { bootstrap_servers: servers.value.trim() };
    await call("POST /storages", { body: { id: id.value.trim(), storage_type: "kafka", kafka_configuration } });
    return `${id.value} is added.`;
  };
  return (
    <Confirm title="Add a storage" action="Add" act={act} done={done} onClose={onClose}>
      <Field label="Id">
        <input required value={id.value} onInput={(event) => (id.value = textOf(event))} />
      </Field>
      <Field label="Kafka brokers, host:port with commas">
        <input class="mono" required value={servers.value} onInput={(event) => (servers.value = textOf(event))} />
      </Field>
    </Confirm>
  );
}
