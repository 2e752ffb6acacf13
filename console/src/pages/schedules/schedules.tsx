/** All schedules, and a calendar of what they will do next. */
import { useSignal } from "@preact/signals";
import { call } from "../../api/call.ts";
import type { ScheduleView } from "../../api/types.ts";
import { useAsk } from "../../core/ask.ts";
import { count } from "../../core/numbers.ts";
import { link, query, setQuery } from "../../core/route.ts";
import { may, scopes } from "../../core/session.ts";
import { Badge, Head, Panel, textOf, Trouble } from "../../parts/basics.tsx";
import { Empty } from "../../parts/empty.tsx";
import { Instant } from "../../parts/instant.tsx";
import { type Column, Table } from "../../parts/table.tsx";
import { Calendar } from "./calendar.tsx";
import { EditDialog } from "./edit_dialog.tsx";
import { ruleOf, targetOf } from "./words.ts";

const COLUMNS: Column<ScheduleView>[] = [
  { title: "Id", show: (one) => <a class="name" href={link(["schedules", one.id])}>{one.id}</a> },
  {
    title: "When",
    show: (one) => (
      <>
        <span class="mono">{ruleOf(one)}</span> <span class="muted">{one.time_zone}</span>
      </>
    ),
  },
  { title: "Target", narrow: true, show: (one) => targetOf(one.target) },
  { title: "State", show: (one) => one.paused ? <Badge tone="warn">paused</Badge> : <Badge tone="good">active</Badge> },
  { title: "Next", show: (one) => <Instant at={one.next_at_ms} near /> },
  { title: "Last", narrow: true, show: (one) => <Instant at={one.last_at_ms} /> },
  { title: "Firings", narrow: true, number: true, show: (one) => count(one.firings) },
];

const PAGE = 100;

export function SchedulesPage() {
  const prefix = query("prefix") ?? "", after = query("after") ?? "";
  const { answer, problem, again } = useAsk(
    `schedules ${prefix} ${after}`,
    (signal) => call("GET /schedules", { query: { prefix, after, limit: PAGE }, signal }),
    10,
  );
  const adding = useSignal(false);
  const rows = answer.value?.schedules ?? [];
  const last = rows[rows.length - 1];
  const allowed = may("admin") || scopes.value.some((one) => one.startsWith("schedules:"));
  return (
    <>
      <Head title="Schedules">
        <input
          type="search"
          aria-label="Ids that begin with"
          placeholder="Id begins with"
          value={prefix}
          onChange={(event) => setQuery({ prefix: textOf(event), after: null })}
        />
        {allowed && <button type="button" class="primary" onClick={() => (adding.value = true)}>New schedule …</button>}
      </Head>
      <Trouble problem={problem.value} again={again} />
      {answer.value && (rows.length === 0
        ? (
          <Panel>
            <Empty
              title="There are no schedules yet"
              command={`meantime schedules put nightly --cron "0 2 * * *" --zone Europe/Berlin --topic reminders`}
            >
              Something that happens again and again:
            </Empty>
          </Panel>
        )
        : (
          <>
            <Panel title="Next firings">
              <Calendar schedules={rows} />
            </Panel>
            <Panel flush>
              <Table label="Schedules" columns={COLUMNS} rows={rows} keyOf={(one) => one.id} />
            </Panel>
            <div class="row">
              {after && <button type="button" onClick={() => setQuery({ after: null })}>First page</button>}
              {rows.length === PAGE && last && (
                <button type="button" onClick={() => setQuery({ after: last.id })}>Next page</button>
              )}
            </div>
          </>
        ))}
      {adding.value && <EditDialog onClose={() => (adding.value = false)} done={again} />}
    </>
  );
}
