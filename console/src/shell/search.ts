/** What can be found by name, and in which order it is shown. A part that may not be asked for is left out. */
import { call } from "../api/call.ts";
import { link } from "../core/route.ts";

export interface Found {
  kind: string;
  name: string;
  target: string;
}

const MOST_SHOWN = 12;

async function named(kind: string, page: string, names: Promise<string[]>): Promise<Found[]> {
  try {
    return (await names).map((name) => ({ kind, name, target: link([page, name]) }));
  } catch {
    return [];
  }
}

export async function searched(): Promise<Found[]> {
  const found = await Promise.all([
    named("event type", "event-types", call("GET /event-types").then((all) => all.map((one) => one.name))),
    named("topic", "topics", call("GET /topics").then((all) => all.topics.map((one) => one.name))),
    named("application", "workers", call("GET /apps").then((all) => all.apps.map((one) => one.name))),
    named("schedule", "schedules", call("GET /schedules").then((all) => all.schedules.map((one) => one.id))),
  ]);
  return found.flat();
}

/** Those whose names begin with the text go before those that only contain it. */
export function ranked(all: Found[], text: string, known = true): Found[] {
  const wanted = text.trim().toLowerCase();
  if (!wanted) return all.slice(0, MOST_SHOWN);
  const rank = (one: Found) => {
    const name = one.name.toLowerCase();
    return name === wanted ? 0 : name.startsWith(wanted) ? 1 : name.includes(wanted) ? 2 : 3;
  };
  const hits = all.map((one) => ({ one, rank: rank(one) })).filter((hit) => hit.rank < 3)
    .sort((a, b) => a.rank - b.rank || a.one.name.length - b.one.name.length).map((hit) => hit.one);
  const token: Found[] = known && /^[0-9A-Za-z._:@-]{1,128}$/.test(text.trim())
    ? [{ kind: "look up as a timer's token", name: text.trim(), target: link(["timers"], { token: text.trim() }) }]
    : [];
  return [...hits.slice(0, MOST_SHOWN), ...token];
}
