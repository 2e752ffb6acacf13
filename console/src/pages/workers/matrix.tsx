/** Queues against workers: a cell is filled where a worker owns a queue, and marked for a moment after a hand-over. */
import type { QueueDocument, WorkerDocument } from "../../api/types.ts";
import { now } from "../../core/pause.ts";
import { Empty } from "../../parts/empty.tsx";
import { type HandOver, nameOf } from "./owners.ts";

const FRESH_FOR_MS = 5_000;
const MOST_SHOWN = 200;

export function Matrix(
  { queues, workers, fresh }: { queues: QueueDocument[]; workers: WorkerDocument[]; fresh: HandOver[] },
) {
  if (!queues.length) return <Empty title="No queues yet">They appear when a worker of this application starts.</Empty>;
  const owners = new Set([...workers.map((one) => one.worker), ...queues.flatMap((one) => one.owner ? [one.owner] : [])]);
  const columns = [...owners].sort();
  const marked = new Set(fresh.filter((one) => now.value - one.at < FRESH_FOR_MS).map((one) => one.queue));
  const state = (queue: QueueDocument, worker: string | null) => {
    if (queue.owner !== worker) return "";
    return marked.has(queue.queue) ? "fresh" : queue.paused ? "paused" : worker ? "owned" : "";
  };
  return (
    <div class="matrix" tabIndex={0} role="region" aria-label="Owners of queues">
      <table>
        <thead>
          <tr>
            <th scope="col">Queue</th>
            {columns.map((one) => <th scope="col" key={one} title={hostOf(workers, one)}>{short(one)}</th>)}
            <th scope="col">nobody</th>
          </tr>
        </thead>
        <tbody>
          {queues.slice(0, MOST_SHOWN).map((queue) => (
            <tr key={queue.queue}>
              <th scope="row">{nameOf(queue)}</th>
              {[...columns, null].map((worker) => (
                <td key={worker ?? "nobody"}>
                  <div
                    class={`cell ${state(queue, worker)}`}
                    role="img"
                    aria-label={queue.owner === worker
                      ? (queue.paused ? "owned, paused" : worker ? "owned" : "without an owner")
                      : "not"}
                  />
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

/** `worker-0000000012` is `12` to people. */
function short(worker: string): string {
  return worker.replace(/^worker-0*(\d+)$/, "$1");
}

function hostOf(workers: WorkerDocument[], name: string): string {
  const one = workers.find((worker) => worker.worker === name);
  return one?.host ? `${name}: ${one.host}, process ${one.pid}` : name;
}
