"""`meantime publish`: events from arguments, files or standard input."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

from meantime.cli.exit_codes import PARTLY
from meantime.cli.input import InputLine, batches, items, size
from meantime.cli.progress import Rejects, Summary, progress
from meantime.cli.session import ClusterSession, EventTypeName, on_cluster
from meantime.errors import Invalid, PublishFailed

RejectsFile = Annotated[
    Path | None, typer.Option("--rejects", help="Go on after refused events and keep them in this file.")
]


def register(root: typer.Typer) -> None:
    root.command(rich_help_panel="Streams")(publish)


@on_cluster
def publish(
    session: ClusterSession,
    event_type: EventTypeName,
    files: Annotated[list[Path] | None, typer.Argument(help="Files with events; none or - is stdin.")] = None,
    event: Annotated[list[str] | None, typer.Option("--event", "-e", help="An event as JSON; repeat for several.")] = None,
    batch: Annotated[int, typer.Option("--batch", "-b", min=1, max=5000, help="Events per request.")] = 100,
    rejects: RejectsFile = None,
) -> None:
    """Publish events: one JSON object a line, or one JSON array.

    Stops at the first event that is refused, unless --rejects is given; then the exit code is 9 if there were any.

    Example: meantime publish orders -e '{"id": 1}'

    Example: meantime publish orders events.ndjson --rejects bad.ndjson
    """
    source = _given(event) if event else items(files or [])
    summary = Summary("published", "events")
    with (
        Rejects(rejects) as refused,
        progress(f"publishing to {event_type}", files or []) as advance,
        summary.reported_on_failure(),
    ):
        for chunk in batches(source, batch):
            written = _publish(session, event_type, chunk, refused)
            summary.done += written
            advance(written, size(chunk))
    summary.report(session.json, rejected=refused.count)
    if refused.count:
        raise typer.Exit(PARTLY)


def _given(events: Sequence[str]) -> Iterator[InputLine]:
    for number, text in enumerate(events, start=1):
        yield InputLine(f"event {number}", text.encode())


def _publish(session: ClusterSession, event_type: str, chunk: list[InputLine], rejects: Rejects) -> int:
    """Publish a batch and return how many events were written. A refused batch is sent again without what was bad."""
    sound = [item for item in chunk if _is_object(item, rejects)]
    if not sound:
        return 0
    try:
        session.client.publish_encoded(event_type, b"[" + b",".join(item.text for item in sound) + b"]")
        return len(sound)
    except PublishFailed as error:
        if rejects.file is None:
            raise Invalid(_first_failure(sound, error)) from None
        return _without_failures(session, event_type, sound, error, rejects)


def _is_object(item: InputLine, rejects: Rejects) -> bool:
    try:
        msgspec.json.decode(item.text, type=dict[str, msgspec.Raw])
    except msgspec.MsgspecError as error:
        if rejects.file is None:
            raise Invalid(f"{item.place} is not a JSON object: {error}") from error
        rejects.add(item.place, item.text, f"not a JSON object: {error}")
        return False
    return True


def _first_failure(sound: list[InputLine], error: PublishFailed) -> str:
    results: list[Any] = error.extras["items"]
    for item, result in zip(sound, results, strict=True):
        if result.publishing_status == "failed":
            return f"{item.place} was refused while {result.step}: {result.detail}"
    return error.detail


def _without_failures(
    session: ClusterSession, event_type: str, sound: list[InputLine], error: PublishFailed, rejects: Rejects
) -> int:
    written, again = 0, []
    for item, result in zip(sound, error.extras["items"], strict=True):
        if result.publishing_status == "submitted":
            written += 1
        elif result.publishing_status == "aborted":
            again.append(item)
        else:
            rejects.add(item.place, item.text, f"{result.step}: {result.detail}")
    if len(again) == len(sound):
        raise error
    return written + _publish(session, event_type, again, rejects)
