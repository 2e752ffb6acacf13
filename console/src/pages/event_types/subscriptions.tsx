/** Who reads an event type by subscription: readers and lag by partition, and a reset to another place. */
import { useSignal } from "@preact/signals";
import { call } from "../../api/call.ts";
import type { PartitionReport, SubscriptionDocument } from "../../api/types.ts";
import { useAsk } from "../../core/ask.ts";
import { count, plural } from "../../core/numbers.ts";
import { query, setQuery } from "../../core/route.ts";
import { may } from "../../core/session.ts";
import { Badge, Panel, Trouble } from "../../parts/basics.tsx";
import { Empty } from "../../parts/empty.tsx";
import { Instant } from "../../parts/instant.tsx";
import { type Column, Table } from "../../parts/table.tsx";
import { ResetDialog } from "./reset_dialog.tsx";

const COLUMNS: Column<SubscriptionDocument>[] = [
  { title: "Application", show: (one) => <span class="name">{one.owning_application}</span> },
  { title: "Group", show: (one) => one.consumer_group },
  { title: "Event types", narrow: true, show: (one) => one.event_types.join(", ") },
  { title: "Created", narrow: true, show: (one) => <Instant at={one.created_at} /> },
];

export function Subscriptions({ name }: { name: string }) {
  const { answer, problem, again } = useAsk(
    `subscriptions ${name}`,
    (signal) => call("GET /subscriptions", { query: { event_type: [name] as never, limit: 100 }, signal }),
    10,
  );
  const items = answer.value?.items ?? [];
  const command =
    `curl -X POST -H 'Content-Type: application/json' -d '{"owning_application": "billing", "event_types": ["${name}"]}' ${location.origin}/subscriptions`;
  return (
    <Panel flush>
      <Trouble problem={problem.value} again={again} />
      {answer.value && (items.length === 0
        ? (
          <Empty title="Nobody has subscribed" command={command}>
            A subscription shares partitions among its readers and remembers how far they are:
          </Empty>
        )
        : (
          <Table
            label="Subscriptions"
            columns={COLUMNS}
            rows={items}
            keyOf={(one) => one.id}
            opened={query("open") ?? (items.length === 1 ? items[0]!.id : null)}
            onOpen={(id) => setQuery({ open: id ?? "none" }, true)}
            detail={(one) => <Stats subscription={one} />}
          />
        ))}
    </Panel>
  );
}

type Row = PartitionReport & { event_type: string };

const PARTITIONS: Column<Row>[] = [
  { title: "Event type", narrow: true, show: (one) => one.event_type },
  { title: "Partition", show: (one) => one.partition },
  { title: "State", show: (one) => <Badge tone={one.state === "assigned" ? "good" : ""}>{one.state}</Badge> },
  { title: "Left to read", number: true, show: (one) => count(one.unconsumed_events) },
  { title: "Reader", narrow: true, show: (one) => <span class="mono break">{one.stream_id || "–"}</span> },
];

function Stats({ subscription }: { subscription: SubscriptionDocument }) {
  const resetting = useSignal(false);
  const { answer, problem, again } = useAsk(
    `stats ${subscription.id}`,
    (signal) => call("GET /subscriptions/{id}/stats", { path: { id: subscription.id }, signal }),
    3,
  );
  const rows: Row[] = (answer.value?.items ?? []).flatMap((item) =>
    item.partitions.map((one) => ({ ...one, event_type: item.event_type }))
  );
  const lag = rows.reduce((sum, one) => sum + (one.unconsumed_events ?? 0), 0);
  const known = rows.some((one) => one.unconsumed_events !== undefined && one.unconsumed_events !== null);
  return (
    <div class="stack">
      <div class="row apart">
        <span>
          {known ? `${plural(lag, "event")} left to read` : "Nobody has read yet"}{" "}
          <span class="muted mono">{subscription.id}</span>
        </span>
        {subscription.event_types.every((one) => may("read", one)) && (
          <button type="button" onClick={() => (resetting.value = true)}>Reset …</button>
        )}
      </div>
      <Trouble problem={problem.value} />
      <Table label="Partitions" columns={PARTITIONS} rows={rows} keyOf={(one) => `${one.event_type} ${one.partition}`} />
      {resetting.value && (
        <ResetDialog subscription={subscription} rows={rows} onClose={() => (resetting.value = false)} done={again} />
      )}
    </div>
  );
}
