/** Applications of workers. */
import { call } from "../../api/call.ts";
import type { AppDocument } from "../../api/types.ts";
import { useAsk } from "../../core/ask.ts";
import { count } from "../../core/numbers.ts";
import { link } from "../../core/route.ts";
import { Badge, Head, Panel, Trouble } from "../../parts/basics.tsx";
import { Empty } from "../../parts/empty.tsx";
import { type Column, Table } from "../../parts/table.tsx";

const COLUMNS: Column<AppDocument>[] = [
  { title: "Application", show: (one) => <a class="name" href={link(["workers", one.name])}>{one.name}</a> },
  { title: "State", show: (one) => stateOf(one) },
  { title: "Workers", number: true, show: (one) => count(one.workers) },
  { title: "Queues", number: true, show: (one) => count(one.queues) },
];

export function stateOf(app: AppDocument) {
  if (app.paused) return <Badge tone="warn">paused</Badge>;
  return app.workers ? <Badge tone="good">working</Badge> : <Badge tone="bad">no workers</Badge>;
}

export function AppsPage() {
  const { answer, problem, again } = useAsk("apps", (signal) => call("GET /apps", { signal }), 3);
  return (
    <>
      <Head title="Workers" />
      <Trouble problem={problem.value} again={again} />
      {answer.value && (
        <Panel flush>
          {answer.value.apps.length === 0
            ? (
              <Empty title="There are no workers yet" command="meantime worker run examples.worker_first:app">
                Run a job over the events of an event type:
              </Empty>
            )
            : <Table label="Applications" columns={COLUMNS} rows={answer.value.apps} keyOf={(one) => one.name} />}
        </Panel>
      )}
    </>
  );
}
