"""The nouns of workers, as they stand in ZooKeeper.

A *queue* is one partition of an event type as one application processes it; its record says how far that is. A *worker* is
one process of an application; its record lists the queues that it has. What cannot be read is a `CorruptRecord`: it is
reported with its path and left as it is.
"""

import hashlib
from dataclasses import dataclass
from typing import TypeVar

import msgspec

from meantime.errors import UNREADABLE, CorruptRecord

T = TypeVar("T", bound=msgspec.Struct)


@dataclass(frozen=True, slots=True, order=True)
class QueueSource:
    """Where the messages of a queue come from."""

    event_type: str
    partition: str

    @property
    def queue(self) -> str:
        """The id of the queue: the same for everybody, 32 hexadecimal digits."""
        return hashlib.blake2b(f"{self.event_type}\n{self.partition}".encode(), digest_size=16).hexdigest()


class QueueRecord(msgspec.Struct, frozen=True, omit_defaults=False):
    """`cursor` is the true position: everything up to it has been processed. `last` is the time of that message."""

    last: str = ""
    event_type: str = ""
    partition: str = ""
    cursor: str = ""
    paused: bool = False

    @property
    def source(self) -> QueueSource:
        return QueueSource(self.event_type, self.partition)

    def same_position(self, other: "QueueRecord") -> bool:
        return (self.last, self.cursor) == (other.last, other.cursor)


class WorkerRecord(msgspec.Struct, frozen=True):
    queues: list[str] = []


class ProcessRecord(msgspec.Struct, frozen=True):
    """Where a worker runs. It has a node of its own: that of the worker holds its queues and nothing else."""

    host: str
    pid: int


class AppRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    """Settings of the application as a whole."""

    paused: bool = False


class PlanRecord(msgspec.Struct, frozen=True):
    """Who should have which queue; `inputs` names the workers and queues that it was made for."""

    inputs: str
    by: str
    workers: dict[str, list[str]]


def encode(record: msgspec.Struct) -> bytes:
    return msgspec.json.encode(record)


def decode(kind: type[T], path: str, data: bytes) -> T:
    """The record at this path; nothing at all reads as its defaults."""
    try:
        return msgspec.json.decode(data or b"{}", type=kind)
    except UNREADABLE as error:
        sample = data[:80].decode("utf-8", "replace")
        raise CorruptRecord(f"the ZooKeeper node {path} cannot be read ({error}): {sample!r}", path=path) from error
