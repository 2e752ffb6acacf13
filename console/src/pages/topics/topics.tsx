/** All topics. The list counts nothing: rates and depths come with the live stream, for those that have any. */
import { call } from "../../api/call.ts";
import type { TopicView } from "../../api/types.ts";
import { useAsk } from "../../core/ask.ts";
import type { LiveTopic } from "../../api/types.ts";
import { snapshot } from "../../core/live.ts";
import { count, rate } from "../../core/numbers.ts";
import { link, query, setQuery } from "../../core/route.ts";
import { Head, Panel, textOf, Trouble } from "../../parts/basics.tsx";
import { Empty } from "../../parts/empty.tsx";
import { type Column, Table } from "../../parts/table.tsx";

const live = (one: TopicView): LiveTopic => snapshot.value?.topics?.[one.name] ?? {};

const COLUMNS: Column<TopicView>[] = [
  { title: "Name", show: (one) => <a class="name" href={link(["topics", one.name])}>{one.name}</a> },
  { title: "Created", number: true, show: (one) => rate(snapshot.value ? live(one).create ?? 0 : null) },
  { title: "Leased", number: true, show: (one) => rate(snapshot.value ? live(one).lease ?? 0 : null) },
  { title: "Available", number: true, show: (one) => count(live(one).available) },
  { title: "Waiting", number: true, show: (one) => count(live(one).waiting) },
  { title: "Buckets", narrow: true, number: true, show: (one) => count(one.bucket_count) },
  {
    title: "Attempts",
    narrow: true,
    number: true,
    show: (one) => one.max_attempts ? `at most ${one.max_attempts}` : "no limit",
  },
  {
    title: "Dead letters",
    narrow: true,
    show: (one) =>
      one.dead_letter_topic ? <a href={link(["topics", one.dead_letter_topic])}>{one.dead_letter_topic}</a> : "–",
  },
];

export function TopicsPage() {
  const { answer, problem, again } = useAsk("topics", (signal) => call("GET /topics", { signal }), 10);
  const wanted = query("name") ?? "";
  const rows = (answer.value?.topics ?? []).filter((one) => one.name.includes(wanted));
  return (
    <>
      <Head title="Topics">
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
          {answer.value.topics.length === 0
            ? (
              <Empty title="There are no topics yet" command="meantime topics create reminders">
                A topic holds messages until they are due. Make one:
              </Empty>
            )
            : <Table label="Topics" columns={COLUMNS} rows={rows} keyOf={(one) => one.name} />}
        </Panel>
      )}
    </>
  );
}
