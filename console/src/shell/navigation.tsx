/** The pages. What a key can not open is not there. */
import { link, place } from "../core/route.ts";
import { may, scopes } from "../core/session.ts";

interface Entry {
  name: string;
  title: string;
  shown?: () => boolean;
}

/** `look` opens every page that shows something. */
const sees = (verb: string) =>
  may("look") || may("look:bodies") || scopes.value.some((one) => one === verb || one.startsWith(`${verb}:`)) ||
  may("admin");

export const ENTRIES: Entry[] = [
  { name: "", title: "Overview" },
  { name: "event-types", title: "Event types" },
  { name: "topics", title: "Topics", shown: () => ["operate", "consume", "produce"].some(sees) },
  { name: "timers", title: "Timers", shown: () => sees("timers") },
  { name: "schedules", title: "Schedules", shown: () => sees("schedules") },
  { name: "workers", title: "Workers", shown: () => sees("apps") },
];
export const ADMIN_ENTRIES: Entry[] = [
  { name: "storages", title: "Storages", shown: () => sees("admin") },
  { name: "keys", title: "Keys", shown: () => may("admin") },
  { name: "audit", title: "Audit log", shown: () => may("admin") },
];

export function Navigation() {
  const open = place.value.path[0] ?? "";
  const entry = ({ name, title }: Entry) => (
    <a key={name} href={link(name ? [name] : [])} aria-current={open === name ? "page" : undefined}>{title}</a>
  );
  const admin = ADMIN_ENTRIES.filter((one) => one.shown?.() ?? true);
  return (
    <div class="side">
      <nav aria-label="Pages">
        {ENTRIES.filter((one) => one.shown?.() ?? true).map(entry)}
        {admin.length > 0 && <div class="group">Administration</div>}
        {admin.map(entry)}
      </nav>
    </div>
  );
}
