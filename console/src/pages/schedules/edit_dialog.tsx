/** Makes or changes a schedule, with a preview of what it would do. The body is sent as it is written. */
import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { call, Problem } from "../../api/call.ts";
import type { NextView, ScheduleView } from "../../api/types.ts";
import { parseDuration } from "../../core/time.ts";
import { Field, textOf } from "../../parts/basics.tsx";
import { Confirm } from "../../parts/dialog.tsx";
import { Instant } from "../../parts/instant.tsx";
import { go, link } from "../../core/route.ts";
import { type Draft, draftOf, formOf, withBody } from "./draft.ts";

const TYPING_MS = 400;

interface Props {
  schedule?: ScheduleView;
  body?: string;
  done: () => void;
  onClose: () => void;
}

export function EditDialog({ schedule, body, done, onClose }: Props) {
  const draft = useSignal<Draft>(draftOf(schedule, body));
  const preview = useSignal<NextView[]>([]);
  const refused = useSignal<string | null>(null);
  const set = (changes: Partial<Draft>) => (draft.value = { ...draft.value, ...changes });
  const text = (name: keyof Draft) => ({
    value: String(draft.value[name]),
    onInput: (event: Parameters<typeof textOf>[0]) => set({ [name]: textOf(event) }),
  });

  useEffect(() => {
    const timer = setTimeout(async () => {
      try {
        const form = { ...formOf(draft.value, schedule), count: 6 };
        preview.value = (await call("POST /schedules/preview", { body: withBody(form, draft.value.body) })).firings;
        refused.value = null;
      } catch (failure) {
        preview.value = [];
        refused.value = failure instanceof Problem ? failure.message : String(failure);
      }
    }, TYPING_MS);
    return () => clearTimeout(timer);
  }, [draft.value]);

  const act = async () => {
    const { id } = draft.value;
    await call("PUT /schedules/{id}", {
      path: { id },
      body: withBody(formOf(draft.value, schedule), draft.value.body),
    });
    if (!schedule) go(link(["schedules", id]));
    return `${id} is saved.`;
  };
  return (
    <Confirm title={schedule ? `Edit ${schedule.id}` : "New schedule"} action="Save" act={act} done={done} onClose={onClose}>
      <div class="fields">
        {!schedule && (
          <Field label="Id">
            <input required {...text("id")} />
          </Field>
        )}
        <Field label="Kind">
          <select
            value={draft.value.kind}
            onChange={(event) =>
              set({ kind: textOf(event) as Draft["kind"] })}
          >
            <option value="cron">cron</option>
            <option value="every">every …</option>
          </select>
        </Field>
        {draft.value.kind === "cron"
          ? (
            <Field label="Cron">
              <input class="mono" required {...text("cron")} />
            </Field>
          )
          : (
            <Field label="Every (90s, 15m, 4h)">
              <input required {...text("every")} aria-invalid={parseDuration(draft.value.every) === null} />
            </Field>
          )}
        <Field label="Time zone">
          <input required {...text("zone")} />
        </Field>
        <Field label="Target">
          <select
            value={draft.value.target}
            onChange={(event) =>
              set({ target: textOf(event) as Draft["target"] })}
          >
            <option value="topic">topic</option>
            <option value="event_type">event type</option>
            <option value="kafka_topic">Kafka topic</option>
          </select>
        </Field>
        <Field label="Name of the target">
          <input required {...text("name")} />
        </Field>
        {draft.value.target === "topic" && (
          <Field label="Producer group">
            <input required {...text("group")} />
          </Field>
        )}
      </div>
      <Field label="Body, JSON">
        <textarea rows={3} {...text("body")} />
      </Field>
      <div>
        <strong>What it would do</strong>
        {refused.value && <p class="small muted">{refused.value}</p>}
        <ul class="log">
          {preview.value.map((one) => (
            <li key={one.at_ms}>
              <Instant at={one.at_ms} near /> <span class="mono">{one.local}</span> {one.note && <em>{one.note}</em>}
            </li>
          ))}
        </ul>
      </div>
    </Confirm>
  );
}
