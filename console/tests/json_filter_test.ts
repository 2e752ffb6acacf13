import { equal } from "node:assert/strict";
import { matches, parseFilter } from "../src/core/json_filter.ts";

const EVENT = '{"order":{"total":250,"id":9007199254740993},"state":"paid","tags":["new"]}';

const CASES: [string, boolean][] = [
  ["order.total > 100", true],
  ["order.total > 250", false],
  ["order.total >= 250 and state = paid", true],
  ['state = "open"', false],
  ["state != open", true],
  ["order.id = 9007199254740993", true],
  ["order.id = 9007199254740992", false],
  ["missing = 1", false],
  ["missing != 1", true],
  ["tags ~ new", true],
  ["paid", true],
  ["nothing like it", false],
];

for (const [text, wanted] of CASES) {
  Deno.test(`the filter ${text} ${wanted ? "holds" : "does not hold"}`, () => {
    equal(matches(parseFilter(text)!, EVENT), wanted);
  });
}

Deno.test("an empty filter is none", () => equal(parseFilter("  "), null));
