import { equal } from "node:assert/strict";
import { duration, fromInput, niceStep, parseDuration, relative, toInput, utcTime } from "../src/core/time.ts";

Deno.test("durations are said in the two largest units that matter", () => {
  equal(duration(0), "0 ms");
  equal(duration(999), "999 ms");
  equal(duration(61_000), "1 min 1 s");
  equal(duration(3_600_000), "1 h");
  equal(duration(26 * 3_600_000), "1 d 2 h");
  equal(duration(20 * 86_400_000 + 5), "20 d");
});

Deno.test("an instant is in so long, or was so long ago", () => {
  equal(relative(61_000, 0), "in 1 min 1 s");
  equal(relative(0, 61_000), "1 min 1 s ago");
  equal(relative(500, 0), "now");
});

Deno.test("people write durations as they do on the command line", () => {
  equal(parseDuration("90s"), 90_000);
  equal(parseDuration("15m"), 900_000);
  equal(parseDuration("1.5h"), 5_400_000);
  equal(parseDuration("2d"), 172_800_000);
  equal(parseDuration("30"), 30_000);
  equal(parseDuration("soon"), null);
});

Deno.test("what a field for local time shows is what it gives back", () => {
  const at = 1_795_000_000_000;
  equal(fromInput(toInput(at)), at);
  equal(fromInput(""), null);
});

Deno.test("a step is one that people count in, and there are not too many", () => {
  equal(niceStep(60_000, 480), 1_000);
  equal(niceStep(86_400_000, 480), 300_000);
  equal(niceStep(365 * 86_400_000, 480), 86_400_000);
  equal(365 * 86_400_000 / niceStep(365 * 86_400_000, 100) <= 100, true);
});

Deno.test("hovering shows UTC", () => equal(utcTime(0), "1970-01-01 00:00:00 UTC"));
