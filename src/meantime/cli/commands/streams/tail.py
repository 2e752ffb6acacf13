"""`meantime tail`: events as they come."""

from collections.abc import Sequence
from typing import Annotated, Any

import msgspec
import typer

from meantime.cli.output import end_when_the_reader_goes, on_terminal, print_json_line, print_line
from meantime.cli.session import ClusterSession, EventTypeName, on_cluster


def register(root: typer.Typer) -> None:
    root.command(rich_help_panel="Streams")(tail)


@on_cluster
def tail(
    session: ClusterSession,
    event_type: EventTypeName,
    start: Annotated[str, typer.Option("--from", "-f", help="begin or end.")] = "end",
    cursor: Annotated[
        list[str] | None, typer.Option("--cursor", "-c", help="Start after PARTITION:OFFSET; repeat for several.")
    ] = None,
    limit: Annotated[int | None, typer.Option("--limit", "-n", min=1, help="Stop after so many events.")] = None,
    once: Annotated[bool, typer.Option("--once", help="Stop at what is the end now.")] = False,
) -> None:
    """Print events, one JSON object a line, and wait for more. With --json each line also has its cursor.

    A connection that breaks is opened again and goes on where it was.

    Example: meantime tail orders --from begin --once

    Example: meantime tail orders --json --cursor 0:001-0001-000000000000000041
    """
    from meantime.sdk.reading import starting_cursors

    client = session.client
    cursors = _cursors(cursor) if cursor else starting_cursors(client.partitions(event_type), start)
    if once:
        unread = sum(partition.unconsumed_events or 0 for partition in client.lag(event_type, cursors))
        limit = min(unread, limit or unread)
        if not limit:
            return
    end_when_the_reader_goes()
    for batch in client.events(event_type, cursors, stream_limit=limit):
        for event in batch.events:
            _print(session, batch.cursor, event)


def _cursors(given: Sequence[str]) -> list[Any]:
    from meantime.sdk.model import Cursor

    parts = [text.partition(":") for text in given]
    for text, (_, colon, offset) in zip(given, parts, strict=True):
        if not colon or not offset:
            raise typer.BadParameter(f"{text!r} is not PARTITION:OFFSET")
    return [Cursor(partition, offset) for partition, _, offset in parts]


def _print(session: ClusterSession, cursor: Any, event: dict[str, Any]) -> None:
    if session.json:
        print_json_line({"partition": cursor.partition, "offset": cursor.offset, "event": event})
        return
    text = msgspec.json.encode(event).decode()
    print_line(f"{typer.style(cursor.partition, fg='cyan')} {text}" if on_terminal() else text)
