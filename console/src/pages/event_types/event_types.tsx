/** All event types, with how many events a second each takes. */
import { call } from "../../api/call.ts";
import type { EventTypeDocument } from "../../api/types.ts";
import { useAsk } from "../../core/ask.ts";
import { snapshot } from "../../core/live.ts";
import { rate } from "../../core/numbers.ts";
import { link, query, setQuery } from "../../core/route.ts";
import { duration } from "../../core/time.ts";
import { Badge, Head, Panel, textOf, Trouble } from "../../parts/basics.tsx";
import { Empty } from "../../parts/empty.tsx";
import { type Column, Table } from "../../parts/table.tsx";

const COLUMNS: Column<EventTypeDocument>[] = [
  { title: "Name", show: (one) => <a class="name" href={link(["event-types", one.name])}>{one.name}</a> },
  {
    title: "Events",
    number: true,
    show: (one) => rate(snapshot.value?.event_types?.[one.name]?.publish ?? (snapshot.value ? 0 : null)),
  },
  { title: "Partitions", number: true, show: (one) => partitions(one) },
  { title: "Category", narrow: true, show: (one) => <Badge bare>{one.category}</Badge> },
  { title: "Owner", narrow: true, show: (one) => one.owning_application },
  { title: "Kept for", narrow: true, number: true, show: (one) => kept(one) },
];

export function partitions(one: EventTypeDocument): number {
  const { read_parallelism = 1, write_parallelism = 1 } = one.default_statistic ?? {};
  return Math.max(read_parallelism, write_parallelism);
}

export function kept(one: EventTypeDocument): string {
  const time = one.options?.retention_time;
  return one.cleanup_policy === "compact" ? "compacted" : time ? duration(time) : "–";
}

export function EventTypesPage() {
  const { answer, problem, again } = useAsk("event types", (signal) => call("GET /event-types", { signal }), 10);
  const wanted = query("name") ?? "";
  const rows = (answer.value ?? []).filter((one) => one.name.includes(wanted));
  return (
    <>
      <Head title="Event types">
        <input
          type="search"
          aria-label="Filter by name"
          placeholder="Filter by name"
          value={wanted}
          onInput={(event) => setQuery({ name: textOf(event) }, true)}
        />
      </Head>
      <Trouble problem={problem.value} again={again} />
      {answer.value && (
        <Panel flush>
          {answer.value.length === 0
            ? (
              <Empty title="There are no event types yet" command="meantime event-types create orders --partitions 4">
                Declare the first one:
              </Empty>
            )
            : <Table label="Event types" columns={COLUMNS} rows={rows} keyOf={(one) => one.name} />}
        </Panel>
      )}
    </>
  );
}
