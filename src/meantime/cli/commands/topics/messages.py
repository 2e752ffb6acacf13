"""`meantime topics messages`: single messages, as their owner or (`--all`) an operator sees them."""

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer

from meantime.cli.exit_codes import PARTLY
from meantime.cli.instants import clock_time, from_now, seconds, unix_seconds
from meantime.cli.output import print_json, print_json_line, print_table, say
from meantime.cli.session import ClusterSession, TopicName, as_producer

if TYPE_CHECKING:
    from meantime.sdk.messages import FailedAttempt, Message

PAGE = 1000

app = typer.Typer(no_args_is_help=True, help="Messages of a topic, as the producer group that owns them or an operator.")

MessageId = Annotated[str, typer.Argument(metavar="ID", help="Id of the message.")]
At = Annotated[str | None, typer.Option("--at", help="Instant, like 2026-05-01T09:00:00Z or '2026-05-01 09:00'.")]
After = Annotated[str | None, typer.Option("--after", help="Duration from now, like 90s or 1h30m.")]
All = Annotated[bool, typer.Option("--all", "-a", help="Of every producer group; needs the scope operate:<topic>.")]


def add_to(topics: typer.Typer) -> None:
    topics.add_typer(app, name="messages")


@app.command("list")
@as_producer
def list_all(
    session: ClusterSession,
    topic: TopicName,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="At most so many.")] = 100,
    after: Annotated[str | None, typer.Option("--after-id", help="Only ids that sort after this one.")] = None,
    all_groups: All = False,
) -> None:
    """List the messages of your producer group by id, or with --all those of every group by instant.

    Example: meantime topics messages list reminders --group billing

    Example: meantime topics messages list reminders.dead --all
    """
    if all_groups and after is not None:
        raise typer.BadParameter("--after-id goes by ids; with --all messages are listed by their instants")
    size = min(limit, PAGE)
    found = list(islice(_all_pages(session, topic, size) if all_groups else _pages(session, topic, size, after), limit))
    if not found and after is None and not all_groups:
        _tell_of_others(session, topic)
    if session.json:
        for message in found:
            print_json_line(message)
        return
    rows = [
        [m.id, m.status, clock_time(m.at_ms), m.attempts, m.version, m.lock_consumer_id, m.producer_group, _why(m)]
        for m in found
    ]
    print_table(["id", "status", "at", "attempts", "version", "leased to", "owner", "reason"], rows)


def _pages(session: ClusterSession, topic: str, size: int, after: str | None) -> "Iterator[Message]":
    while page := session.client.messages(topic, limit=size, after=after):
        yield from page
        if len(page) < size:
            return
        after = page[-1].id


def _all_pages(session: ClusterSession, topic: str, size: int) -> "Iterator[Message]":
    after = None
    while True:
        page = session.client.all_messages(topic, limit=size, after=after)
        yield from page.messages
        after = page.next
        if after is None:
            return


def _tell_of_others(session: ClusterSession, topic: str) -> None:
    """A list that is empty although the topic is not."""
    others = sum((session.client.topic(topic).counts or {}).values())
    if others:
        belong = "1 message belongs" if others == 1 else f"{others:,} messages belong"
        say(f"{belong} to other groups; --all with scope operate:{topic} shows them")


def _why(message: "Message") -> str:
    """The latest reason that there is, on one line; letters of workers have theirs in the body."""
    letter, body = message.dead_letter or {}, message.body if isinstance(message.body, dict) else {}
    of_worker = body.get("error") if {"cursor", "traceback"} <= body.keys() else None
    return " ".join(str(message.reason or letter.get("reason") or of_worker or "").split())


@app.command()
@as_producer
def show(session: ClusterSession, topic: TopicName, id: MessageId, all_groups: All = False) -> None:
    """Show one message: where it stands, why it was given back, and if it is a dead letter, how it died.

    Example: meantime topics messages show reminders user-7-welcome

    Example: meantime topics messages show reminders.dead user-7-welcome --all
    """
    found = session.client.message(topic, id, all_groups=all_groups)
    if session.json:
        print_json(found)
        return
    rows: list[list[object]] = [
        ["status", found.status],
        ["at", when(session, found.at_ms)],
        ["leased to", found.lock_consumer_id],
        ["attempts", found.attempts],
        ["version", found.version],
        ["owner", found.producer_group],
        *_failures(found.history),
        *_death(found.dead_letter or {}),
        ["body", text_of(found.content)],
    ]
    print_table([found.id, ""], rows)


def _failures(history: "Iterable[FailedAttempt]") -> list[list[object]]:
    return [
        [f"attempt {one.attempt} failed", f"{clock_time(one.at_ms)}, {one.consumer_id}: {one.reason}"] for one in history
    ]


def _death(letter: dict[str, Any]) -> list[list[object]]:
    from meantime.sdk.messages import FailedAttempt

    if "died_at_ms" not in letter:
        return []
    history = msgspec.convert(letter.get("history", []), list[FailedAttempt])
    died = f"{clock_time(letter['died_at_ms'])}, in {letter['topic']}"
    attempts = f"{letter['attempts']}, the last by {letter['last_consumer_id']}"
    return [["died", died], ["attempts until then", attempts], *_failures(history)]


@app.command()
@as_producer
def move(session: ClusterSession, topic: TopicName, id: MessageId, at: At = None, after: After = None) -> None:
    """Move a message to another instant.

    Example: meantime topics messages move reminders user-7-welcome --after 2h
    """
    moved = session.client.move(topic, id, **instant(session, at, after))
    if session.json:
        print_json(moved)
    else:
        say(f"{moved.id} is due at {when(session, moved.at_ms)}")


@app.command()
@as_producer
def delete(
    session: ClusterSession,
    topic: TopicName,
    ids: Annotated[list[str], typer.Argument(metavar="ID…", help="Ids of messages.")],
) -> None:
    """Take messages back.

    Example: meantime topics messages delete reminders user-7-welcome user-7-follow-up
    """
    outcomes = session.client.delete_messages(topic, ids)
    if session.json:
        print_json(outcomes)
    else:
        print_table(["id", "status"], [[outcome.id, outcome.status] for outcome in outcomes])
    if any(outcome.status != "ok" for outcome in outcomes):
        raise typer.Exit(PARTLY)


def text_of(content: Any) -> str:
    """A body as one would type it; bytes as well as they can be read."""
    return content.decode("utf-8", "replace") if isinstance(content, bytes) else msgspec.json.encode(content).decode()


def when(session: ClusterSession, at_ms: int) -> str:
    """An instant, and how far from now it is by the broker's clock."""
    return f"{clock_time(at_ms)} ({from_now(at_ms, session.client.now() * 1000)})"


def instant(session: ClusterSession, at: str | None, after: str | None) -> dict[str, Any]:
    """The keyword argument that says when."""
    if (at is None) == (after is None):
        raise typer.BadParameter("say when: give either --at or --after")
    if after is not None:
        return {"after": seconds(after)}
    return {"at": unix_seconds(at or "", session.client.now())}
