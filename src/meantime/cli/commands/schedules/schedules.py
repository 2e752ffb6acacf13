"""`meantime schedules`: look at schedules and their instants, fire, pause, resume, backfill and delete them."""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer

from meantime.cli.commands.schedules import definition
from meantime.cli.commands.schedules.calendar import print_calendar, recurrence
from meantime.cli.commands.schedules.definition import ScheduleId, now
from meantime.cli.instants import clock_time, from_now, human, unix_seconds
from meantime.cli.output import print_json, print_line, print_table, say
from meantime.cli.session import ClusterSession, Yes, confirm, on_cluster
from meantime.errors import Invalid

if TYPE_CHECKING:
    from meantime.sdk.schedule_model import Fired, Paused, Schedule

app = typer.Typer(no_args_is_help=True, help="Schedules: what recurs, once per instant.")
app.command("put")(definition.put)
app.command("preview")(definition.preview)

PAGE = 1000
SHOWN = 20

Prefix = Annotated[str | None, typer.Option("--prefix", help="All whose ids begin like this.")]
OptionalId = Annotated[str | None, typer.Argument(metavar="[SCHEDULE]", help="Id of the schedule; or give --prefix.")]
Limit = Annotated[int, typer.Option("--limit", "-n", min=1, help="At most so many.")]


def register(root: typer.Typer) -> None:
    root.add_typer(app, name="schedules", rich_help_panel="Schedules")


@app.command("list")
@on_cluster
def list_all(
    session: ClusterSession,
    prefix: Prefix = None,
    target: Annotated[str | None, typer.Option("--target", help="topic:NAME, event_type:NAME or kafka_topic:NAME.")] = None,
    paused: Annotated[bool | None, typer.Option("--paused/--running", help="Only these.")] = None,
    limit: Limit = 1000,
) -> None:
    """List schedules by id.

    Example: meantime schedules list --prefix shop. --paused
    """
    found = list(islice(_pages(session, limit, prefix, target, paused), limit))
    if session.json:
        print_json(found)
        return
    now_ms = now(session) * 1000
    rows = [[one.id, recurrence(one), one.target, _next(one, now_ms), one.firings, one.note] for one in found]
    print_table(["id", "recurs", "fires into", "next", "firings", "note"], rows)


@app.command()
@on_cluster
def show(session: ClusterSession, id: ScheduleId) -> None:
    """Show one schedule: what it is made of, where it stands, and its next instants.

    Example: meantime schedules show report
    """
    found = session.client.schedules.get(id)
    if session.json:
        print_json(found)
        return
    print_table([found.id, ""], _settings(found, now(session) * 1000))
    upcoming = [] if found.paused else session.client.schedules.next(id, count=5)
    if upcoming:
        print_line("")
        print_calendar(session, upcoming)


@app.command("next")
@on_cluster
def next_firings(
    session: ClusterSession,
    id: ScheduleId,
    count: Annotated[int, typer.Option("--count", "-n", min=1, max=1000, help="How many instants.")] = 10,
    start: Annotated[str | None, typer.Option("--from", help="Instant to begin with; now if not given.")] = None,
) -> None:
    """The calendar of a schedule: its next instants on its own wall clock and in UTC, with marks where clocks change.

    Example: meantime schedules next report --count 5

    Example: meantime schedules next report --from 2027-03-26T00:00:00Z
    """
    begin = unix_seconds(start, now(session)) if start else None
    firings = session.client.schedules.next(id, count=count, start=begin)
    if session.json:
        print_json({"firings": firings})
    elif firings:
        print_calendar(session, firings)
    else:
        say(f"{id} does not fire any more")


@app.command()
@on_cluster
def firings(
    session: ClusterSession,
    id: ScheduleId,
    start: Annotated[str | None, typer.Option("--from", help="Only instants from this one on.")] = None,
    end: Annotated[str, typer.Option("--to", help="Only instants before this one; later ones are set ahead.")] = "now",
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=1000, help="At most so many, the newest.")] = 20,
) -> None:
    """What became of the instants of a schedule, the newest first, and why.

    Example: meantime schedules firings report --limit 5
    """
    first = unix_seconds(start, now(session)) if start else None
    found = session.client.schedules.firings(id, start=first, end=unix_seconds(end, now(session)), limit=limit)
    if session.json:
        print_json({"firings": found})
        return
    rows = [
        [clock_time(one.at_ms), one.state, one.why, human((one.lateness_ms or 0) / 1000), one.version, one.id or one.token]
        for one in found
    ]
    print_table(["instant", "state", "why", "late", "version", "message or timer"], rows)


