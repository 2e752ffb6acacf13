"""What operators do with the messages of a topic, whoever owns them; owners do the same with their own.

Many are changed by what they have in common. All that the filter finds are named first, each with its version, by one look;
`expect` is how many the caller has been told there are, and with another number nothing is changed. Then they are changed in
batches. What has changed since the look, or has been leased, is left alone and counted as skipped: a lease is a contract
that an operator cannot break either. The numbers in the answer are of what was done.
"""

from collections.abc import Awaitable, Callable, Sequence

from meantime.clock import Clock
from meantime.errors import Conflict, Invalid
from meantime.topics import rules
from meantime.topics.catalog import TopicCatalog
from meantime.topics.filters import check_filter, ranges_of
from meantime.topics.instants import Instants
from meantime.topics.model import BulkChange, Due, MessageFilter, MessagePlace, StoredMessage, Topic
from meantime.topics.producing import OnArrival
from meantime.topics.storage.filtered import FilteredMessages, FoundKey
from meantime.topics.storage.messages import MessageStore, OwnerRow

MOST_CHANGED = 200_000
"""So many at most by one request; more are too many to be sure of, and are done in parts of time."""
BATCH = 2_000


class Operating:
    def __init__(
        self,
        catalog: TopicCatalog,
        filtered: FilteredMessages,
        messages: MessageStore,
        clock: Clock,
        instants: Instants,
        arrived: OnArrival,
    ) -> None:
        self._catalog = catalog
        self._filtered = filtered
        self._messages = messages
        self._clock = clock
        self._instants = instants
        self._arrived = arrived

    async def page(
        self, topic_name: str, wanted: MessageFilter, after: tuple[int, str], limit: int, *, bodies: bool = True
    ) -> list[StoredMessage]:
        """In the order of instants, from the one after this instant and id; where the beginning of the id is given, in the
        order of ids."""
        topic = await self._catalog.get(topic_name)
        check_filter(wanted)
        ranges, (after_ms, after_id) = ranges_of(wanted, self._clock.now_ms()), after
        if wanted.id_prefix:
            return await self._filtered.by_id(topic, wanted, ranges, after_id, limit, bodies=bodies)
        place = MessagePlace(after_ms, rules.bucket_of(after_id, topic.settings.bucket_count), after_id)
        return await self._filtered.by_instant(topic, wanted, ranges, place, limit, bodies=bodies)

    async def count(self, topic_name: str, wanted: MessageFilter) -> int:
        """How many would be moved or deleted now."""
        return len(await self._keys(await self._catalog.get(topic_name), wanted, None))

    async def move(
        self, topic_name: str, wanted: MessageFilter, at_ms: int | None, after_ms: int | None, expect: int | None
    ) -> BulkChange:
        """Let them become due at another instant; a dead one starts again from its first attempt."""
        topic = await self._catalog.get(topic_name)
        now_ms = self._instants.now_ms(relative=after_ms is not None)
        wanted_ms = rules.position(at_ms, after_ms, topic.settings, now_ms)
        rows = [_row(topic, key, at_ms=wanted_ms) for key in await self._keys(topic, wanted, expect)]

        async def apply(some: Sequence[OwnerRow]) -> int:
            moved = await self._messages.move(some, self._clock.now_ms())
            if moved:
                self._arrived(topic.topic_id, [Due(row[1], row[2], 0, row[3]) for row in moved])
            return len(moved)

        return await _in_batches(rows, apply)

    async def delete(self, topic_name: str, wanted: MessageFilter, expect: int | None) -> BulkChange:
        topic = await self._catalog.get(topic_name)
        dedupe_ms = topic.settings.dedupe_ms
        rows = [_row(topic, key, dedupe_ms=dedupe_ms) for key in await self._keys(topic, wanted, expect)]

        async def apply(some: Sequence[OwnerRow]) -> int:
            return len(await self._messages.delete_owned(some, self._clock.now_ms()))

        return await _in_batches(rows, apply)

    async def _keys(self, topic: Topic, wanted: MessageFilter, expect: int | None) -> list[FoundKey]:
        check_filter(wanted)
        now_ms = self._clock.now_ms()
        found = await self._filtered.keys(topic, wanted, ranges_of(wanted, now_ms), MOST_CHANGED + 1, now_ms)
        if len(found) > MOST_CHANGED:
            raise Invalid(
                f"the filter holds more than {MOST_CHANGED} messages: change them in parts, such as by from_ms and to_ms",
                field="filter",
                maximum=MOST_CHANGED,
            )
        if expect is not None and len(found) != expect:
            raise Conflict(
                f"the filter holds {len(found)} messages that can be changed now, not {expect}; nothing was changed",
                count=len(found),
                expect=expect,
            )
        return sorted(found, key=lambda key: key.id)


def _row(topic: Topic, key: FoundKey, *, at_ms: int = 0, dedupe_ms: int = 0) -> OwnerRow:
    return OwnerRow(topic.topic_id, key.id, key.version, key.producer_group, at_ms, dedupe_ms)


async def _in_batches(rows: Sequence[OwnerRow], apply: Callable[[Sequence[OwnerRow]], Awaitable[int]]) -> BulkChange:
    changed = 0
    for first in range(0, len(rows), BATCH):
        changed += await apply(rows[first : first + BATCH])
    return BulkChange(changed, len(rows) - changed)
