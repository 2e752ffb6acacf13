"""Which buckets are whose: shared out among the consumers of a topic, so that those on different nodes do not try to lease
the same message. It is a matter of speed only; a node that has nothing to do helps with the buckets of others."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from meantime.topics.model import Consumer, Due
from meantime.topics.rules import bucket_slices
from meantime.topics.storage.messages import LeaseDemand


@dataclass(frozen=True, slots=True)
class BucketShares:
    """`owners` is the slice of each consumer in the cluster; `here` are those that this node serves; `exclusive` when all
    consumers, by stream or by pull, are known to be at this node."""

    owners: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    here: frozenset[str] = frozenset()
    exclusive: bool = False

    @property
    def buckets(self) -> tuple[int, ...] | None:
        """The buckets of this node's consumers, or None when no other node has any."""
        if all(name in self.here for name in self.owners):
            return None
        slices = [self.owners[name] for name in sorted(self.here) if name in self.owners]
        return tuple(bucket for first, last in slices for bucket in range(first, last + 1))

    @property
    def own(self) -> frozenset[int] | None:
        buckets = self.buckets
        return None if buckets is None else frozenset(buckets)


def share_buckets(bucket_count: int, consumers: Sequence[Consumer], node_id: str | None = None) -> BucketShares:
    """As this node sees it. Streams stay, so buckets go to them; pulls get buckets where there are no streams."""
    streams = [consumer for consumer in consumers if consumer.mode == "push"]
    sharing = streams or list(consumers)
    owners = bucket_slices(bucket_count, [consumer.consumer_id for consumer in sharing])
    here = frozenset(one.consumer_id for one in sharing if one.node_id == node_id)
    return BucketShares(owners, here, exclusive=all(one.node_id == node_id for one in consumers))


def assign(dues: Sequence[Due], demands: Mapping[str, LeaseDemand], shares: BucketShares) -> list[tuple[Due, LeaseDemand]]:
    """Each message to the consumer that has its bucket, if it has room, else to the next one in turn."""
    rooms = {name: demand.room for name, demand in demands.items()}
    owner_of = {
        bucket: name for name, (first, last) in shares.owners.items() if name in demands for bucket in range(first, last + 1)
    }
    pairs: list[tuple[Due, LeaseDemand]] = []
    turn = 0
    names = list(demands)
    for due in dues:
        name = owner_of.get(due.bucket_id)
        if name is None or rooms[name] <= 0:
            free = [other for other in names[turn:] + names[:turn] if rooms[other] > 0]
            if not free:
                break
            name = free[0]
            turn = (names.index(name) + 1) % len(names)
        rooms[name] -= 1
        pairs.append((due, demands[name]))
    return pairs
