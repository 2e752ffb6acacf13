"""`meantime switch`: move an event type to another storage, live."""

import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Annotated, Any

import typer

from meantime.cli.instants import human
from meantime.cli.output import print_json, print_line
from meantime.cli.session import ClusterSession, EventTypeName, StorageName, on_cluster
from meantime.errors import MeantimeError

LOOK_EVERY = 0.1
STEPS = {
    "preparing": "making the topic in the new storage",
    "locked": "waiting until no node is writing",
    "sealed": "old topic sealed, taking the last offsets",
    "committed": "timelines written, releasing publishers",
    "done": "done",
    "failed": "failed",
}


def register(root: typer.Typer) -> None:
    root.command(rich_help_panel="Streams")(switch)


@on_cluster
def switch(
    session: ClusterSession,
    event_type: EventTypeName,
    storage: StorageName,
    force: Annotated[bool, typer.Option("--force", help="Leave a storage that does not answer any more.")] = False,
    idempotency_key: Annotated[
        str | None, typer.Option("--idempotency-key", help="The same key again is the same switch.")
    ] = None,
) -> None:
    """Move an event type to a storage while it is being written and read. No event is lost and no reader has to reconnect.

    Shows the steps as they happen, and how long publishers had to wait.

    Example: meantime switch orders east
    """
    client = session.client
    before = {found.id for found in client.switches(event_type)}
    call = _in_thread(lambda: client.switch(event_type, storage, force=force, key=idempotency_key))
    with _steps(event_type) as show:
        while not _finished(call):
            show(_mine(client, event_type, before))
    timeline = call.result()
    mine = _mine(client, event_type, before)
    if session.json:
        print_json({"timeline": timeline, "switch": mine})
        return
    stall = f"; publishers waited {human(mine.stall_ms / 1000)}" if mine and mine.stall_ms is not None else ""
    print_line(f"{event_type} is on {timeline.storage_id} now (timeline {timeline.order}){stall}")
    if mine and mine.overtaken:
        names = ", ".join(mine.overtaken)
        print_line(f"it went on without {names}, which did not answer: what they still send goes to the new timeline")


def _in_thread(work: Callable[[], Any]) -> "Future[Any]":
    future: Future[Any] = Future()

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return future


def _finished(call: "Future[Any]") -> bool:
    try:
        call.exception(timeout=LOOK_EVERY)
    except TimeoutError:
        return False
    return True


def _mine(client: Any, event_type: str, before: set[str]) -> Any:
    """The switch that was not there before, if it can be seen."""
    try:
        return next((found for found in client.switches(event_type) if found.id not in before), None)
    except MeantimeError:
        return None


@contextmanager
def _steps(event_type: str) -> Iterator[Callable[[Any], None]]:
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console

    with Console(stderr=True).status(f"switching {event_type}") as status:
        yield lambda found: status.update(
            f"switching {event_type}: {STEPS.get(found.state, found.state)}" if found else None
        )
