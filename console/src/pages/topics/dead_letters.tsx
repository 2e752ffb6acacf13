/** What died: in this topic, or in others that send their dead letters here. Both can be sent back. */
import { useSignal } from "@preact/signals";
import { call } from "../../api/call.ts";
import type { MessageView, TopicView } from "../../api/types.ts";
import { useAsk } from "../../core/ask.ts";
import { count, plural } from "../../core/numbers.ts";
import { link, query, setQuery } from "../../core/route.ts";
import { may } from "../../core/session.ts";
import { Panel, Trouble } from "../../parts/basics.tsx";
import { Confirm } from "../../parts/dialog.tsx";
import { Empty } from "../../parts/empty.tsx";
import { Instant } from "../../parts/instant.tsx";
import { type Column, Table } from "../../parts/table.tsx";
import { MessageDetail } from "./message.tsx";
import { listed } from "./message_filter.ts";

interface Letter {
  topic: string;
  died_at_ms: number;
  attempts: number;
  reason?: string;
}

const letterOf = (one: MessageView): Letter | null => (one.dead_letter as Letter | undefined) ?? null;

const COLUMNS: Column<MessageView>[] = [
  { title: "Id", show: (one) => <span class="mono break">{one.id}</span> },
  { title: "Died in", narrow: true, show: (one) => letterOf(one)?.topic ?? "here" },
  { title: "At", show: (one) => <Instant at={letterOf(one)?.died_at_ms ?? one.at_ms} near /> },
  { title: "Attempts", narrow: true, number: true, show: (one) => count(letterOf(one)?.attempts ?? one.attempts) },
  { title: "Reason", show: (one) => <span class="break">{letterOf(one)?.reason ?? one.reason ?? "the lease ended"}</span> },
];

export function DeadLetters({ topic }: { topic: TopicView }) {
  const redriving = useSignal(false);
  const { answer, problem, again } = useAsk(`dead ${topic.name}`, async (signal) => {
    const [here, letters] = await Promise.all([
      listed(topic.name, { status: "dead" }, null, signal),
      listed(topic.name, {}, null, signal),
    ]);
    const known = new Set(here.messages.map((one) => one.id));
    return [...here.messages, ...letters.messages.filter((one) => letterOf(one) && !known.has(one.id))];
  });
  const rows = (answer.value ?? []).filter((one) => one.status === "dead" || letterOf(one) !== null);
  const redrive = async () => {
    const result = await call("POST /topics/{topic}/redrive", { path: { topic: topic.name }, body: {} });
    const skipped = result.skipped ? `, ${count(result.skipped)} skipped` : "";
    return `${plural(result.moved, "message")} sent back${skipped}.`;
  };
  return (
    <Panel
      flush
      title="Dead letters"
      aside={may("operate", topic.name) && rows.length > 0 && (
        <button type="button" class="primary" onClick={() => (redriving.value = true)}>Send back …</button>
      )}
    >
      <Trouble problem={problem.value} again={again} />
      {answer.value && (rows.length === 0 ? <Nothing topic={topic} /> : (
        <Table
          label="Dead letters"
          columns={COLUMNS}
          rows={rows}
          keyOf={(one) => one.id}
          opened={query("open")}
          onOpen={(id) => setQuery({ open: id }, true)}
          detail={(one) => <MessageDetail topic={topic.name} message={one} done={again} />}
        />
      ))}
      {redriving.value && (
        <Confirm
          title="Send dead letters back?"
          action="Send back"
          act={redrive}
          done={again}
          onClose={() => (redriving.value = false)}
        >
          <p>
            All dead letters of{" "}
            {topic.name}, up to 10,000, go back to where they died and are tried again from the first attempt.
          </p>
        </Confirm>
      )}
    </Panel>
  );
}

function Nothing({ topic }: { topic: TopicView }) {
  const target = topic.dead_letter_topic;
  if (target) {
    return (
      <Empty title="Nothing lies dead here">
        What dies in this topic goes to <a href={link(["topics", target], { tab: "dead" })}>{target}</a>.
      </Empty>
    );
  }
  return (
    <Empty
      title="Nothing has died"
      command={topic.max_attempts ? undefined : `meantime topics create ${topic.name} --max-attempts 5`}
    >
      {topic.max_attempts
        ? `A message dies here after ${topic.max_attempts} attempts.`
        : "Messages are tried without limit. To set one:"}
    </Empty>
  );
}
