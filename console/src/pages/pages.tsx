/** Which page an address opens. */
import type { VNode } from "preact";
import { Empty } from "../parts/empty.tsx";
import { AuditPage } from "./admin/audit.tsx";
import { KeysPage } from "./admin/keys.tsx";
import { StoragesPage } from "./admin/storages.tsx";
import { EventTypePage } from "./event_types/event_type.tsx";
import { EventTypesPage } from "./event_types/event_types.tsx";
import { OverviewPage } from "./overview/overview.tsx";
import { SchedulePage } from "./schedules/schedule.tsx";
import { SchedulesPage } from "./schedules/schedules.tsx";
import { TimersPage } from "./timers/timers.tsx";
import { TopicPage } from "./topics/topic.tsx";
import { TopicsPage } from "./topics/topics.tsx";
import { AppPage } from "./workers/app.tsx";
import { AppsPage } from "./workers/apps.tsx";

const LISTS: Record<string, [string, () => VNode]> = {
  "event-types": ["Event types", () => <EventTypesPage />],
  topics: ["Topics", () => <TopicsPage />],
  timers: ["Timers", () => <TimersPage />],
  schedules: ["Schedules", () => <SchedulesPage />],
  workers: ["Workers", () => <AppsPage />],
  storages: ["Storages", () => <StoragesPage />],
  keys: ["Keys", () => <KeysPage />],
  audit: ["Audit log", () => <AuditPage />],
};

const ONE: Record<string, (name: string) => VNode> = {
  "event-types": (name) => <EventTypePage name={name} />,
  topics: (name) => <TopicPage name={name} />,
  schedules: (name) => <SchedulePage id={name} />,
  workers: (name) => <AppPage app={name} />,
};

export function pageOf([page, name]: string[]): VNode {
  if (!page) return <OverviewPage />;
  const found = name ? ONE[page]?.(name) : LISTS[page]?.[1]();
  return found ?? (
    <Empty title="There is no such page">
      <a href="#/">To the overview</a>
    </Empty>
  );
}

export function titleOf([page, name]: string[]): string {
  const title = page ? LISTS[page]?.[0] ?? "Meantime" : "Overview";
  return `${name ? `${name} – ` : ""}${title} – Meantime`;
}
