import { deepEqual, equal } from "node:assert/strict";
import { asHash, link, parsePlace } from "../src/core/route.ts";
import { address } from "../src/api/call.ts";

Deno.test("a name with any character comes back out of the address", () => {
  const target = link(["topics", "a/b?c d"], { tab: "messages", from: 5, to: null });
  equal(target, "#/topics/a%2Fb%3Fc%20d?tab=messages&from=5");
  const { path, query } = parsePlace(target);
  deepEqual(path, ["topics", "a/b?c d"]);
  equal(query.get("tab"), "messages");
  equal(query.has("to"), false);
});

Deno.test("a broken address opens something and does not fail", () =>
  deepEqual(parsePlace("#/topics/%zz").path, ["topics", "%zz"]));

Deno.test("an address without a hash is as good, under a prefix too", () => {
  const root = new URL("https://h/meantime/console/");
  const here = { pathname: "/meantime/console/topics/x", search: "?tab=load", hash: "" };
  equal(asHash(root, here), "/meantime/console/#/topics/x?tab=load");
  equal(asHash(root, { ...here, pathname: "/meantime/console/" }), null);
  equal(asHash(root, { ...here, hash: "#/timers" }), null);
});

Deno.test("a call fills names into the path and leaves out what is not given", () => {
  const target = address("GET /topics/{topic}/messages", { topic: "a/b" }, { status: null, limit: 5 });
  equal(target.href.endsWith("/topics/a%2Fb/messages?limit=5"), true);
});