@app.command()
@on_cluster
def fire(
    session: ClusterSession,
    id: ScheduleId,
    at: Annotated[
        str | None, typer.Option("--at", help="Instant to fire for: the same again is the same firing. Now if not given.")
    ] = None,
) -> None:
    """Fire now, beside the calendar; also while it is paused.

    Example: meantime schedules fire report
    """
    done = session.client.schedules.fire(id, at=unix_seconds(at, now(session)) if at else None)
    _tell_fired(session, id, done, "fired")


@app.command()
@on_cluster
def pause(
    session: ClusterSession,
    id: OptionalId = None,
    prefix: Prefix = None,
    note: Annotated[str | None, typer.Option("--note", help="Why, to whoever asks.")] = None,
) -> None:
    """Let schedules rest until they are resumed, and take back what was set ahead.

    Example: meantime schedules pause report --note 'until the printer is back'

    Example: meantime schedules pause --prefix shop.
    """
    schedules = session.client.schedules
    one, many = _one_or_many(id, prefix)
    _tell_paused(session, _only(schedules.pause(one, note=note)) if one else schedules.pause_all(many, note=note), "paused")


@app.command()
@on_cluster
def resume(session: ClusterSession, id: OptionalId = None, prefix: Prefix = None) -> None:
    """Let paused schedules go on from now; what was due in the meantime is not made up for.

    Example: meantime schedules resume report
    """
    schedules = session.client.schedules
    one, many = _one_or_many(id, prefix)
    _tell_paused(session, _only(schedules.resume(one)) if one else schedules.resume_all(many), "resumed")


@app.command()
@on_cluster
def backfill(
    session: ClusterSession,
    id: ScheduleId,
    start: Annotated[str, typer.Option("--from", help="First instant.")],
    end: Annotated[str, typer.Option("--to", help="Instant to end before; not after now.")] = "now",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say how many there are.")] = False,
    yes: Yes = False,
) -> None:
    """Fire now for the instants of a time that has passed, 1,000 at most. Those that have fired are left alone.

    Example: meantime schedules backfill report --from 2026-05-01T00:00:00Z --to 2026-05-08T00:00:00Z --dry-run
    """
    first, last = unix_seconds(start, now(session)), unix_seconds(end, now(session))
    planned = session.client.schedules.backfill(id, first, last, dry_run=True)
    if dry_run:
        _tell_fired(session, id, planned, "would fire")
        return
    confirm(f"Fire {id!r} for {planned.count:,} instants?", yes)
    _tell_fired(session, id, session.client.schedules.backfill(id, first, last), "fired")


@app.command()
@on_cluster
def delete(session: ClusterSession, id: ScheduleId, yes: Yes = False) -> None:
    """Delete a schedule, and take back what was set ahead. What was too late for that is told.

    Example: meantime schedules delete report --yes
    """
    confirm(f"Delete the schedule {id!r}?", yes)
    too_late = session.client.schedules.delete(id)
    if session.json:
        print_json({"deleted": id, "too_late": too_late})
        return
    say(f"{id} is deleted")
    _tell_too_late({id: too_late})


@app.command()
@on_cluster
def moved(session: ClusterSession, prefix: Prefix = None, limit: Limit = 1000) -> None:
    """Schedules whose next firings have moved because nodes have newer time zone data.

    Example: meantime schedules moved
    """
    found = list(islice(_pages(session, limit, prefix, moved=True), limit))
    if session.json:
        print_json(found)
        return
    rows = [[one.id, one.time_zone, one.tzdata, *_moved(one)] for one in found]
    print_table(["id", "time zone", "tzdata", "was", "is"], rows)


