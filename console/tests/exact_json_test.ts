import { deepEqual, equal } from "node:assert/strict";
import { entriesOf, fieldsOf, pretty } from "../src/core/exact_json.ts";

Deno.test("large integers, repeated keys and the order of keys stay as they were sent", () => {
  const text = '{"b":12345678901234567890,"2":1.0,"1":1e400,"b":-0}';
  equal(pretty(text), '{ "b": 12345678901234567890, "2": 1.0, "1": 1e400, "b": -0 }');
});

Deno.test("what is too long for a line is put on several, and loses nothing", () => {
  const text = `{"list":[${Array.from({ length: 40 }, (_, index) => index).join(",")}],"text":"a { b, \\" c"}`;
  const shown = pretty(text);
  deepEqual(JSON.parse(shown), JSON.parse(text));
  equal(shown.split("\n")[1], '  "list": [');
});

Deno.test("a field is found by name, with the text that stands there", () => {
  const fields = fieldsOf(' {"cursor" : {"partition":"0","offset":"1"}, "events":[{"a":9007199254740993}], "x": null } ');
  equal(fields.get("events"), '[{"a":9007199254740993}]');
  equal(fields.get("cursor"), '{"partition":"0","offset":"1"}');
  equal(fields.get("x"), "null");
});

Deno.test("entries of an array are cut at their borders", () => {
  deepEqual(entriesOf('[ {"a":[1,2]}, "x,]", 3.10 ,[] ]'), ['{"a":[1,2]}', '"x,]"', "3.10", "[]"]);
  deepEqual(entriesOf("[]"), []);
});

Deno.test("a text that is no JSON is shown as it is", () => {
  equal(pretty("plainly \u0007 not"), "plainly \u0007 not");
  equal(pretty(""), "");
});
