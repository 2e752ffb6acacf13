"""`meantime topics messages`: single messages, as their owner sees them."""

from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer

from meantime.cli.exit_codes import PARTLY
from meantime.cli.instants import clock_time, seconds, unix_seconds
from meantime.cli.output import print_json, print_json_line, print_table, say
from meantime.cli.session import ClusterSession, TopicName, as_producer

if TYPE_CHECKING:
    from meantime.sdk.messages import Message

PAGE = 1000

app = typer.Typer(no_args_is_help=True, help="Messages of a topic, as the producer group that owns them.")

MessageId = Annotated[str, typer.Argument(metavar="ID", help="Id of the message.")]
At = Annotated[str | None, typer.Option("--at", help="Instant, like 2026-05-01T09:00:00Z or '2026-05-01 09:00'.")]
After = Annotated[str | None, typer.Option("--after", help="Duration from now, like 90s or 1h30m.")]


def add_to(topics: typer.Typer) -> None:
    topics.add_typer(app, name="messages")


@app.command("list")
@as_producer
def list_all(
    session: ClusterSession,
    topic: TopicName,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="At most so many.")] = 100,
    after: Annotated[str | None, typer.Option("--after-id", help="Only ids that sort after this one.")] = None,
) -> None:
    """List the messages of your producer group, by id.

    Example: meantime topics messages list reminders --group billing
    """
    found = list(islice(_pages(session, topic, min(limit, PAGE), after), limit))
    if session.json:
        for message in found:
            print_json_line(message)
        return
    rows = [[m.id, m.status, clock_time(m.at_ms), m.attempts, m.version, m.lock_consumer_id] for m in found]
    print_table(["id", "status", "at", "attempts", "version", "leased to"], rows)


def _pages(session: ClusterSession, topic: str, size: int, after: str | None) -> "Iterator[Message]":
    while page := session.client.messages(topic, limit=size, after=after):
        yield from page
        if len(page) < size:
            return
        after = page[-1].id


@app.command()
@as_producer
def show(session: ClusterSession, topic: TopicName, id: MessageId) -> None:
    """Show one message.

    Example: meantime topics messages show reminders user-7-welcome
    """
    found = session.client.message(topic, id)
    if session.json:
        print_json(found)
        return
    rows: list[list[object]] = [
        ["status", found.status],
        ["at", clock_time(found.at_ms)],
        ["leased to", found.lock_consumer_id],
        ["attempts", found.attempts],
        ["version", found.version],
        ["owner", found.producer_group],
        ["body", text_of(found.content)],
    ]
    print_table([found.id, ""], rows)


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
        say(f"{moved.id} is due at {clock_time(moved.at_ms)}")


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


def instant(session: ClusterSession, at: str | None, after: str | None) -> dict[str, Any]:
    """The keyword argument that says when."""
    if (at is None) == (after is None):
        raise typer.BadParameter("say when: give either --at or --after")
    if after is not None:
        return {"after": seconds(after)}
    return {"at": unix_seconds(at or "", session.client.now())}
