/** Who consumes a topic: the buckets of each, and what each holds. */
import { call } from "../../api/call.ts";
import type { ConsumerReport } from "../../api/types.ts";
import { useAsk } from "../../core/ask.ts";
import { count } from "../../core/numbers.ts";
import { Badge, Panel, Trouble } from "../../parts/basics.tsx";
import { Empty } from "../../parts/empty.tsx";
import { type Column, Table } from "../../parts/table.tsx";

export function Consumers({ topic, buckets }: { topic: string; buckets: number }) {
  const { answer, problem, again } = useAsk(
    `consumers ${topic}`,
    (signal) => call("GET /topics/{topic}/consumers", { path: { topic }, signal }),
    2,
  );
  const columns: Column<ConsumerReport>[] = [
    { title: "Consumer", show: (one) => <span class="name">{one.consumer_id}</span> },
    { title: "Mode", show: (one) => <Badge bare>{one.mode}</Badge> },
    { title: "Node", narrow: true, show: (one) => one.node_id },
    { title: "Outstanding", number: true, show: (one) => count(one.outstanding) },
    { title: "Buffer", narrow: true, number: true, show: (one) => count(one.buffer) },
    { title: "Buckets", show: (one) => <Buckets ranges={one.buckets} total={buckets} /> },
  ];
  return (
    <Panel flush>
      <Trouble problem={problem.value} again={again} />
      {answer.value && (answer.value.consumers.length === 0
        ? (
          <Empty title="Nobody consumes this topic" command={`meantime consume ${topic} --consumer me`}>
            What becomes due stays available until somebody does:
          </Empty>
        )
        : (
          <Table
            label="Consumers"
            columns={columns}
            rows={answer.value.consumers}
            keyOf={(one) => `${one.consumer_id} ${one.node_id}`}
          />
        ))}
    </Panel>
  );
}

function Buckets({ ranges, total }: { ranges: [number, number][]; total: number }) {
  const words = ranges.map(([first, last]) => first === last ? `${first}` : `${first} to ${last}`).join(", ");
  let reached = 0;
  const parts = ranges.flatMap(([first, last]) => {
    const pieces = [{ gap: true, size: first - reached }, { gap: false, size: last - first + 1 }];
    reached = last + 1;
    return pieces;
  });
  return (
    <div>
      <div class="buckets" role="img" aria-label={`Buckets ${words} of ${total}`}>
        {[...parts, { gap: true, size: total - reached }].map((one, index) => (
          <span key={index} class={one.gap ? "gap" : ""} style={{ flexGrow: one.size }} />
        ))}
      </div>
      <span class="small muted">{words || "none"}</span>
    </div>
  );
}
