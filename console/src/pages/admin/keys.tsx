/** API keys: whose they are and what they may do. A new one is shown once; only digests are stored. */
import { useSignal } from "@preact/signals";
import { call } from "../../api/call.ts";
import type { KeyView } from "../../api/types.ts";
import { useAsk } from "../../core/ask.ts";
import { Badge, Field, Head, Panel, textOf, Trouble } from "../../parts/basics.tsx";
import { Confirm } from "../../parts/dialog.tsx";
import { Command, Empty } from "../../parts/empty.tsx";
import { Instant } from "../../parts/instant.tsx";
import { type Column, Table } from "../../parts/table.tsx";

export function KeysPage() {
  const { answer, problem, again } = useAsk("keys", (signal) => call("GET /keys", { signal }), 10);
  const adding = useSignal(false);
  const made = useSignal<string | null>(null);
  const revoking = useSignal<KeyView | null>(null);
  const columns: Column<KeyView>[] = [
    { title: "Name", show: (one) => <span class="name">{one.name || one.id}</span> },
    { title: "State", show: (one) => one.revoked_ms ? <Badge tone="bad">revoked</Badge> : <Badge tone="good">valid</Badge> },
    {
      title: "Scopes",
      show: (one) => <span class="row">{one.scopes.map((scope) => <Badge bare key={scope}>{scope}</Badge>)}</span>,
    },
    { title: "Made", narrow: true, show: (one) => <Instant at={one.created_ms} /> },
    {
      title: "Actions",
      show: (one) =>
        !one.revoked_ms && (
          <button
            type="button"
            class="tiny danger"
            aria-label={`Revoke … ${one.name}`}
            onClick={() => (revoking.value = one)}
          >
            Revoke …
          </button>
        ),
    },
  ];
  const revoke = async () => {
    await call("DELETE /keys/{id}", { path: { id: revoking.value!.id } });
    return `${revoking.value!.name} is revoked.`;
  };
  return (
    <>
      <Head title="Keys">
        <button type="button" onClick={() => (adding.value = true)}>New key …</button>
      </Head>
      <Trouble problem={problem.value} again={again} />
      {made.value && (
        <div class="notice good" role="status">
          <span>The new key, shown only now:</span> <Command text={made.value} />
          <button type="button" class="tiny" onClick={() => (made.value = null)}>I have it</button>
        </div>
      )}
      {answer.value && (
        <Panel flush>
          {answer.value.keys.length === 0
            ? (
              <Empty title="There are no keys" command="meantime keys add operator --scope admin">
                A key says who is asking and what they may do:
              </Empty>
            )
            : <Table label="Keys" columns={columns} rows={answer.value.keys} keyOf={(one) => one.id} />}
        </Panel>
      )}
      {adding.value && <AddKey onMade={(key) => (made.value = key)} done={again} onClose={() => (adding.value = false)} />}
      {revoking.value && (
        <Confirm
          title={`Revoke ${revoking.value.name}?`}
          action="Revoke"
          danger
          act={revoke}
          done={again}
          onClose={() => (revoking.value = null)}
        >
          <p>
            It stops working on every node at once, its open streams end, and so do its sessions here. This cannot be undone.
          </p>
        </Confirm>
      )}
    </>
  );
}

function AddKey({ onMade, done, onClose }: { onMade: (key: string) => void; done: () => void; onClose: () => void }) {
  const name = useSignal("");
  const scopes = useSignal("look");
  const act = async () => {
    const asked = { name: name.value.trim(), scopes: scopes.value.split(/[\s,]+/).filter(Boolean) };
    onMade((await call("POST /keys", { body: asked })).key);
  };
  return (
    <Confirm title="New key" action="Make" act={act} done={done} onClose={onClose}>
      <Field label="Whose it is">
        <input required value={name.value} onInput={(event) => (name.value = textOf(event))} />
      </Field>
      <Field label="Scopes, with spaces between them">
        <input class="mono" required value={scopes.value} onInput={(event) => (scopes.value = textOf(event))} />
      </Field>
      <p class="small muted">
        admin, look, look:bodies, metrics, timers, apps, publish:…, read:…, produce:…, consume:…, operate:…, callback:…,
        schedules:…
      </p>
    </Confirm>
  );
}