def _pages(
    session: ClusterSession,
    limit: int,
    prefix: str | None,
    target: str | None = None,
    paused: bool | None = None,
    moved: bool | None = None,
) -> "Iterator[Schedule]":
    after, size = None, min(limit, PAGE)
    read = partial(session.client.schedules.list, prefix=prefix, target=target, paused=paused, moved=moved, limit=size)
    while page := read(after=after):
        yield from page
        if len(page) < size:
            return
        after = page[-1].id


def _settings(schedule: "Schedule", now_ms: float) -> list[list[object]]:
    rows: list[tuple[str, object]] = [
        ("recurs", recurrence(schedule)),
        ("fires into", _target(schedule)),
        ("body", _body(schedule.content)),
        ("gap, overlap of clocks", f"{schedule.on_gap}, {schedule.on_overlap}"),
        ("missed", f"{schedule.missed}, within {human(schedule.missed_within_ms / 1000)}"),
        ("while the message before is there", schedule.overlap),
        ("jitter", human(schedule.jitter_ms / 1000) if schedule.jitter_ms else None),
        ("starts", clock_time(schedule.starts_at_ms) if schedule.starts_at_ms is not None else None),
        ("ends", clock_time(schedule.ends_at_ms) if schedule.ends_at_ms is not None else None),
        ("at most", f"{schedule.max_firings:,} firings" if schedule.max_firings else None),
        ("next", _next(schedule, now_ms)),
        ("last", clock_time(schedule.last_at_ms) if schedule.last_at_ms is not None else None),
        ("firings", f"{schedule.firings:,}"),
        ("note", schedule.note),
        ("version", schedule.version),
        ("tzdata", schedule.tzdata),
    ]
    return [[name, value] for name, value in rows if value is not None]


def _body(content: Any) -> str | None:
    """A template as it was typed."""
    return content if content is None or isinstance(content, str) else msgspec.json.encode(content).decode()


def _target(schedule: "Schedule") -> str:
    group = f", messages of {schedule.target.group}" if schedule.target.group else ""
    return f"{schedule.target}{group}"


def _next(schedule: "Schedule", now_ms: float) -> str:
    if schedule.paused:
        return "paused"
    if schedule.next_at_ms is None:
        return "ended"
    return f"{clock_time(schedule.next_at_ms)} ({from_now(schedule.next_at_ms, now_ms)})"


def _moved(schedule: "Schedule") -> tuple[str, str]:
    move = schedule.moved
    was, now_at = (move.from_ms, move.to_ms) if move else (None, None)
    return clock_time(was) if was is not None else "never", clock_time(now_at) if now_at is not None else "never"


def _one_or_many(id: str | None, prefix: str | None) -> tuple[str, str]:
    if (id is None) == (prefix is None):
        raise typer.BadParameter("say which: give the id of a schedule, or --prefix")
    if id == "":
        raise Invalid("the id of a schedule is not empty")
    return id or "", prefix or ""


def _only(schedule: "Schedule") -> "Paused":
    """The same answer for one schedule as for many."""
    from meantime.sdk.schedule_model import Paused

    return Paused(count=1, ids=[schedule.id], too_late={schedule.id: schedule.too_late} if schedule.too_late else {})


def _tell_fired(session: ClusterSession, id: str, done: "Fired", word: str) -> None:
    if session.json:
        print_json(done)
        return
    already = f", {done.skipped:,} left alone: dealt with before" if done.skipped else ""
    say(f"{id}: {done.count:,} {word}{already}")
    shown: Sequence[int] = done.at_ms[:SHOWN]
    for at_ms in shown:
        print_line(clock_time(at_ms))
    if done.count > len(shown):
        say(f"… and {done.count - len(shown):,} more")


def _tell_paused(session: ClusterSession, done: "Paused", word: str) -> None:
    if session.json:
        print_json(done)
        return
    say(f"{word}: {', '.join(done.ids[:SHOWN]) or 'none'}" + (f" … {done.count:,} in all" if done.count > SHOWN else ""))
    _tell_too_late(done.too_late)


def _tell_too_late(too_late: Mapping[str, Sequence[int]]) -> None:
    for id, instants in too_late.items():
        if instants:
            say(f"too late to take back, {id}: {', '.join(map(clock_time, instants))}")
