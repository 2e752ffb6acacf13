"""`meantime schedule`: one message from the command line, or many from a file."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer

from meantime.cli.commands.topics.messages import After, At, instant, when
from meantime.cli.exit_codes import PARTLY
from meantime.cli.input import InputLine, batches, items, size
from meantime.cli.message_files import When, message, rows_of_csv
from meantime.cli.output import print_json, say
from meantime.cli.progress import Rejects, Summary, progress
from meantime.cli.session import ClusterSession, TopicName, as_producer
from meantime.errors import Invalid

if TYPE_CHECKING:
    from meantime.sdk.messages import NewMessage

Prepared = list[tuple[InputLine, "NewMessage"]]


def register(root: typer.Typer) -> None:
    root.command(rich_help_panel="Topics")(schedule)


@as_producer
def schedule(
    session: ClusterSession,
    topic: TopicName,
    body: Annotated[str | None, typer.Argument(help="Body: JSON, or else taken as text.")] = None,
    at: At = None,
    after: After = None,
    id: Annotated[str | None, typer.Option("--id", help="Natural id: the same again is the same message.")] = None,
    file: Annotated[
        Path | None, typer.Option("--file", "-f", help="CSV or NDJSON file with messages; - is NDJSON from stdin.")
    ] = None,
    batch: Annotated[int, typer.Option("--batch", "-b", min=1, max=10_000, help="Messages per request.")] = 1000,
    rejects: Annotated[Path | None, typer.Option("--rejects", help="Keep refused lines in this file.")] = None,
) -> None:
    """Put messages on the timeline of a topic.

    In a file, each line says `id`, when (`at`, `at_ms`, `after` or `after_ms`) and `body`; in CSV other columns together
    are the body. With ids the command can be repeated: what exists is left alone. Exit code 9 if lines were refused.

    Example: meantime schedule reminders '{"user": 7}' --after 1h --id user-7-welcome

    Example: meantime schedule reminders --file campaign.csv --at '2026-05-01 09:00'
    """
    if file is None:
        _one(session, topic, body, instant(session, at, after), id)
    elif body is not None:
        raise typer.BadParameter("give either a body or --file")
    else:
        session.client.health()
        _many(session, topic, file, When(session.client.now(), at, after), batch, rejects)


def _one(session: ClusterSession, topic: str, body: str | None, due_when: dict[str, Any], id: str | None) -> None:
    text = sys.stdin.read() if body in (None, "-") else body or ""
    try:
        content = msgspec.json.decode(text)
    except msgspec.DecodeError as error:
        content = text
        if text.lstrip()[:1] in ("{", "["):
            say(f"warning: the body begins like JSON and is none, so it is taken as text: {error}")
    result = session.client.schedule(topic, content, id=id, **due_when)
    if session.json:
        print_json(result)
    else:
        due = f", due at {when(session, result.at_ms)}" if result.at_ms else ""
        say(f"{'exists' if result.status == 'exists' else 'scheduled'} {result.id}{due}")


def _many(session: ClusterSession, topic: str, file: Path, default: When, batch: int, rejects: Path | None) -> None:
    summary, exists = Summary("scheduled", "messages"), 0
    with Rejects(rejects) as refused, progress(f"scheduling to {topic}", [file]) as advance, summary.reported_on_failure():
        for chunk in batches(_source(file), batch):
            created, known = _send(session, topic, list(_prepared(chunk, default, refused)), refused)
            summary.done += created
            exists += known
            advance(len(chunk), size(chunk))
    summary.report(session.json, existed=exists, rejected=refused.count)
    if refused.count:
        raise typer.Exit(PARTLY)


def _source(file: Path) -> Iterator[InputLine]:
    return rows_of_csv(file) if file.suffix.lower() == ".csv" else items([file])


def _prepared(chunk: list[InputLine], default: When, rejects: Rejects) -> "Iterator[tuple[InputLine, NewMessage]]":
    for item in chunk:
        try:
            yield item, message(item, default)
        except Invalid as error:
            rejects.add(item.place, item.text, error.detail)


def _send(session: ClusterSession, topic: str, prepared: "Prepared", rejects: Rejects) -> tuple[int, int]:
    """How many were created, and how many existed."""
    if not prepared:
        return 0, 0
    results = session.client.schedule_prepared(topic, [new for _, new in prepared])
    for (item, _), result in zip(prepared, results, strict=True):
        if result.status == "invalid":
            rejects.add(item.place, item.text, result.error or "refused")
    statuses = [result.status for result in results]
    return statuses.count("created"), statuses.count("exists")
