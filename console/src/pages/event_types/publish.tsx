/** A test event. The text is sent as it stands, so what is published is what was written here. */
import { useSignal } from "@preact/signals";
import { call, Problem } from "../../api/call.ts";
import { Panel, textOf } from "../../parts/basics.tsx";
import { tell } from "../../parts/toasts.tsx";

function template(category: string): string {
  const eid = crypto.randomUUID?.() ?? "00000000-0000-4000-8000-000000000001";
  const metadata = { eid, occurred_at: new Date().toISOString() };
  if (category === "undefined") return JSON.stringify({ hello: "from the console" }, null, 2);
  if (category === "business") return JSON.stringify({ metadata, hello: "from the console" }, null, 2);
  return JSON.stringify({ metadata, data_op: "C", data_type: "test", data: { hello: "from the console" } }, null, 2);
}

export function PublishForm({ name, category }: { name: string; category: string }) {
  const text = useSignal(template(category));
  const problem = useSignal<string | null>(null);
  const onSubmit = async (event: Event) => {
    event.preventDefault();
    problem.value = null;
    try {
      await call("POST /event-types/{name}/events", { path: { name }, body: `[${text.value}]` });
      tell("The event is published.");
      text.value = template(category);
    } catch (failure) {
      problem.value = failure instanceof Problem ? explained(failure) : String(failure);
    }
  };
  return (
    <Panel title="Publish a test event">
      <form class="stack" onSubmit={onSubmit}>
        <textarea aria-label="Event" rows={7} value={text.value} onInput={(event) => (text.value = textOf(event))} />
        {problem.value && <div class="notice bad" role="alert">{problem.value}</div>}
        <div class="row">
          <button type="submit" class="primary">Publish</button>
        </div>
      </form>
    </Panel>
  );
}

/** A refused batch answers with an item per event. */
function explained(problem: Problem): string {
  const first = Object.values(problem.extras).find((one): one is { detail: string } =>
    typeof one === "object" && one !== null && "detail" in one
  );
  return first?.detail || problem.message;
}
