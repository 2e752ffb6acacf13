/** Events as they come, exactly as they were sent. Nothing is read before it is asked for; what a filter hides is counted. */
import { useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { lines, Problem } from "../../api/call.ts";
import { entriesOf, fieldsOf } from "../../core/exact_json.ts";
import { matches, parseFilter } from "../../core/json_filter.ts";
import { count } from "../../core/numbers.ts";
import { query, setQuery } from "../../core/route.ts";
import { Panel, textOf } from "../../parts/basics.tsx";

interface Shown {
  key: string;
  cursor: string;
  text: string;
}

const MOST_KEPT = 500;

export function Tail({ name, partitions }: { name: string; partitions: number }) {
  const running = useSignal(true);
  const paused = useSignal(false);
  const from = query("from") ?? "end";
  const events = useSignal<Shown[]>([]);
  const hidden = useSignal(0);
  const problem = useSignal<string | null>(null);
  const held = useRef<Shown[]>([]);
  const text = query("filter") ?? "";
  const filter = parseFilter(text);

  useEffect(() => {
    if (!running.value) return;
    const ending = new AbortController();
    problem.value = null;
    read(name, from === "begin" ? partitions : 0, ending.signal, (shown) => held.current.push(...shown)).then(
      () => (running.value = false),
      (failure) => {
        if (ending.signal.aborted) return;
        problem.value = failure instanceof Problem ? failure.message : "the stream has ended";
        running.value = false;
      },
    );
    return () => ending.abort();
  }, [name, from, running.value]);

  useEffect(() => {
    const timer = setInterval(() => {
      if (paused.value || !held.current.length) return;
      const fresh = held.current.splice(0);
      const kept = filter ? fresh.filter((one) => matches(filter, one.text)) : fresh;
      hidden.value += fresh.length - kept.length;
      events.value = [...kept.reverse(), ...events.value].slice(0, MOST_KEPT);
    }, 250);
    return () => clearInterval(timer);
  }, [text]);

  return (
    <Panel
      title="Live events"
      aside={
        <>
          <input
            class="mono"
            aria-label="Filter"
            placeholder="total > 100, or a text"
            value={text}
            onInput={(event) => setQuery({ filter: textOf(event) }, true)}
          />
          <select aria-label="Read from" value={from} onChange={(event) => setQuery({ from: textOf(event) }, true)}>
            <option value="end">new events</option>
            <option value="begin">from the beginning</option>
          </select>
          <button type="button" onClick={() => (paused.value = !paused.value)}>{paused.value ? "Resume" : "Pause"}</button>
          <button type="button" onClick={() => ([events.value, hidden.value] = [[], 0])}>Clear</button>
        </>
      }
    >
      {problem.value && (
        <div class="notice bad" role="alert">
          {problem.value}
          <button type="button" class="tiny" onClick={() => (running.value = true)}>Read on</button>
        </div>
      )}
      <div class="tail" role="log" aria-label="Events" tabIndex={0}>
        {events.value.map((one) => (
          <div class="event" key={one.key}>
            <span class="cursor">{one.cursor}</span>
            <span class="text">{one.text}</span>
          </div>
        ))}
        {events.value.length === 0 && <div class="empty">{paused.value ? "Paused" : "Waiting for events"}</div>}
      </div>
      <p class="small muted">
        {count(events.value.length)} shown{hidden.value > 0 && `, ${count(hidden.value)} hidden by the filter`}
        {paused.value && `, paused with ${count(held.current.length)} waiting`}
      </p>
    </Panel>
  );
}

async function read(name: string, partitions: number, signal: AbortSignal, take: (shown: Shown[]) => void): Promise<void> {
  const cursors = Array.from({ length: partitions }, (_, index) => ({ partition: String(index), offset: "BEGIN" }));
  const headers: Record<string, string> = partitions ? { "X-Nakadi-Cursors": JSON.stringify(cursors) } : {};
  const options = { batch_limit: 100, batch_flush_timeout: 1, stream_keep_alive_limit: 0 };
  for await (const line of lines("GET /event-types/{name}/events", { path: { name }, query: options, headers, signal })) {
    const batch = fieldsOf(line);
    const cursor = fieldsOf(batch.get("cursor") ?? "{}");
    const partition = unquoted(cursor.get("partition")), last = unquoted(cursor.get("offset"));
    const texts = entriesOf(batch.get("events") ?? "[]");
    take(texts.map((text, index) => {
      const place = `${partition}: ${shortened(last, texts.length - 1 - index)}`;
      return { key: place, cursor: place, text };
    }));
  }
}

function unquoted(text: string | undefined): string {
  return (text ?? "").replace(/^"|"$/g, "");
}

/** `001-0002-000000000000001178` without the zeros that say nothing; or the one so many before it, because offsets are dense
 * and a batch is of one timeline. */
export function shortened(cursor: string, before = 0): string {
  const [, order, offset] = /^(?:\d{3}-([0-9a-f]{4})-)?(-?\d+)$/.exec(cursor) ?? [];
  if (!offset) return cursor;
  return order ? `${parseInt(order, 16)}-${Number(offset) - before}` : String(Number(offset) - before);
}
