/** One topic: its future load, its messages, who consumes it, what died, its settings. */
import { call, Problem } from "../../api/call.ts";
import type { TopicView } from "../../api/types.ts";
import { useAsk } from "../../core/ask.ts";
import { snapshot } from "../../core/live.ts";
import { count } from "../../core/numbers.ts";
import { link, query } from "../../core/route.ts";
import { duration } from "../../core/time.ts";
import { Facts, Figure, Head, Panel, Tabs, Trouble } from "../../parts/basics.tsx";
import { Consumers } from "./consumers.tsx";
import { DeadLetters } from "./dead_letters.tsx";
import { Load } from "./load.tsx";
import { type Status, STATUSES } from "./message_filter.ts";
import { Messages } from "./messages.tsx";

const TABS: [string, string][] = [
  ["load", "Future load"],
  ["messages", "Messages"],
  ["consumers", "Consumers"],
  ["dead", "Dead letters"],
  ["settings", "Settings"],
];

/** Settings come with the list of topics, counts with the live stream: the page of a topic counts nothing by itself. */
export function TopicPage({ name }: { name: string }) {
  const { answer, problem, again } = useAsk(`topic ${name}`, async (signal) => {
    const { topics } = await call("GET /topics", { signal });
    const found = topics.find((one) => one.name === name);
    if (!found) throw new Problem(404, `there is no topic ${name}`, "not_found");
    return found;
  });
  const tab = query("tab") ?? "load";
  return (
    <>
      <Head title={name} up={["Topics", link(["topics"])]} />
      <Tabs tabs={TABS} open={tab} />
      <Trouble problem={problem.value} again={again} />
      {answer.value && <Depths topic={name} />}
      {answer.value && <Section tab={tab} topic={answer.value} />}
    </>
  );
}

/** Of topics that hold next to nothing the stream says nothing; counting those costs nothing either. */
function Depths({ topic }: { topic: string }) {
  const told = snapshot.value?.topics[topic];
  const silent = snapshot.value !== null && typeof told?.waiting !== "number";
  const counted = useAsk(`depth ${topic} ${silent}`, async (signal) => {
    return silent ? (await call("GET /topics/{topic}", { path: { topic }, signal })).counts : null;
  }, silent ? 5 : 0);
  const depths: Partial<Record<Status, number | null>> = (silent ? counted.answer.value : told) ?? {};
  return (
    <div class="grid small">
      {STATUSES.map((status) => (
        <a key={status} class="panel plain-link" href={link(["topics", topic], { tab: "messages", status })}>
          <Figure label={status} tone={status === "dead" && depths.dead ? "bad" : ""}>{about(depths[status])}</Figure>
        </a>
      ))}
    </div>
  );
}

/** Nodes count up to a limit that all topics share; what is more is estimated from a sample. */
const COUNTED = 10_000;

function about(depth: number | null | undefined): string {
  return depth && depth > COUNTED ? `≈ ${count(depth)}` : count(depth);
}

function Section({ tab, topic }: { tab: string; topic: TopicView }) {
  if (tab === "messages") return <Messages topic={topic.name} />;
  if (tab === "consumers") return <Consumers topic={topic.name} buckets={topic.bucket_count ?? 64} />;
  if (tab === "dead") return <DeadLetters topic={topic} />;
  if (tab === "settings") return <Settings topic={topic} />;
  return <Load topic={topic.name} available={snapshot.value?.topics[topic.name]?.available ?? 0} />;
}

function Settings({ topic }: { topic: TopicView }) {
  const { retry } = topic;
  return (
    <Panel title="Settings">
      <Facts
        facts={[
          ["Buckets", topic.bucket_count],
          ["Attempts", topic.max_attempts || "no limit"],
          ["Dead letters go to", topic.dead_letter_topic ?? "they stay here"],
          ["Farthest future", duration(topic.max_future_ms ?? 0)],
          ["Longest lease", duration(topic.max_lease_ms ?? 0)],
          ["Largest body", `${count(topic.max_body_bytes)} bytes`],
          ["Ids are remembered for", topic.dedupe_ms ? duration(topic.dedupe_ms) : "as long as the message exists"],
          [
            "Retry",
            retry
              ? `after ${duration(retry.delay_ms ?? 0)}, times ${retry.factor}, at most ${duration(retry.max_ms ?? 0)}`
              : "–",
          ],
        ]}
      />
    </Panel>
  );
}
