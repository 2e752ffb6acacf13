"""The nouns of the embedded stack.

A `Spec` says everything about one process: its command, whom it waits for, how to see that it is ready, how it is stopped.
A `Row` is that process while it runs; all rows together are the process table in `stack.json`, by which a later `up` or
`down` recognises what a killed supervisor left behind. An `Event` is one thing worth telling the user.
"""

import signal
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import msgspec

ROOT = "/meantime"
HOST = "127.0.0.1"


class StackOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What the user asked for; `None` means as the last time."""

    data: str
    nodes: int | None = None
    kafka: int | None = None
    replicas: int | None = None
    durable: bool | None = None
    port: int | None = None
    auth: bool | None = None
    timers: bool = True
    migrate: bool = True
    node_env: dict[str, str] = {}
    process_env: dict[str, dict[str, str]] = {}
    """Variables of single processes, by name."""
    process_prefix: dict[str, list[str]] = {}
    """What single processes are started by, by name: a command that takes theirs, as `ip netns exec` does."""
    node_hosts: dict[str, str] = {}
    """Loopback addresses of single nodes, where they are not the one that all share."""
    until_eof: bool = False
    wait_for_late: bool = False
    class_archives: bool = False
    """Make the class archives that are missing, once everything is ready: later starts are faster."""


@dataclass(frozen=True, slots=True)
class Account:
    """Whom a process runs as when the supervisor is root and the program refuses to be."""

    uid: int
    gid: int


Probe = Callable[[], str | None]
"""Asks a process whether it is ready: `None` when it is, else what is missing, as a phrase."""


@dataclass(frozen=True, slots=True)
class Spec:
    kind: str
    name: str
    command: tuple[str, ...]
    log: Path
    env: Mapping[str, str] = field(default_factory=dict)
    depends: tuple[str, ...] = ()
    probe: Probe | None = None
    prepare: Callable[[], None] | None = None
    account: Account | None = None
    folder: Path | None = None
    """Where it is started; the data directory if not given."""
    server_pid_file: Path | None = None
    """Where the server that this process looks after, and that outlives it, keeps its pid: in the folder it works in."""
    once: bool = False
    """Runs to its end, and what depends on it waits for that; never started again."""
    late: bool = False
    """Whether the stack is said to be ready before this one is: Spark needs most of a minute."""
    optional: bool = False
    """Whether the stack goes on without it if it fails."""
    ready_within: float = 90.0
    stop_signal: int = signal.SIGTERM
    stop_within: float = 15.0


State = Literal["starting", "ready", "down"]


class ProcessIdentity(msgspec.Struct, frozen=True):
    """A process that cannot be mistaken for a later one with the same pid."""

    pid: int
    born: str


class Row(msgspec.Struct, frozen=True):
    kind: str
    name: str
    mark: ProcessIdentity | None
    """`None` while it is down and about to be started again."""
    log: str
    state: State
    restarts: int
    stop_signal: int
    stop_within: float
    level: int
    """Distance from what depends on nothing; higher levels are stopped first."""
    server_pid_file: str | None = None


class NodeAddress(msgspec.Struct, frozen=True):
    id: str
    url: str


class Places(msgspec.Struct, frozen=True):
    """Where everything of one stack listens."""

    nodes: tuple[NodeAddress, ...]
    zookeeper: str
    kafka: tuple[str, ...]
    postgres: str
    console: str | None = None


class KafkaLeaders(msgspec.Struct, frozen=True):
    """Of one cluster: the broker that is the controller, and of how many partitions each broker is the leader."""

    controller: str | None
    partitions: dict[str, int]


class PostgresLeaders(msgspec.Struct, frozen=True):
    """The primary, and the standbys of which one has to have a commit before it is acknowledged."""

    primary: str | None
    synchronous: tuple[str, ...]


class Leaders(msgspec.Struct, frozen=True):
    """Who leads what in a stack with replicas; nobody where `None`, or nobody who says so."""

    zookeeper: str | None
    kafka: dict[str, KafkaLeaders]
    postgres: PostgresLeaders


EventKind = Literal["note", "fetching", "starting", "waiting", "ready", "died", "stopping", "stopped", "up", "failed"]


class Event(msgspec.Struct, frozen=True):
    kind: EventKind
    name: str = ""
    detail: str = ""
    seconds: float = 0.0


Tell = Callable[[Event], None]
