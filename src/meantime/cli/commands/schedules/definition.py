"""`meantime schedules put` and `preview`: what a schedule is made of, on the command line."""

from typing import Annotated, Any, Literal

import typer

from meantime.cli.commands.schedules.calendar import print_calendar
from meantime.cli.instants import clock_time, from_now, seconds, unix_seconds
from meantime.cli.output import print_json, say
from meantime.cli.session import ClusterSession, as_producer, on_cluster

ScheduleId = Annotated[str, typer.Argument(metavar="SCHEDULE", help="Id of the schedule.")]
Cron = Annotated[
    str | None,
    typer.Option("--cron", help="Five fields, or six with seconds first, like '0 9 * * 1-5'; names, L and # too."),
]
Every = Annotated[
    str | None, typer.Option("--every", help="How often, like 10m; counted from 1970, the same for everybody.")
]
Phase = Annotated[str | None, typer.Option("--phase", help="How much later than that, like 30s.")]
Ats = Annotated[
    list[str] | None, typer.Option("--at", help="An instant, like 2026-05-01T09:00:00Z; once for each.", metavar="INSTANT")
]
Zone = Annotated[str | None, typer.Option("--zone", "-z", help="Time zone of --cron, like Europe/Berlin; UTC if not given.")]
OnGap = Annotated[
    Literal["after", "skip"] | None, typer.Option("--on-gap", help="A time that the clocks leave out: right after, or not.")
]
OnOverlap = Annotated[
    Literal["first", "second", "both"] | None,
    typer.Option("--on-overlap", help="A time that comes twice: which of the two."),
]
Jitter = Annotated[str | None, typer.Option("--jitter", help="Up to so much later, the same for the same instant.")]
Starts = Annotated[str | None, typer.Option("--starts", help="Instant before which it does not fire.")]
Ends = Annotated[str | None, typer.Option("--ends", help="Instant from which on it does not fire.")]
MaxFirings = Annotated[int | None, typer.Option("--max-firings", min=1, help="It ends after so many.")]


@as_producer
def put(
    session: ClusterSession,
    id: ScheduleId,
    cron: Cron = None,
    every: Every = None,
    phase: Phase = None,
    at: Ats = None,
    zone: Zone = None,
    topic: Annotated[str | None, typer.Option("--topic", help="Fire messages of --group into this topic.")] = None,
    event_type: Annotated[str | None, typer.Option("--event-type", help="Fire events of this type.")] = None,
    kafka_topic: Annotated[str | None, typer.Option("--kafka-topic", help="Fire records into this Kafka topic.")] = None,
    record_key: Annotated[str | None, typer.Option("--record-key", help="Key of these records.")] = None,
    body: Annotated[
        str | None,
        typer.Option(
            "--body",
            "-b",
            help="JSON; {{schedule}}, {{instant}}, {{scheduled_at}} and {{firing}} in its texts are filled in.",
        ),
    ] = None,
    on_gap: OnGap = None,
    on_overlap: OnOverlap = None,
    missed: Annotated[
        Literal["last", "all", "none"] | None, typer.Option("--missed", help="What to make up for after an outage.")
    ] = None,
    missed_within: Annotated[str | None, typer.Option("--missed-within", help="How late at most, like 1d.")] = None,
    overlap: Annotated[
        Literal["allow", "skip"] | None, typer.Option("--overlap", help="Skip while the message before is still there.")
    ] = None,
    jitter: Jitter = None,
    starts: Starts = None,
    ends: Ends = None,
    max_firings: MaxFirings = None,
    paused: Annotated[
        bool | None, typer.Option("--paused/--running", help="Whether it rests; as it is, if not given.")
    ] = None,
    note: Annotated[str | None, typer.Option("--note", help="A word to whoever looks at it.")] = None,
    version: Annotated[
        int | None, typer.Option("--if-version", min=1, help="Change it only if it has this version.")
    ] = None,
) -> None:
    """Make a schedule, or change it: it is then what the options say, whatever it was before; a paused one stays paused.

    Example: meantime schedules put report --cron '0 9 * * 1-5' --zone Europe/Berlin --topic reports

    Example: meantime schedules put tidy --every 10m --topic chores --body '{"for": "{{instant}}"}' --overlap skip
    """
    settings = _calendar(session, cron=cron, every=every, phase=phase, at=at, zone=zone)
    settings |= _bounds(session, jitter=jitter, starts=starts, ends=ends)
    settings |= {"on_gap": on_gap, "on_overlap": on_overlap, "missed": missed, "overlap": overlap}
    settings |= {"missed_within": _given(missed_within), "max_firings": max_firings, "paused": paused, "note": note}
    target = _target(session, topic, event_type, kafka_topic, record_key)
    made = session.client.schedules.put(id, version=version, target=target, body=body, **settings)
    if session.json:
        print_json(made)
        return
    paused_or_next = "is paused" if made.paused else f"fires next at {_when(session, made.next_at_ms)}"
    say(f"{made.id}, version {made.version}, {paused_or_next}")
    if made.too_late:
        say(f"too late to take back from the version before: {', '.join(map(clock_time, made.too_late))}")


