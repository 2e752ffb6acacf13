"""Who reads what, and who may not: decisions about the streams of a subscription, as pure functions.

Partitions asked for by name go to whoever asked; the others are dealt to the remaining streams so that their numbers differ
by one at most, moving as few as possible. Every node comes to the same plan from the same facts.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from meantime.errors import Conflict
from meantime.sharing import plan_shares
from meantime.streams.reading.shared_consumer import Key


@dataclass(frozen=True, slots=True)
class Reader:
    """A connected stream. `seat` grows with the time of joining; `direct` are partitions that it asked for by name."""

    stream_id: str
    seat: str
    direct: frozenset[Key] | None = None


def plan(partitions: Collection[Key], readers: Sequence[Reader], owners: Mapping[Key, str]) -> dict[Key, str]:
    """The stream that each partition should belong to; partitions that nobody can take are left out."""
    asked_for = _directly(partitions, readers)
    left = sorted(key for key in partitions if key not in asked_for)
    return asked_for | _dealt(left, [reader for reader in readers if reader.direct is None], owners)


def _directly(partitions: Collection[Key], readers: Sequence[Reader]) -> dict[Key, str]:
    planned: dict[Key, str] = {}
    for reader in sorted(readers, key=lambda reader: reader.seat):
        for key in reader.direct or ():
            if key in partitions:
                planned.setdefault(key, reader.stream_id)
    return planned


def _dealt(partitions: list[Key], readers: list[Reader], owners: Mapping[Key, str]) -> dict[Key, str]:
    streams = {reader.seat: reader.stream_id for reader in readers}
    held = {seat: [key for key in partitions if owners.get(key) == stream_id] for seat, stream_id in streams.items()}
    shares = plan_shares(streams, partitions, held)
    return {key: streams[seat] for seat, keys in shares.items() for key in keys}


def check_seat(partitions: Collection[Key], readers: Sequence[Reader], me: Reader) -> None:
    """Raise Conflict unless there is something to read for `me`, who has just joined."""
    earlier = [reader for reader in readers if reader.seat < me.seat]
    if len(earlier) >= len(partitions):
        raise Conflict(f"no free slots: all {len(partitions)} partitions of this subscription have their readers")
    taken = set(_directly(partitions, earlier))
    if me.direct is None:
        if sum(reader.direct is None for reader in earlier) >= len(partitions) - len(taken):
            raise Conflict("no free slots: every partition that is not asked for by name has its reader")
    elif both := sorted(me.direct & taken):
        names = ", ".join(f"{event_type}:{partition}" for event_type, partition in both)
        raise Conflict(f"partitions that another stream has asked for by name: {names}")
