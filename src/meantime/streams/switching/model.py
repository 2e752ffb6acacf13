"""A switch as data: the row that makes it resumable, and the decisions about it that need no I/O.

    preparing ──► locked ──► sealed ──► committed ──► done
        └────────────┴──────────┴──► failed

A switch has one owner, a node in one ZooKeeper session. Every step names the `epoch` that it believes in; whoever takes over
raises it, and the former owner's steps are refused from then on. Before the commit a switch that lost its owner is rolled
back, after it is finished; anyone may do either, any number of times.
"""

from dataclasses import dataclass
from enum import StrEnum
from uuid import UUID

import msgspec

from meantime.errors import UNREADABLE


class SwitchState(StrEnum):
    PREPARING = "preparing"
    LOCKED = "locked"
    SEALED = "sealed"
    COMMITTED = "committed"
    DONE = "done"
    FAILED = "failed"


FINAL = frozenset({SwitchState.DONE, SwitchState.FAILED})


@dataclass(frozen=True, slots=True)
class SwitchOwner:
    """A node in one of its sessions; the next session is another owner."""

    node_id: str
    session: str


@dataclass(frozen=True, slots=True)
class SwitchPhase:
    """A part of a switch that is over, and how long it took; acknowledging and sealing go on at the same time."""

    name: str
    ms: float


@dataclass(frozen=True, slots=True)
class SwitchAcknowledgement:
    """When a node had acknowledged the lock: so many milliseconds after it was made."""

    node: str
    ms: float


@dataclass(frozen=True, slots=True)
class Switch:
    id: UUID
    event_type: str
    state: SwitchState
    epoch: int
    owner: SwitchOwner
    force: bool
    old_storage_id: str
    old_topic: str
    old_settings: dict[str, str | None]
    storage_id: str
    new_topic: str
    timeline_id: UUID
    idempotency_key: str | None
    started_at_ms: int
    finished_at_ms: int | None = None
    stall_ms: float | None = None
    error: str | None = None
    overtaken: tuple[str, ...] = ()
    """The nodes that had not acknowledged the lock, or its end, when the switch went on."""
    phases: tuple[SwitchPhase, ...] = ()
    acknowledged: tuple[SwitchAcknowledgement, ...] = ()

    @property
    def running(self) -> bool:
        return self.state not in FINAL

    @property
    def past_the_commit(self) -> bool:
        return self.state in (SwitchState.COMMITTED, SwitchState.DONE)


class LockNotice(msgspec.Struct, frozen=True):
    """What the lock node in ZooKeeper tells the nodes, so that they can prepare; other clients of the protocol may
    write anything there."""

    switch: str
    owner: str
    storage_id: str
    topic: str
    force: bool = False


def notice_of(switch: Switch) -> bytes:
    return msgspec.json.encode(
        LockNotice(str(switch.id), switch.owner.node_id, switch.storage_id, switch.new_topic, switch.force)
    )


def read_notice(data: bytes) -> LockNotice | None:
    try:
        return msgspec.json.decode(data, type=LockNotice)
    except UNREADABLE:
        return None
