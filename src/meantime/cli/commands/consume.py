"""`meantime consume`: take messages when they are due, and print them or run a command for each."""

import os
import signal
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from enum import StrEnum
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer

from meantime.cli.instants import seconds
from meantime.cli.output import end_when_the_reader_goes, print_json_line, print_line, say
from meantime.cli.session import ClusterSession, TopicName, on_cluster
from meantime.errors import LeaseLost

if TYPE_CHECKING:
    from meantime.sdk.consuming.lease import Lease

LOOK_EVERY = 0.2
BUFFER = 10


class Then(StrEnum):
    """What happens to a message that was printed."""

    delete = "delete"
    release = "release"
    keep = "keep"


def register(root: typer.Typer) -> None:
    root.command(rich_help_panel="Topics")(consume)


@on_cluster
def consume(
    session: ClusterSession,
    topic: TopicName,
    consumer: Annotated[str | None, typer.Option("--consumer", help="Who you are; keep it over restarts.")] = None,
    limit: Annotated[int | None, typer.Option("--limit", "-n", min=1, help="Stop after so many messages.")] = None,
    command: Annotated[
        str | None, typer.Option("--exec", "-x", help="Shell command to run for each message; the body is its stdin.")
    ] = None,
    parallel: Annotated[int, typer.Option("--parallel", "-p", min=1, help="Commands at once.")] = 1,
    retry_after: Annotated[str, typer.Option("--retry-after", help="When a failed command is tried again.")] = "10s",
    then: Annotated[Then, typer.Option("--then", help="What to do with what was printed.")] = Then.delete,
    lease: Annotated[str, typer.Option("--lease", help="Length of a lease; it is extended while a command runs.")] = "30s",
    pull: Annotated[bool, typer.Option("--pull", help="Ask for messages instead of having them pushed.")] = False,
) -> None:
    """Take messages when they are due. Without --exec each is printed as JSON and deleted.

    With --exec a command that succeeds deletes its message, one that fails releases it for later. The command finds
    MEANTIME_TOPIC, MEANTIME_ID and MEANTIME_ATTEMPTS in its environment, and is stopped if its lease is lost.

    Example: meantime consume reminders --limit 10

    Example: meantime consume mails --exec './send-mail' --parallel 4 --retry-after 1m
    """
    name = consumer or f"cli-{socket.gethostname()}-{os.getpid()}"[:128]
    leases = session.client.consume(
        topic,
        name,
        # With a limit, no more than that is leased.
        mode="pull" if pull or limit else "push",
        buffer=parallel if command else min(limit or BUFFER, BUFFER),
        lease_for=seconds(lease),
    )
    end_when_the_reader_goes()
    wanted = islice(leases, limit)
    if command:
        CommandRunner(command, seconds(retry_after), parallel).work(wanted)
    else:
        for held in wanted:
            _show(held, then, session.json)


def _show(lease: "Lease", then: Then, json: bool) -> None:
    print_json_line(_document(lease)) if json else print_line(_body(lease).decode("utf-8", "replace"))
    if then is Then.delete:
        _settle(lease, lease.delete)
    elif then is Then.release:
        _settle(lease, lease.release)


def _document(lease: "Lease") -> dict[str, Any]:
    """The lease as it came, without what it does not have."""
    held = lease.message
    document = {
        "id": held.id,
        "version": held.version,
        "at_ms": held.at_ms,
        "created_for_ms": held.created_for_ms,
        "attempts": held.attempts,
        "producer_group": held.producer_group,
        "dead_letter": held.dead_letter,
    }
    body = {"body": held.body} if held.body_b64 is None else {"body_b64": held.body_b64}
    return {name: value for name, value in document.items() if value is not None} | body


def _body(lease: "Lease") -> bytes:
    return lease.body if isinstance(lease.body, bytes) else msgspec.json.encode(lease.body)


class CommandRunner:
    """Runs the command for each lease, some at once. Ctrl-C lets what runs finish; a second one stops it."""

    def __init__(self, command: str, retry_after: float, parallel: int) -> None:
        self._command = command
        self._retry_after = retry_after
        self._parallel = parallel
        self._free = threading.BoundedSemaphore(parallel)
        self._stopping = threading.Event()

    def work(self, leases: "Iterator[Lease]") -> None:
        pool = ThreadPoolExecutor(self._parallel)
        try:
            for lease in self._as_free(leases):
                pool.submit(self._handle, lease)
            pool.shutdown()
        except KeyboardInterrupt:
            say("finishing what is running; press Ctrl-C again to stop it")
            self._drain(pool)
            raise

    def _as_free(self, leases: "Iterator[Lease]") -> "Iterator[Lease]":
        """The next lease, as soon as a command can be started for it."""
        self._free.acquire()
        for lease in leases:
            yield lease
            self._free.acquire()

    def _drain(self, pool: ThreadPoolExecutor) -> None:
        try:
            pool.shutdown()
        except KeyboardInterrupt:
            self._stopping.set()
            pool.shutdown()

    def _handle(self, lease: "Lease") -> None:
        try:
            self._execute(lease)
        except Exception as error:
            say(f"{lease.id}: {error}")
        finally:
            self._free.release()

    def _execute(self, lease: "Lease") -> None:
        facts = {"MEANTIME_TOPIC": lease.topic, "MEANTIME_ID": lease.id, "MEANTIME_ATTEMPTS": str(lease.attempts)}
        with subprocess.Popen(
            self._command, shell=True, stdin=subprocess.PIPE, env=os.environ | facts, start_new_session=True
        ) as process:
            threading.Thread(target=_feed, args=(process, _body(lease)), daemon=True).start()
            code = self._wait(process, lease)
        if lease.lost:
            say(f"{lease.id}: the lease was lost; the command was stopped")
        elif code == 0:
            _settle(lease, lease.delete)
            say(f"{lease.id}: done")
        else:
            _settle(lease, lambda: lease.release(self._retry_after))
            say(f"{lease.id}: the command ended with {code}; again in {self._retry_after:g} s")

    def _wait(self, process: "subprocess.Popen[bytes]", lease: "Lease") -> int:
        while True:
            try:
                return process.wait(LOOK_EVERY)
            except subprocess.TimeoutExpired:
                if lease.lost or self._stopping.is_set():
                    _stop(process)


def _feed(process: "subprocess.Popen[bytes]", body: bytes) -> None:
    assert process.stdin
    try:
        process.stdin.write(body)
        process.stdin.close()
    except BrokenPipeError:
        return  # the command did not want to read it all


def _stop(process: "subprocess.Popen[bytes]") -> None:
    try:
        os.killpg(process.pid, signal.SIGTERM)
    except ProcessLookupError:
        return


def _settle(lease: "Lease", act: Callable[[], None]) -> None:
    try:
        act()
    except LeaseLost as error:
        say(f"{lease.id}: {error.detail}; it will come again")
