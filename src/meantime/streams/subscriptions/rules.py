"""Who reads what, and who may not: decisions about the streams of a subscription, as pure functions.

Partitions asked for by name go to whoever asked; the others are dealt to the remaining streams so that their numbers differ
by one at most, moving as few as possible. Every node comes to the same plan from the same facts.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from meantime.errors import Conflict
from meantime.sharing import plan_shares
from meantime.streams.model import PartitionKey


@dataclass(frozen=True, slots=True)
class ConnectedStream:
    """A connected stream. `sequence` grows with the time of joining; `direct` are partitions that it asked for by name."""

    stream_id: str
    sequence: str
    direct: frozenset[PartitionKey] | None = None


def plan(
    partitions: Collection[PartitionKey], readers: Sequence[ConnectedStream], owners: Mapping[PartitionKey, str]
) -> dict[PartitionKey, str]:
    """The stream that each partition should belong to; partitions that nobody can take are left out."""
    asked_for = _directly(partitions, readers)
    left = sorted(key for key in partitions if key not in asked_for)
    return asked_for | _dealt(left, [reader for reader in readers if reader.direct is None], owners)


def _directly(partitions: Collection[PartitionKey], readers: Sequence[ConnectedStream]) -> dict[PartitionKey, str]:
    planned: dict[PartitionKey, str] = {}
    for reader in sorted(readers, key=lambda reader: reader.sequence):
        for key in reader.direct or ():
            if key in partitions:
                planned.setdefault(key, reader.stream_id)
    return planned


def _dealt(
    partitions: list[PartitionKey], readers: list[ConnectedStream], owners: Mapping[PartitionKey, str]
) -> dict[PartitionKey, str]:
    streams = {reader.sequence: reader.stream_id for reader in readers}
    held = {sequence: [key for key in partitions if owners.get(key) == stream_id] for sequence, stream_id in streams.items()}
    shares = plan_shares(streams, partitions, held)
    return {key: streams[sequence] for sequence, keys in shares.items() for key in keys}


def check_free_slot(partitions: Collection[PartitionKey], readers: Sequence[ConnectedStream], me: ConnectedStream) -> None:
    """Raise Conflict unless there is something to read for `me`, who has just joined."""
    earlier = [reader for reader in readers if reader.sequence < me.sequence]
    if len(earlier) >= len(partitions):
        raise Conflict(f"no free slots: all {len(partitions)} partitions of this subscription have their readers")
    taken = set(_directly(partitions, earlier))
    if me.direct is None:
        if sum(reader.direct is None for reader in earlier) >= len(partitions) - len(taken):
            raise Conflict("no free slots: every partition that is not asked for by name has its reader")
    elif both := sorted(me.direct & taken):
        names = ", ".join(f"{event_type}:{partition}" for event_type, partition in both)
        raise Conflict(f"partitions that another stream has asked for by name: {names}")
