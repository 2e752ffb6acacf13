/** One event type: its timelines and switches, partitions, events as they come, subscriptions. */
import { call } from "../../api/call.ts";
import { useAsk } from "../../core/ask.ts";
import { link, query } from "../../core/route.ts";
import { may } from "../../core/session.ts";
import { snapshot } from "../../core/live.ts";
import { rate } from "../../core/numbers.ts";
import { Badge, Facts, Head, Panel, Tabs, Trouble } from "../../parts/basics.tsx";
import { Instant } from "../../parts/instant.tsx";
import { Json } from "../../parts/json.tsx";
import type { EventTypeDocument } from "../../api/types.ts";
import { kept, partitions } from "./event_types.tsx";
import { Partitions } from "./partitions.tsx";
import { PublishForm } from "./publish.tsx";
import { Subscriptions } from "./subscriptions.tsx";
import { Tail } from "./tail.tsx";
import { Timelines } from "./timelines.tsx";

const TABS: [string, string][] = [
  ["timelines", "Timelines"],
  ["events", "Events"],
  ["partitions", "Partitions"],
  ["subscriptions", "Subscriptions"],
  ["about", "Schema and settings"],
];

export function EventTypePage({ name }: { name: string }) {
  const { answer, problem, again } = useAsk(
    `event type ${name}`,
    (signal) => call("GET /event-types/{name}", { path: { name }, signal }),
  );
  const tab = query("tab") ?? "timelines";
  return (
    <>
      <Head title={name} up={["Event types", link(["event-types"])]}>
        {answer.value && <Badge bare>{answer.value.category}</Badge>}
        {snapshot.value && <Badge bare tone="info">{rate(snapshot.value.event_types?.[name]?.publish ?? 0)} published
        </Badge>}
      </Head>
      <Tabs tabs={TABS} open={tab} />
      <Trouble problem={problem.value} again={again} />
      {answer.value && <Section tab={tab} name={name} eventType={answer.value} />}
    </>
  );
}

function Section({ tab, name, eventType }: { tab: string; name: string; eventType: EventTypeDocument }) {
  if (tab === "events") {
    return (
      <>
        <Tail name={name} partitions={partitions(eventType)} />
        {may("publish", name) && <PublishForm name={name} category={eventType.category ?? "undefined"} />}
      </>
    );
  }
  if (tab === "partitions") return <Partitions name={name} />;
  if (tab === "subscriptions") return <Subscriptions name={name} />;
  if (tab === "about") return <About eventType={eventType} />;
  return <Timelines name={name} compacted={eventType.cleanup_policy === "compact"} />;
}

function About({ eventType }: { eventType: EventTypeDocument }) {
  const schema = eventType.schema?.schema;
  return (
    <div class="grid">
      <Panel title="Settings">
        <Facts
          facts={[
            ["Owner", eventType.owning_application],
            ["Category", eventType.category],
            ["Partitions", partitions(eventType)],
            ["Partitioning", eventType.partition_strategy],
            ["Key fields", eventType.partition_key_fields?.join(", ") || "–"],
            ["Kept for", kept(eventType)],
            ["Compatibility", eventType.compatibility_mode],
            ["Created", <Instant at={eventType.created_at} key="created" />],
            ["Changed", <Instant at={eventType.updated_at} key="updated" />],
          ]}
        />
      </Panel>
      <Panel title={`Schema ${eventType.schema?.version ?? ""}`}>
        <Json label="Schema" text={typeof schema === "string" ? schema : JSON.stringify(schema)} />
      </Panel>
    </div>
  );
}
