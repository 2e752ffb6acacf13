/** Partitions: the first and the last event that can be read. */
import { call } from "../../api/call.ts";
import type { PartitionDocument } from "../../api/types.ts";
import { useAsk } from "../../core/ask.ts";
import { Panel, Trouble } from "../../parts/basics.tsx";
import { type Column, Table } from "../../parts/table.tsx";

const COLUMNS: Column<PartitionDocument>[] = [
  { title: "Partition", show: (one) => one.partition },
  { title: "Oldest event", show: (one) => <span class="mono">{one.oldest_available_offset}</span> },
  { title: "Newest event", show: (one) => <span class="mono">{one.newest_available_offset}</span> },
];

export function Partitions({ name }: { name: string }) {
  const { answer, problem, again } = useAsk(
    `partitions ${name}`,
    (signal) => call("GET /event-types/{name}/partitions", { path: { name }, signal }),
    3,
  );
  return (
    <Panel flush>
      <Trouble problem={problem.value} again={again} />
      {answer.value && <Table label="Partitions" columns={COLUMNS} rows={answer.value} keyOf={(one) => one.partition} />}
    </Panel>
  );
}
