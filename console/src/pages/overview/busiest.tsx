/** The busiest event types and topics of the last second. */
import type { LiveEventType, LiveTopic } from "../../api/types.ts";
import { count, rate } from "../../core/numbers.ts";
import { link } from "../../core/route.ts";
import { Panel } from "../../parts/basics.tsx";
import { Empty } from "../../parts/empty.tsx";
import { Table } from "../../parts/table.tsx";

const MOST_SHOWN = 6;

interface Props {
  eventTypes: Record<string, LiveEventType>;
  topics: Record<string, LiveTopic>;
}

export function Busiest({ eventTypes, topics }: Props) {
  const first = Object.entries(eventTypes).slice(0, MOST_SHOWN);
  const second = Object.entries(topics).slice(0, MOST_SHOWN);
  return (
    <>
      <Panel title="Event types" flush aside={<a href={link(["event-types"])}>all</a>}>
        {first.length === 0
          ? <Empty title="No events right now" command={`meantime publish orders -e '{"id": 1}'`} />
          : (
            <Table
              label="Busiest event types"
              rows={first}
              keyOf={([name]) => name}
              columns={[
                { title: "Name", show: ([name]) => <a class="name" href={link(["event-types", name])}>{name}</a> },
                { title: "Published", number: true, show: ([, one]) => rate(one.publish ?? 0) },
                { title: "Read", number: true, show: ([, one]) => rate(one.read ?? 0) },
              ]}
            />
          )}
      </Panel>
      <Panel title="Topics" flush aside={<a href={link(["topics"])}>all</a>}>
        {second.length === 0
          ? <Empty title="No messages right now" command={`meantime schedule reminders --after 10m '{"id": 1}'`} />
          : (
            <Table
              label="Busiest topics"
              rows={second}
              keyOf={([name]) => name}
              columns={[
                { title: "Name", show: ([name]) => <a class="name" href={link(["topics", name])}>{name}</a> },
                { title: "Leased", number: true, show: ([, one]) => rate(one.lease ?? 0) },
                { title: "Available", number: true, show: ([, one]) => count(one.available ?? 0) },
              ]}
            />
          )}
      </Panel>
    </>
  );
}
