import { deepEqual, equal } from "node:assert/strict";
import type { ScheduleView } from "../src/api/types.ts";
import { applied } from "../src/core/deltas.ts";
import { allows } from "../src/core/session.ts";
import { stacked } from "../src/parts/chart.tsx";
import { noted } from "../src/pages/workers/owners.ts";
import { gathered } from "../src/pages/schedules/calendar.tsx";
import { draftOf, formOf, withBody } from "../src/pages/schedules/draft.ts";
import { ranked } from "../src/shell/search.ts";
import { servedBy } from "../src/pages/event_types/timelines.tsx";
import { shortened } from "../src/pages/event_types/tail.tsx";

Deno.test("a delta merges objects, takes away what is null, and replaces the rest", () => {
  const before = { now_ms: 1, nodes: { a: { url: "x", state: "healthy" }, b: { url: "y", state: "healthy" } } };
  const after = applied(before as never, { now_ms: 2, nodes: { a: { state: "degraded" }, b: null } });
  deepEqual(after, { now_ms: 2, nodes: { a: { url: "x", state: "degraded" } } });
  equal(before.nodes.a.state, "healthy");
});

Deno.test("a scope allows what its pattern holds, and admin everything", () => {
  equal(allows(["operate:mail.*"], "operate", "mail.dead"), true);
  equal(allows(["operate:mail.*"], "operate", "mailXdead"), false);
  equal(allows(["consume:*"], "operate", "mail"), false);
  equal(allows(["look"], "timers"), false);
  equal(allows(["admin"], "operate", "anything"), true);
});

Deno.test("series are stacked, lines are not", () => {
  const series = [
    { name: "a", colour: "", values: [1, 2] },
    { name: "b", colour: "", values: [10, 20] },
    { name: "line", colour: "", values: [5, 5], line: true },
  ];
  deepEqual(stacked(series), [[1, 2], [11, 22], [5, 5]]);
});

Deno.test("a hand-over is told with who had the queue and who has it, and a first sight is none", () => {
  const change = (at_ms: number, owner: string | null, former: string | null) => (
    { at_ms, queue: "q", event_type: "orders", partition: "0", owner, former }
  );
  const first = noted({ owners: new Map(), seen: [] }, change(1, "w1", null));
  deepEqual([first.owners.get("q"), first.seen], ["w1", []]);
  const second = noted(first, change(7, "w2", "w1"));
  deepEqual(second.seen, [{ queue: "q", name: "orders 0", from: "w1", to: "w2", at: 7 }]);
  equal(first.owners.get("q"), "w1");
});

Deno.test("the form of a schedule keeps what it does not show, and the body as it was written", () => {
  const target = { topic: "mail", group: "shop" };
  const before = {
    id: "s",
    version: 3,
    cron: "0 2 * * *",
    time_zone: "UTC",
    target,
    on_gap: "skip",
    jitter_ms: 5,
    starts_at_ms: null,
    body: { n: 1 },
  } as unknown as ScheduleView;
  const draft = { ...draftOf(before), cron: "0 3 * * *", body: '{"n": 9007199254740993}' };
  const form = formOf(draft, before);
  deepEqual(form, { version: 3, on_gap: "skip", jitter_ms: 5, cron: "0 3 * * *", time_zone: "UTC", target });
  equal(withBody({ a: 1 }, draft.body), '{"a":1, "body": {"n": 9007199254740993}}');
});

Deno.test("what begins with the text is found before what contains it", () => {
  const one = (name: string) => ({ kind: "topic", name, target: "" });
  const found = ranked([one("my.orders"), one("orders"), one("orders.dead"), one("mail")], "orders").map((hit) => hit.name);
  deepEqual(found.slice(0, 3), ["orders", "orders.dead", "my.orders"]);
});

Deno.test("a timeline serves until the next one begins", () => {
  const timeline = (order: number, switched_at: string) => ({
    id: null,
    event_type: "e",
    order,
    storage_id: "s",
    topic: "t",
    created_at: switched_at,
    switched_at,
    cleaned_up_at: null,
    deleted: false,
    latest_position: null,
  });
  const served = servedBy([timeline(1, "2026-01-01T00:00:00Z"), timeline(2, "2026-01-02T00:00:00Z")]);
  equal(served[0]!.until, served[1]!.from);
  equal(served[1]!.until, null);
});

Deno.test("a cursor is shown without the zeros that say nothing", () => {
  equal(shortened("001-000a-000000000000001178"), "10-1178");
  equal(shortened("001-0001--1"), "1--1");
  equal(shortened("BEGIN"), "BEGIN");
  equal(shortened("001-0002-000000000000000007", 2), "2-5");
  equal(shortened("000000000000000007"), "7");
});

Deno.test("a schedule that fires often is one entry of a day, and where clocks change it is shown", () => {
  const at = (id: string, at_ms: number, note: "second of two" | null = null) => ({ id, at_ms, at: "", local: "", note });
  const shown = gathered([at("often", 1), at("rare", 2), at("often", 3), at("often", 4, "second of two"), at("often", 5)]);
  deepEqual(shown.map((one) => [one.id, one.at_ms, one.times]), [["often", 1, 4], ["rare", 2, 1], ["often", 4, 1]]);
});
