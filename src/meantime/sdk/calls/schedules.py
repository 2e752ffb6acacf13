"""Calls of schedules: what recurs.

What a schedule is made of is the same for `put` and `preview`: a calendar (`cron`, `every` or `at`), a target, a body and
how it is to be treated. Durations and instants are written as everywhere in the client.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypedDict, Unpack

from meantime.errors import Invalid
from meantime.sdk.calls.call import JSON, Call, Response, body, fields, path, reading
from meantime.sdk.instants import Duration, Instant, milliseconds, unix_ms
from meantime.sdk.schedule_model import Fired, Firing, Paused, PlannedFiring, Schedule, ScheduleTarget

OnGap = Literal["after", "skip"]
OnOverlap = Literal["first", "second", "both"]
Missed = Literal["last", "all", "none"]
Overlap = Literal["allow", "skip"]
Target = ScheduleTarget | Mapping[str, str]


class ScheduleSettings(TypedDict, total=False):
    """What a schedule may be given; see `ScheduleDraft`."""

    cron: str | None
    every: Duration | None
    phase: Duration | None
    at: Sequence[Instant] | None
    time_zone: str | None
    target: Target | None
    body: Any
    on_gap: OnGap | None
    on_overlap: OnOverlap | None
    missed: Missed | None
    missed_within: Duration | None
    overlap: Overlap | None
    jitter: Duration | None
    starts_at: Instant | None
    ends_at: Instant | None
    max_firings: int | None
    paused: bool | None
    note: str | None


@dataclass(frozen=True, slots=True)
class ScheduleDraft:
    """A schedule before it is one. Of what is None the broker takes its default."""

    cron: str | None = None
    every: Duration | None = None
    phase: Duration | None = None
    at: Sequence[Instant] | None = None
    time_zone: str | None = None
    target: Target | None = None
    body: Any = None
    on_gap: OnGap | None = None
    on_overlap: OnOverlap | None = None
    missed: Missed | None = None
    missed_within: Duration | None = None
    overlap: Overlap | None = None
    jitter: Duration | None = None
    starts_at: Instant | None = None
    ends_at: Instant | None = None
    max_firings: int | None = None
    paused: bool | None = None
    note: str | None = None

    def document(self) -> dict[str, Any]:
        if sum(part is not None for part in (self.cron, self.every, self.at)) != 1:
            raise Invalid("say when it recurs: give one of `cron`, `every` (a duration) and `at` (a list of instants)")
        raw = isinstance(self.body, bytes | bytearray | memoryview)
        return fields(
            cron=self.cron,
            every_ms=_optional_ms(self.every),
            phase_ms=_optional_ms(self.phase),
            at_ms=None if self.at is None else [unix_ms(instant) for instant in self.at],
            time_zone=self.time_zone,
            target=self.target,
            body=None if raw else self.body,
            body_b64=bytes(self.body) if raw else None,
            on_gap=self.on_gap,
            on_overlap=self.on_overlap,
            missed=self.missed,
            missed_within_ms=_optional_ms(self.missed_within),
            overlap=self.overlap,
            jitter_ms=_optional_ms(self.jitter),
            starts_at_ms=_optional_unix_ms(self.starts_at),
            ends_at_ms=_optional_unix_ms(self.ends_at),
            max_firings=self.max_firings,
            paused=self.paused,
            note=self.note,
        )


def put(id: str, *, version: int | None = None, **settings: Unpack[ScheduleSettings]) -> Call[Schedule]:
    """Make a schedule, or change it: it is then what these settings say, whatever it was before; only `paused` and `note`
    stay as they are if they are not given. The same again changes nothing. With `version`, only if it has not changed since
    (else Conflict with code `stale_version`).

    A calendar: `cron` (five fields, or six with seconds first) in a `time_zone`, or `every` (and `phase`), or `at`. A
    `target`: `{"topic": …, "group": …}`, `{"event_type": …}` or `{"kafka_topic": …, "key": …}`. A `body`: JSON in whose
    texts `{{schedule}}`, `{{instant}}`, `{{scheduled_at}}` and `{{firing}}` are filled in, the same as one text, or bytes.
    How it is treated: `on_gap`, `on_overlap`, `missed`, `missed_within`, `overlap`, `jitter`, `starts_at`, `ends_at`,
    `max_firings`, `paused`, `note`.

    >>> client.schedules.put("report", cron="0 9 * * 1-5", time_zone="Europe/Berlin",
    ...                      target={"topic": "reports", "group": "shop"}, body={"day": "{{scheduled_at}}"})
    """
    return put_draft(id, ScheduleDraft(**settings), version)


def put_draft(id: str, draft: ScheduleDraft, version: int | None = None) -> Call[Schedule]:
    """`put` for a draft."""
    document = draft.document() | fields(version=version)
    return Call("PUT", path("schedules", id), reading(Schedule), body(document), JSON, repeatable=version is None)


def get(id: str) -> Call[Schedule]:
    """One schedule, with its version, when it fires next and when it has last."""
    return Call("GET", path("schedules", id), reading(Schedule))


def list_schedules(
    *,
    prefix: str | None = None,
    target: str | None = None,
    paused: bool | None = None,
    moved: bool | None = None,
    after: str | None = None,
    limit: int | None = None,
) -> Call[list[Schedule]]:
    """Schedules by id, up to 100 or `limit` of them: those whose ids begin with `prefix`, that fire into `target`
    (`topic:<name>`, `event_type:<name>`, `kafka_topic:<name>`), that are `paused` or not, whose firings other time zone data
    have `moved`. `after` is the last id of the page before."""
    filters = {"prefix": prefix, "target": target, "paused": _flag(paused), "moved": _flag(moved)}
    query = filters | {"after": after, "limit": limit}
    return Call("GET", path("schedules", query=query), reading(list[Schedule], "schedules"))


def delete(id: str) -> Call[list[int]]:
    """Delete a schedule and take back what was set ahead; returns the instants for which it was too late."""
    return Call("DELETE", path("schedules", id), _too_late)


def preview(
    *, count: int | None = None, start: Instant | None = None, **settings: Unpack[ScheduleSettings]
) -> Call[list[PlannedFiring]]:
    """When a schedule with these settings would fire; nothing is made.

    >>> client.schedules.preview(cron="30 2 * * *", time_zone="Europe/Berlin", start="2027-03-27T00:00:00Z", count=3)
    """
    document = ScheduleDraft(**settings).document() | fields(count=count, from_ms=_optional_unix_ms(start))
    return Call("POST", path("schedules", "preview"), reading(list[PlannedFiring], "firings"), body(document), JSON)


def next_firings(id: str, *, count: int | None = None, start: Instant | None = None) -> Call[list[PlannedFiring]]:
    """The next instants at which a schedule fires, from `start` on."""
    query = {"count": count, "from_ms": _optional_unix_ms(start)}
    return Call("GET", path("schedules", id, "next", query=query), reading(list[PlannedFiring], "firings"))


def firings(
    id: str, *, start: Instant | None = None, end: Instant | None = None, limit: int | None = None
) -> Call[list[Firing]]:
    """What became of the instants of a schedule."""
    query = {"from_ms": _optional_unix_ms(start), "to_ms": _optional_unix_ms(end), "limit": limit}
    return Call("GET", path("schedules", id, "firings", query=query), reading(list[Firing], "firings"))


def fire(id: str, *, at: Instant | None = None) -> Call[Fired]:
    """Fire beside the calendar. With `at`, an instant up to now, the call can be repeated and makes one firing; without it
    the instant is now, and the call is sent once."""
    document = fields(at_ms=_optional_unix_ms(at))
    return Call("POST", path("schedules", id, "fire"), reading(Fired), body(document), JSON, repeatable=at is not None)


def pause(id: str, *, note: str | None = None) -> Call[Schedule]:
    """Let a schedule rest until it is resumed, and take back what was set ahead; `note` says why, to whoever asks."""
    return Call("POST", path("schedules", id, "pause"), reading(Schedule), body(fields(note=note)), JSON)


def resume(id: str) -> Call[Schedule]:
    """Let a schedule go on from now; what was due in the meantime is not made up for."""
    return Call("POST", path("schedules", id, "resume"), reading(Schedule))


def pause_all(prefix: str, *, note: str | None = None) -> Call[Paused]:
    """Pause all schedules whose ids begin with `prefix`."""
    return Call("POST", path("schedules", "pause"), reading(Paused), body(fields(prefix=prefix, note=note)), JSON)


def resume_all(prefix: str) -> Call[Paused]:
    """Resume all schedules whose ids begin with `prefix`."""
    return Call("POST", path("schedules", "resume"), reading(Paused), body(fields(prefix=prefix)), JSON)


def backfill(id: str, start: Instant, end: Instant, *, dry_run: bool = False) -> Call[Fired]:
    """Fire now for the instants from `start` on, before `end`, that have not fired, 1,000 at most; with `dry_run`, only say
    which these are. What has fired is left alone, so the call can be repeated."""
    document = {"from_ms": unix_ms(start), "to_ms": unix_ms(end), "dry_run": dry_run}
    return Call("POST", path("schedules", id, "backfill"), reading(Fired), body(document), JSON)


def _too_late(answer: Response) -> list[int]:
    return reading(list[int], "too_late")(answer) if answer.content else []


def _flag(value: bool | None) -> str | None:
    return None if value is None else "true" if value else "false"


def _optional_ms(duration: Duration | None) -> int | None:
    return None if duration is None else milliseconds(duration)


def _optional_unix_ms(instant: Instant | None) -> int | None:
    return None if instant is None else unix_ms(instant)
