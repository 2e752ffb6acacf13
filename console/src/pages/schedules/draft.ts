/** What the form of a schedule holds, and what is sent of it. Fields that the form does not show stay as they were. */
import type { ScheduleForm, ScheduleTarget, ScheduleView } from "../../api/types.ts";
import { parseDuration } from "../../core/time.ts";

export interface Draft {
  id: string;
  kind: "cron" | "every";
  cron: string;
  every: string;
  zone: string;
  target: "topic" | "event_type" | "kafka_topic";
  name: string;
  group: string;
  body: string;
}

const KEPT = [
  "phase_ms",
  "on_gap",
  "on_overlap",
  "missed",
  "missed_within_ms",
  "overlap",
  "jitter_ms",
  "starts_at_ms",
  "ends_at_ms",
  "max_firings",
  "paused",
  "note",
  "version",
  "body_b64",
] as const;

/** Whether the form can show its rule: lists of instants are for the command line. */
export function isEditable(schedule: ScheduleView): boolean {
  return schedule.at_ms === undefined;
}

/** `body` is the text of the body as it was sent. */
export function draftOf(schedule?: ScheduleView, body?: string): Draft {
  const target = schedule?.target;
  const kind = target?.event_type ? "event_type" : target?.kafka_topic ? "kafka_topic" : "topic";
  return {
    id: schedule?.id ?? "",
    kind: schedule?.every_ms ? "every" : "cron",
    cron: schedule?.cron ?? "0 9 * * *",
    every: schedule?.every_ms ? `${schedule.every_ms / 1000}s` : "15m",
    zone: schedule?.time_zone ?? Intl.DateTimeFormat().resolvedOptions().timeZone ?? "UTC",
    target: kind,
    name: target ? nameOf(target) : "",
    group: target?.group ?? "",
    body: schedule ? body ?? "" : "{}",
  };
}

function nameOf(target: ScheduleTarget): string {
  return target.topic ?? target.event_type ?? target.kafka_topic ?? "";
}

export function formOf(draft: Draft, before?: ScheduleView): Omit<ScheduleForm, "body"> {
  const kept = Object.fromEntries(
    KEPT.flatMap((name) => before?.[name] === undefined || before[name] === null ? [] : [[name, before[name]]]),
  );
  const rule = draft.kind === "cron" ? { cron: draft.cron.trim() } : { every_ms: parseDuration(draft.every) ?? 0 };
  if (draft.kind === "cron") delete kept.phase_ms;
  if (draft.body.trim()) delete kept.body_b64;
  return { ...kept, ...rule, time_zone: draft.zone.trim(), target: targetOf(draft, before?.target) };
}

function targetOf(draft: Draft, before?: ScheduleTarget): ScheduleTarget {
  const name = draft.name.trim();
  if (draft.target === "topic") return { topic: name, group: draft.group.trim() };
  if (draft.target === "event_type") return { event_type: name };
  return { kafka_topic: name, ...(before?.key ? { key: before.key } : {}) };
}

/** The text of the body is put in as it stands, so that its numbers are not rounded. */
export function withBody(form: object, body: string): string {
  return body.trim() ? `${JSON.stringify(form).slice(0, -1)}, "body": ${body.trim()}}` : JSON.stringify(form);
}
