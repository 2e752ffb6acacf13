"""`meantime consume`: take messages when they are due, and print them or run a command for each."""

import os
import signal
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer

from meantime.cli.exit_codes import PARTLY
from meantime.cli.instants import seconds
from meantime.cli.output import end_when_the_reader_goes, print_json_line, print_line, say
from meantime.cli.session import ClusterSession, TopicName, on_cluster
from meantime.errors import LeaseLost, MeantimeError

if TYPE_CHECKING:
    from meantime.sdk.consuming.lease import Lease
    from meantime.sdk.messages import Topic

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
    retry_after: Annotated[
        str | None,
        typer.Option(
            "--retry-after", help="When what is released comes again; if not given, the topic's retry policy says."
        ),
    ] = None,
    reason: Annotated[
        str | None, typer.Option("--reason", help="Why messages are released; else how the command ended.")
    ] = None,
    then: Annotated[Then, typer.Option("--then", help="What to do with what was printed.")] = Then.delete,
    lease: Annotated[str, typer.Option("--lease", help="Length of a lease; it is extended while a command runs.")] = "30s",
    pull: Annotated[bool, typer.Option("--pull", help="Ask for messages instead of having them pushed.")] = False,
) -> None:
    """Take messages when they are due. Without --exec each is printed as JSON and deleted.

    With --exec a command that succeeds deletes its message, one that fails releases it for later. The command finds
    MEANTIME_TOPIC, MEANTIME_ID, MEANTIME_ATTEMPTS and, if the message has failed before, MEANTIME_REASON in its environment,
    and is stopped if its lease is lost. Exit code 9 if there are messages whose last command failed.

    Example: meantime consume reminders --limit 10

    Example: meantime consume mails --exec './send-mail' --parallel 4 --retry-after 1m
    """
    release = Release(seconds(retry_after) if retry_after else None, reason)
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
        runner = CommandRunner(command, release, parallel, lambda: session.client.topic(topic))
        runner.work(wanted)
        if runner.failed:
            raise typer.Exit(PARTLY)
    else:
        for held in wanted:
            _show(held, then, release, session.json)


@dataclass(frozen=True, slots=True)
class Release:
    """When (None: the topic says) and why what is released comes again."""

    after: float | None
    reason: str | None

    def __str__(self) -> str:
        return "when the topic's retry policy says" if self.after is None else f"in {self.after:g} s"

    def of(self, lease: "Lease", reason: str | None = None) -> None:
        lease.release(self.after, self.reason or reason)


def _show(lease: "Lease", then: Then, release: Release, json: bool) -> None:
    print_json_line(_document(lease)) if json else print_line(_body(lease).decode("utf-8", "replace"))
    if then is Then.delete:
        _settle(lease, lease.delete)
    elif then is Then.release:
        _settle(lease, lambda: release.of(lease))


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
        "reason": held.reason,
        "history": held.history or None,
    }
    body = {"body": held.body} if held.body_b64 is None else {"body_b64": held.body_b64}
    return {name: value for name, value in document.items() if value is not None} | body


def _body(lease: "Lease") -> bytes:
    return lease.body if isinstance(lease.body, bytes) else msgspec.json.encode(lease.body)


class CommandRunner:
    """Runs the command for each lease, some at once. Ctrl-C lets what runs finish; a second one stops it."""

    def __init__(self, command: str, release: Release, parallel: int, topic: "Callable[[], Topic]") -> None:
        self._command = command
        self._topic = topic
        self._release = release
        self._parallel = parallel
        self._free = threading.BoundedSemaphore(parallel)
        self._stopping = threading.Event()
        self.failed: set[str] = set()
        """Messages whose last command did not succeed."""

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
        self.failed.add(lease.id)
        try:
            self._execute(lease)
        except Exception as error:
            say(f"{lease.id}: {error}")
        finally:
            self._free.release()

    def _execute(self, lease: "Lease") -> None:
        facts = {"MEANTIME_TOPIC": lease.topic, "MEANTIME_ID": lease.id, "MEANTIME_ATTEMPTS": str(lease.attempts)}
        facts |= {"MEANTIME_REASON": lease.reason} if lease.reason else {}
        process = subprocess.Popen(
            self._command, shell=True, stdin=subprocess.PIPE, env=os.environ | facts, start_new_session=True
        )
        threading.Thread(target=_feed, args=(process, _body(lease)), daemon=True).start()
        code = self._wait(process, lease)
        if lease.lost:
            say(f"{lease.id}: the lease was lost; the command was stopped")
        elif code == 0:
            _settle(lease, lease.delete)
            self.failed.discard(lease.id)
            say(f"{lease.id}: done")
        else:
            ended = f"the command ended with {code}"
            _settle(lease, lambda: self._release.of(lease, ended))
            say(f"{lease.id}: {ended}; {self._next(lease)}")

    def _next(self, lease: "Lease") -> str:
        """What becomes of a message that was released; the topic may have been changed since the last one."""
        try:
            topic = self._topic()
        except MeantimeError:
            return f"again {self._release}, unless this was its last attempt"
        if not topic.max_attempts or lease.attempts < topic.max_attempts:
            return f"again {self._release}"
        ends = f"moved to {topic.dead_letter_topic}" if topic.dead_letter_topic else "it stays in the topic as dead"
        return f"that was attempt {lease.attempts} of {topic.max_attempts}: {ends}"

    def _wait(self, process: "subprocess.Popen[bytes]", lease: "Lease") -> int:
        while True:
            try:
                return process.wait(LOOK_EVERY)
            except subprocess.TimeoutExpired:
                if lease.lost or self._stopping.is_set():
                    _stop(process)


def _feed(process: "subprocess.Popen[bytes]", body: bytes) -> None:
    """Nobody else touches the pipe: a command that ends without reading must not be disturbed by who closes it."""
    assert process.stdin
    with suppress(BrokenPipeError), process.stdin as pipe:  # a command need not read it all
        pipe.write(body)


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
