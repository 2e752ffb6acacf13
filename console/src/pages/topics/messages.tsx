/** Messages of a topic by time and status, page by page in the order of their instants. Bodies are asked for one at a time. */
import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { Problem } from "../../api/call.ts";
import type { MessageView } from "../../api/types.ts";
import { count } from "../../core/numbers.ts";
import { query, setQuery } from "../../core/route.ts";
import { may } from "../../core/session.ts";
import { fromInput, toInput } from "../../core/time.ts";
import { Badge, Field, Panel, textOf, type Tone, Trouble } from "../../parts/basics.tsx";
import { Empty } from "../../parts/empty.tsx";
import { Instant } from "../../parts/instant.tsx";
import { type Column, Table } from "../../parts/table.tsx";
import { BulkActions } from "./bulk.tsx";
import { MessageDetail } from "./message.tsx";
import { filterInAddress, listed, STATUSES } from "./message_filter.ts";

const TONES: Record<string, Tone> = { waiting: "info", available: "good", processing: "warn", dead: "bad" };

export const COLUMNS: Column<MessageView>[] = [
  { title: "Id", show: (one) => <span class="mono break">{one.id}</span> },
  { title: "Status", show: (one) => <Badge tone={TONES[one.status] ?? ""}>{one.status}</Badge> },
  { title: "Due", show: (one) => <Instant at={one.at_ms} near /> },
  { title: "Group", narrow: true, show: (one) => one.producer_group },
  { title: "Attempts", narrow: true, number: true, show: (one) => count(one.attempts) },
  { title: "Held by", narrow: true, show: (one) => one.lock_consumer_id ?? "" },
];

export function Messages({ topic }: { topic: string }) {
  const filter = filterInAddress();
  const key = JSON.stringify([topic, filter]);
  const rows = useSignal<MessageView[] | null>(null);
  const next = useSignal<string | null>(null);
  const problem = useSignal<Problem | null>(null);
  const version = useSignal(0);
  const more = async (after: string | null, signal: AbortSignal) => {
    try {
      const page = await listed(topic, filter, after, signal);
      if (signal.aborted) return;
      rows.value = after ? [...(rows.value ?? []), ...page.messages] : page.messages;
      next.value = page.next;
      problem.value = null;
    } catch (failure) {
      if (!signal.aborted) problem.value = failure instanceof Problem ? failure : new Problem(0, String(failure), "");
    }
  };
  useEffect(() => {
    const ending = new AbortController();
    void more(null, ending.signal);
    return () => ending.abort();
  }, [key, version.value]);
  const again = () => void (version.value += 1);
  if (!may("operate", topic) && !may("look") && !may("look:bodies")) {
    return (
      <Panel>
        <Empty title="This key may not list messages">
          It needs the scope <code>operate:{topic}</code>, or <code>look</code>.
        </Empty>
      </Panel>
    );
  }
  return (
    <>
      <Filters />
      <Trouble problem={problem.value} again={again} />
      {rows.value && (
        <Panel
          flush
          aside={
            <>
              <button type="button" onClick={again}>Refresh</button>
              {may("operate", topic) && <BulkActions topic={topic} filter={filter} done={again} />}
            </>
          }
        >
          {rows.value.length === 0
            ? (
              <Empty title="No messages here" command={`meantime schedule ${topic} --after 1h '{"hello": "later"}'`}>
                Nothing has this status, time and id. A new one:
              </Empty>
            )
            : (
              <Table
                label="Messages"
                columns={COLUMNS}
                rows={rows.value}
                keyOf={(one) => one.id}
                opened={query("open")}
                onOpen={(id) => setQuery({ open: id }, true)}
                detail={(one) => <MessageDetail topic={topic} message={one} done={again} />}
              />
            )}
          {next.value && (
            <p class="row more">
              <button type="button" onClick={() => void more(next.value, new AbortController().signal)}>Next page</button>
            </p>
          )}
        </Panel>
      )}
    </>
  );
}

function Filters() {
  const filter = filterInAddress();
  const time = (name: "from" | "to", label: string, value: number | null | undefined) => (
    <Field label={label}>
      <input
        type="datetime-local"
        step="1"
        value={typeof value === "number" ? toInput(value) : ""}
        onChange={(event) => setQuery({ [name]: fromInput(textOf(event)) })}
      />
    </Field>
  );
  return (
    <Panel>
      <div class="fields">
        <Field label="Status">
          <select value={filter.status ?? ""} onChange={(event) => setQuery({ status: textOf(event) })}>
            <option value="">any</option>
            {STATUSES.map((status) => <option key={status} value={status}>{status}</option>)}
          </select>
        </Field>
        {time("from", "Due from", filter.from_ms)}
        {time("to", "until", filter.to_ms)}
        <Field label="Id begins with">
          <input type="search" value={filter.id_prefix ?? ""} onChange={(event) => setQuery({ id: textOf(event) })} />
        </Field>
      </div>
    </Panel>
  );
}