@on_cluster
def preview(
    session: ClusterSession,
    cron: Cron = None,
    every: Every = None,
    phase: Phase = None,
    at: Ats = None,
    zone: Zone = None,
    on_gap: OnGap = None,
    on_overlap: OnOverlap = None,
    jitter: Jitter = None,
    starts: Starts = None,
    ends: Ends = None,
    max_firings: MaxFirings = None,
    count: Annotated[int, typer.Option("--count", "-n", min=1, max=1000, help="How many instants.")] = 10,
    start: Annotated[str, typer.Option("--from", help="Instant to begin with.")] = "now",
) -> None:
    """Say when a schedule would fire; nothing is made.

    Example: meantime schedules preview --cron '30 2 * * *' --zone Europe/Berlin --from 2027-03-27T00:00:00Z -n 3
    """
    settings = _calendar(session, cron=cron, every=every, phase=phase, at=at, zone=zone)
    settings |= _bounds(session, jitter=jitter, starts=starts, ends=ends)
    settings |= {"on_gap": on_gap, "on_overlap": on_overlap, "max_firings": max_firings}
    firings = session.client.schedules.preview(count=count, start=unix_seconds(start, now(session)), **settings)
    if session.json:
        print_json({"firings": firings})
    else:
        print_calendar(session, firings)


def now(session: ClusterSession) -> float:
    """The broker's time in Unix seconds."""
    if not session.client.core.drift.measured:
        session.client.health()
    return session.client.now()


def _calendar(session: ClusterSession, **given: Any) -> dict[str, Any]:
    if sum(bool(given[name]) for name in ("cron", "every", "at")) != 1:
        raise typer.BadParameter("say when it recurs: give one of --cron, --every and --at")
    return {
        "cron": given["cron"],
        "every": _given(given["every"]),
        "phase": _given(given["phase"]),
        "at": [unix_seconds(text, now(session)) for text in given["at"]] if given["at"] else None,
        "time_zone": given["zone"],
    }


def _bounds(session: ClusterSession, jitter: str | None, starts: str | None, ends: str | None) -> dict[str, Any]:
    return {
        "jitter": _given(jitter),
        "starts_at": unix_seconds(starts, now(session)) if starts else None,
        "ends_at": unix_seconds(ends, now(session)) if ends else None,
    }


def _target(
    session: ClusterSession, topic: str | None, event_type: str | None, kafka_topic: str | None, key: str | None
) -> dict[str, str]:
    if sum(name is not None for name in (topic, event_type, kafka_topic)) != 1:
        raise typer.BadParameter("say where it fires: give one of --topic, --event-type and --kafka-topic")
    if topic is not None:
        return {"topic": topic, "group": session.client.core.credentials.producer_group}
    if event_type is not None:
        return {"event_type": event_type}
    return {"kafka_topic": kafka_topic or ""} | ({} if key is None else {"key": key})


def _given(text: str | None) -> float | None:
    return seconds(text) if text else None


def _when(session: ClusterSession, at_ms: int | None) -> str:
    return (
        "no instant any more" if at_ms is None else f"{clock_time(at_ms)} ({from_now(at_ms, session.client.now() * 1000)})"
    )
