"""Which buckets are whose: dealt to the consumers of a topic, so that those on different nodes do not reach for the same
message. It is a matter of speed only; whoever has nothing to do helps with the buckets of others."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from meantime.topics.model import Consumer, Due
from meantime.topics.rules import deal
from meantime.topics.storage.messages import Taker


@dataclass(frozen=True, slots=True)
class Allotment:
    """`owners` is the slice of each consumer in the cluster; `here` are those that are served by this node; `alone` when
    all who take in whatever way are known, and are."""

    owners: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    here: frozenset[str] = frozenset()
    alone: bool = False

    @property
    def buckets(self) -> tuple[int, ...] | None:
        """The buckets of this node's consumers, or None when nobody else has any."""
        if all(name in self.here for name in self.owners):
            return None
        slices = [self.owners[name] for name in sorted(self.here) if name in self.owners]
        return tuple(bucket for first, last in slices for bucket in range(first, last + 1))

    @property
    def own(self) -> frozenset[int] | None:
        buckets = self.buckets
        return None if buckets is None else frozenset(buckets)


def allot(bucket_count: int, consumers: Sequence[Consumer], node_id: str) -> Allotment:
    """Streams stay, so buckets are dealt to them; pulls get buckets where there are no streams."""
    streams = [consumer for consumer in consumers if consumer.mode == "push"]
    dealt = streams or list(consumers)
    owners = deal(bucket_count, [consumer.consumer_id for consumer in dealt])
    here = frozenset(one.consumer_id for one in dealt if one.node_id == node_id)
    return Allotment(owners, here, alone=all(one.node_id == node_id for one in consumers))


def assign(dues: Sequence[Due], takers: Mapping[str, Taker], allotment: Allotment) -> list[tuple[Due, Taker]]:
    """Each message to the consumer that its bucket is dealt to, if it has room, else to the next one in turn."""
    rooms = {name: taker.room for name, taker in takers.items()}
    owner_of = {
        bucket: name
        for name, (first, last) in allotment.owners.items()
        if name in takers
        for bucket in range(first, last + 1)
    }
    pairs: list[tuple[Due, Taker]] = []
    turn = 0
    names = list(takers)
    for due in dues:
        name = owner_of.get(due.bucket_id)
        if name is None or rooms[name] <= 0:
            free = [other for other in names[turn:] + names[:turn] if rooms[other] > 0]
            if not free:
                break
            name = free[0]
            turn = (names.index(name) + 1) % len(names)
        rooms[name] -= 1
        pairs.append((due, takers[name]))
    return pairs
