import { deepEqual, equal } from "node:assert/strict";
import { outlook, spikesOf } from "../src/pages/topics/outlook.ts";

const slot = (from_ms: number, waiting: number) => ({ from_ms, waiting, processing: 0, available: 0 });
const SLOTS = [slot(0, 10), slot(1000, 100), slot(2000, 10)];

Deno.test("without a capacity everything that becomes due waits", () => {
  deepEqual(outlook(SLOTS, 1000, 0, 3000, 5, null), { due: 125, backlog: 125, worst: 125, worstAt: 2000 });
});

Deno.test("consumers take what they can, and what they can not waits", () => {
  const seen = outlook(SLOTS, 1000, 0, 3000, 0, 40);
  equal(seen.due, 120);
  equal(seen.backlog, 30);
  equal(seen.worst, 60);
  equal(seen.worstAt, 1000);
});

Deno.test("half a slot is half of what it holds", () => equal(outlook(SLOTS, 1000, 0, 1500, 0, null).due, 60));

Deno.test("what lies before now does not count twice", () => equal(outlook(SLOTS, 1000, 500, 1000, 0, null).due, 10));

Deno.test("a spike is more than consumers can take, or far more than usual", () => {
  deepEqual(spikesOf(SLOTS, 1000, 50), [false, true, false]);
  deepEqual(spikesOf(SLOTS, 1000, null), [false, true, false]);
  deepEqual(spikesOf([slot(0, 3), slot(1000, 9)], 1000, null), [false, false]);
});
