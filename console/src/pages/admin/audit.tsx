/** What operators did: newest first, by time and actor. */
import { call } from "../../api/call.ts";
import type { AuditEntryView } from "../../api/types.ts";
import { useAsk } from "../../core/ask.ts";
import { count } from "../../core/numbers.ts";
import { link, numberIn, query, setQuery } from "../../core/route.ts";
import { fromInput, toInput } from "../../core/time.ts";
import { Badge, Field, Head, Panel, textOf, Trouble } from "../../parts/basics.tsx";
import { Empty } from "../../parts/empty.tsx";
import { Instant } from "../../parts/instant.tsx";
import { type Column, Table } from "../../parts/table.tsx";

const COLUMNS: Column<AuditEntryView>[] = [
  { title: "When", show: (one) => <Instant at={one.at_ms} near /> },
  { title: "Who", show: (one) => one.actor || "anyone" },
  { title: "What", show: (one) => <Badge bare>{one.action}</Badge> },
  { title: "Of", show: (one) => <Target path={one.target} /> },
  { title: "How many", number: true, narrow: true, show: (one) => count(one.count) },
  { title: "Detail", narrow: true, show: (one) => <Detail value={one.detail} /> },
];

/** Who asked from where says little at a glance, so it is shown on hover. */
const ON_HOVER = ["peer", "flow_id"];

function words(fields: [string, unknown][]): string {
  return fields.map(([name, one]) => `${name} ${typeof one === "string" ? one : JSON.stringify(one)}`).join(", ");
}

function Detail({ value }: { value: Record<string, unknown> }) {
  const fields = Object.entries(value);
  const rest = words(fields.filter(([name]) => ON_HOVER.includes(name)));
  return <span class="mono break small" title={rest}>{words(fields.filter(([name]) => !ON_HOVER.includes(name)))}</span>;
}

const PAGES: Record<string, string> = {
  "event-types": "event-types",
  topics: "topics",
  apps: "workers",
  schedules: "schedules",
};

function Target({ path }: { path: string }) {
  const [kind = "", ...rest] = path.split("/");
  const page = PAGES[kind], name = rest[0];
  return page && name ? <a class="name" href={link([page, name])}>{path}</a> : <span class="name">{path}</span>;
}

const PAGE = 100;

export function AuditPage() {
  const from = numberIn("from"), to = numberIn("to"), before = numberIn("before"), actor = query("actor") ?? "";
  const { answer, problem, again } = useAsk(
    `audit ${from} ${to} ${before} ${actor}`,
    (signal) => call("GET /audit", { query: { from_ms: from, to_ms: to, actor, before, limit: PAGE }, signal }),
    5,
  );
  const time = (name: "from" | "to", label: string, value: number | null) => (
    <Field label={label}>
      <input
        type="datetime-local"
        step="1"
        value={value === null ? "" : toInput(value)}
        onChange={(event) => setQuery({ [name]: fromInput(textOf(event)), before: null })}
      />
    </Field>
  );
  return (
    <>
      <Head title="Audit log" />
      <Panel>
        <div class="fields">
          <Field label="Who">
            <input type="search" value={actor} onChange={(event) => setQuery({ actor: textOf(event), before: null })} />
          </Field>
          {time("from", "From", from)}
          {time("to", "until", to)}
        </div>
      </Panel>
      <Trouble problem={problem.value} again={again} />
      {answer.value && (
        <Panel flush>
          {answer.value.entries.length === 0
            ? (
              <Empty title="Nobody has done anything">
                Switches, moves, deletions, resets, pauses and changes of keys are written down here.
              </Empty>
            )
            : (
              <Table
                label="Audit log"
                columns={COLUMNS}
                rows={answer.value.entries}
                keyOf={(one) => `${one.at_ms} ${one.action} ${one.target}`}
              />
            )}
          <p class="row more">
            {before !== null && <button type="button" onClick={() => setQuery({ before: null })}>Newest</button>}
            {answer.value.next !== null && (
              <button type="button" onClick={() => setQuery({ before: answer.value!.next })}>Older</button>
            )}
          </p>
        </Panel>
      )}
    </>
  );
}
