// The walk with the `fetch` of Node: `walk.mjs URL NAME`. A private CA is named by `NODE_EXTRA_CA_CERTS`.

const [url, name] = process.argv.slice(2);
const GROUP = { "X-Producer-Group": "walk" };

// `fetch` speaks HTTP/1.1 and does not tell.
const told = (step, answer, seen) =>
  console.log(JSON.stringify({ step, status: answer.status, protocol: "HTTP/1.1", seen }));

// Whoever leaves an answer unread keeps its connection from others.
const done = async (step, answer, seen = []) => {
  await answer.text();
  told(step, answer, seen);
};

const call = (method, path, body, headers = {}) =>
  fetch(url + path, {
    method,
    headers: { "Content-Type": "application/json", ...headers },
    body: body === undefined ? undefined : JSON.stringify(body),
  });

async function* lines(answer) {
  let rest = "";
  for await (const part of answer.body.pipeThrough(new TextDecoderStream())) {
    const whole = (rest + part).split("\n");
    rest = whole.pop();
    yield* whole.filter((line) => line).map((line) => JSON.parse(line));
  }
}

const numbers = (batch) => (batch.events ?? []).map((event) => event.n);

async function streams() {
  const events = `/event-types/${name}/events`;
  let answer = await call("POST", "/event-types", { name, owning_application: "walk", category: "undefined" });
  await done("create event type", answer);
  answer = await call("POST", events, [{ n: 1 }, { n: 2 }, { n: 3 }]);
  await done("publish", answer);
  const cursors = JSON.stringify([{ partition: "0", offset: "BEGIN" }]);
  const asked = "stream_limit=3&batch_limit=3&stream_timeout=30";
  answer = await call("GET", `${events}?${asked}`, undefined, { "X-Nakadi-Cursors": cursors });
  const seen = [];
  for await (const batch of lines(answer)) seen.push(...numbers(batch));
  told("read events", answer, seen);

  answer = await call("POST", "/subscriptions", { owning_application: "walk", event_types: [name], read_from: "begin" });
  const subscription = await answer.json();
  told("subscribe", answer, subscription.event_types);
  const path = `/subscriptions/${subscription.id}`;
  const leaving = new AbortController();
  const stream = await fetch(`${url}${path}/events?batch_limit=3`, { signal: leaving.signal });
  const reader = lines(stream);
  const { value: batch } = await reader.next();
  told("read subscription", stream, numbers(batch));
  const streamId = { "X-Nakadi-StreamId": stream.headers.get("X-Nakadi-StreamId") };
  answer = await call("POST", `${path}/cursors`, { items: [batch.cursor] }, streamId);
  await done("commit", answer);
  leaving.abort();
  answer = await call("GET", `${path}/cursors`);
  told("committed", answer, (await answer.json()).items.map((item) => item.offset === batch.cursor.offset));
}

async function topics() {
  const topic = `/topics/${name}`;
  const schedule = (...ids) =>
    call("POST", `${topic}/messages`, { messages: ids.map((id) => ({ id, after_ms: 0, body: { for: id } })) }, GROUP);
  const hold = (how, leases, more = {}) =>
    call("POST", `${topic}/leases/${how}`, {
      consumer_id: "walker",
      leases: leases.map(({ id, version }) => ({ id, version, ...more })),
    });
  const results = async (step, answer) => {
    const { results } = await answer.json();
    told(step, answer, results.map((result) => result.status));
    return results;
  };

  let answer = await call("PUT", topic, { bucket_count: 8 });
  told("create topic", answer, [(await answer.json()).name]);
  await results("schedule", await schedule("m1", "m2", "m3"));
  const leases = [];
  for (let pulls = 0; pulls < 30 && leases.length < 3; pulls++) {
    const pull = { consumer_id: "walker", limit: 3 - leases.length, wait_ms: 2000 };
    answer = await call("POST", `${topic}/leases`, pull);
    leases.push(...(await answer.json()).leases);
  }
  leases.sort((one, other) => (one.id < other.id ? -1 : 1));
  told("lease", answer, leases.map((lease) => lease.id));
  const extended = await results("extend", await hold("extend", leases, { after_ms: 60000 }));
  await results("delete", await hold("delete", extended.slice(0, 2)));

  const leaving = new AbortController();
  const stream = await fetch(`${url}${topic}/leases?consumer_id=walker`, { signal: leaving.signal });
  const pushed = lines(stream);
  const held = [(await pushed.next()).value];
  await results("schedule while streaming", await schedule("m4"));
  held.push((await pushed.next()).value);
  told("push", stream, held.map((lease) => lease.id));
  await results("delete what was pushed", await hold("delete", held));
  leaving.abort();
}

async function bodies() {
  const events = `/event-types/${name}/events`;
  const messages = `/topics/${name}/messages`;
  const problem = async (step, answer) => {
    const document = await answer.json();
    told(step, answer, [answer.headers.get("Content-Type"), document.status, document.code]);
  };
  await problem("not an array", await call("POST", events, { n: 1 }));
  await problem("no such event type", await call("GET", `/event-types/${name}-no`));
  await problem("no instant", await call("PATCH", `${messages}/m1`, { after_ms: "soon" }, GROUP));
  const statuses = new Set();
  let answer;
  for (let n = 0; n < 20; n++) {
    answer = await call("POST", events, [{ n }]);
    await answer.text();
    statuses.add(answer.status);
  }
  await done("keep alive", await call("GET", "/health"), [...statuses]);
  const large = [...Array(8).keys()].map((n) => ({ n, filling: "x".repeat(500000) }));
  answer = await call("POST", events, large);
  const why = await answer.text();
  told("large body", answer, why ? [why] : []);
  const pieces = ['{"messages": [', '{"id": "c1", "after_ms": 0, "body": 1}', "]}"];
  const body = new ReadableStream({
    pull: (controller) => (pieces.length ? controller.enqueue(pieces.shift()) : controller.close()),
  }).pipeThrough(new TextEncoderStream());
  answer = await fetch(url + messages, { method: "POST", body, duplex: "half", headers: GROUP });
  told("body in chunks", answer, (await answer.json()).results.map((result) => result.status));
}

await streams();
await topics();
await bodies();
