/** Rules and targets of schedules in words. */
import type { ScheduleForm, ScheduleTarget, ScheduleView } from "../../api/types.ts";
import { plural } from "../../core/numbers.ts";
import { duration } from "../../core/time.ts";

export function ruleOf(one: ScheduleForm | ScheduleView): string {
  if (one.cron) return one.cron;
  if (one.every_ms) return `every ${duration(one.every_ms)}`;
  return one.at_ms ? plural(one.at_ms.length, "instant") : "–";
}

export function targetOf(target: ScheduleTarget): string {
  if (target.topic) return `topic ${target.topic}`;
  if (target.event_type) return `event type ${target.event_type}`;
  return `Kafka topic ${target.kafka_topic}`;
}

/** Which mark a firing gets in the calendar: clocks are put forward or back there. */
export function dstMark(note: string | null): string | null {
  if (!note) return null;
  if (note.includes("gap")) return "clocks go forward";
  return note.includes("of two") ? "clocks go back" : note;
}
