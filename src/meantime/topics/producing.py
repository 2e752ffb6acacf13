"""What producers do: create, read, move and delete messages of their group.

Creating is idempotent: an id that exists, or was deleted within the topic's dedupe window, is not created again, whoever
asks, however often, on whichever node.
"""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial

from meantime.clock import Clock
from meantime.errors import Forbidden, MessageLeased, NotFound, StaleVersion
from meantime.names import is_identifier
from meantime.topics import rules
from meantime.topics.catalog import TopicCatalog
from meantime.topics.drafts import checked, relative
from meantime.topics.instants import Instants
from meantime.topics.merging import Merger, Sizes
from meantime.topics.meters import METERS
from meantime.topics.model import (
    Created,
    Due,
    MessageDraft,
    MessageStage,
    NewMessage,
    Outcome,
    Position,
    Refused,
    StoredMessage,
    Topic,
)
from meantime.topics.settling import key_of, settle
from meantime.topics.storage.messages import ANY_VERSION, NO_VERSION, Key, MessageStore, OwnerRow

OnArrival = Callable[[int, Sequence[Due]], None]
"""Called with messages of a topic (by its id) that have a new instant."""

_INT4 = 1 << 31
_TRIES = 3
_GONE_ALREADY = "gone"
_CREATED = "created"
_CHECKED_AT_ONCE = 500
"""So many are checked before others have their turn."""


class Producing:
    def __init__(
        self, catalog: TopicCatalog, messages: MessageStore, clock: Clock, instants: Instants, arrived: OnArrival
    ) -> None:
        self._catalog = catalog
        self._messages = messages
        self._clock = clock
        self._instants = instants
        self._arrived = arrived
        self._creations: dict[str, Merger[NewMessage, Created]] = {}
        self._moves: Merger[OwnerRow, Outcome] = Merger(self._move)
        self._deletions: Merger[OwnerRow, Outcome] = Merger(self._delete)

    async def create(self, topic_name: str, group: str, drafts: Sequence[MessageDraft | Refused]) -> list[Created]:
        """One result per draft, in their order."""
        topic = await self._catalog.get(topic_name)
        rules.check_producer(topic_name, group)
        now_ms = self._instants.now_ms(relative=relative(drafts))
        entries: list[NewMessage | Refused] = []
        for first in range(0, len(drafts), _CHECKED_AT_ONCE):
            some = drafts[first : first + _CHECKED_AT_ONCE]
            entries += [checked(draft, topic, group, now_ms) if isinstance(draft, MessageDraft) else draft for draft in some]
            if len(entries) < len(drafts):
                await asyncio.sleep(0)
        sound = [entry for entry in entries if isinstance(entry, NewMessage)]
        results = await self._merger(topic_name).submit(sound) if sound else []
        following = iter(results)
        return [next(following) if isinstance(entry, NewMessage) else _invalid(entry) for entry in entries]

    def _merger(self, topic_name: str) -> Merger[NewMessage, Created]:
        merger = self._creations.get(topic_name)
        if merger is None:
            sizes: Sizes[NewMessage] = Sizes(weigh=lambda message: len(message.body))
            merger = self._creations[topic_name] = Merger(partial(self._create, topic_name), sizes=sizes)
        return merger

    async def _create(self, topic_name: str, messages: Sequence[NewMessage]) -> list[Created]:
        distinct: dict[str, NewMessage] = {}
        for message in messages:
            distinct.setdefault(message.id, message)
        created, present = await self._insert(topic_name, distinct)
        return [
            Created(message.id, _CREATED, 1, message.at_ms, message.bucket_id)
            if message.id in created and distinct[message.id] is message
            else _exists(message, present.get(message.id) or _new_position(distinct[message.id]))
            for message in messages
        ]

    async def _insert(self, topic_name: str, messages: dict[str, NewMessage]) -> tuple[set[str], dict[str, Position]]:
        """Which were created, and where all others of the same id stand."""
        created: set[str] = set()
        present: dict[str, Position] = {}
        left = list(messages.values())
        for _ in range(_TRIES):
            topic = await self._catalog.get(topic_name)
            done = await self._messages.insert(topic, left, self._clock.now_ms())
            created |= done or set()
            self._announce(topic, [message for message in left if message.id in created])
            if done is None or len(done) < len(left):
                present |= await self._present(topic, [message for message in left if message.id not in created])
            left = [message for message in left if message.id not in created and message.id not in present]
            if not left:
                return created, present
            # Neither created nor there: the topic has changed, or the other one was deleted just now.
            await self._catalog.reload(topic_name)
        raise NotFound(f"topic {topic_name!r} does not exist")

    async def _present(self, topic: Topic, messages: Sequence[NewMessage]) -> dict[str, Position]:
        found = await self._messages.positions([(topic.topic_id, message.id) for message in messages])
        return {key[1]: position for key, position in found.items()}

    def _announce(self, topic: Topic, messages: Sequence[NewMessage]) -> None:
        if messages:
            METERS.of(topic.topic_id).created += len(messages)
            self._arrived(topic.topic_id, [Due(one.id, 1, one.bucket_id, one.at_ms) for one in messages])

    async def message(self, topic_name: str, message_id: str, group: str | None, consumer_id: str | None) -> StoredMessage:
        """For its owner, and for the consumer that holds its lease now."""
        message = await self.any_message(topic_name, message_id)
        if not rules.may_read(message, group, consumer_id, self._clock.now_ms()):
            raise Forbidden("a message is read by its owner and by the holder of its lease")
        return message

    async def any_message(self, topic_name: str, message_id: str) -> StoredMessage:
        """For operators, whoever owns it."""
        topic = await self._catalog.get(topic_name)
        message = await self._messages.message(topic, message_id) if is_identifier(message_id) else None
        if message is None or message.stage == MessageStage.GONE:
            raise _no_message(message_id, topic)
        return message

    async def messages(self, topic_name: str, group: str, after: str, limit: int) -> list[StoredMessage]:
        """Of a group, ordered by id, from the one after `after`."""
        topic = await self._catalog.get(topic_name)
        return await self._messages.of_group(topic, group, after, limit, self._clock.now_ms())

    async def move(
        self, topic_name: str, message_id: str, group: str, at_ms: int | None, after_ms: int | None, version: int | None
    ) -> Outcome:
        """Let it become due at another instant; raises why not."""
        topic = await self._catalog.get(topic_name)
        now_ms = self._instants.now_ms(relative=after_ms is not None)
        wanted_ms = rules.position(at_ms, after_ms, topic.settings, now_ms)
        if not is_identifier(message_id):
            raise _no_message(message_id, topic)
        row = OwnerRow(topic.topic_id, message_id, _version(version), group, wanted_ms)
        (outcome,) = await self._moves.submit([row])
        return _or_raise(outcome, message_id, topic)

    async def delete(self, topic_name: str, message_id: str, group: str, version: int | None) -> None:
        """Delete one message; raises why not."""
        topic = await self._catalog.get(topic_name)
        if not is_identifier(message_id):
            raise _no_message(message_id, topic)
        (outcome,) = await self._delete_ids(topic, group, [message_id], version)
        _or_raise(outcome, message_id, topic)

    async def delete_many(self, topic_name: str, group: str, ids: Sequence[str]) -> list[Outcome]:
        """One outcome per id, in their order."""
        return await self._delete_ids(await self._catalog.get(topic_name), group, ids, None)

    async def _delete_ids(self, topic: Topic, group: str, ids: Sequence[str], version: int | None) -> list[Outcome]:
        dedupe_ms = topic.settings.dedupe_ms
        rows = [OwnerRow(topic.topic_id, one, _version(version), group, dedupe_ms=dedupe_ms) for one in ids]
        return await self._deletions.submit(rows)

    async def _move(self, rows: Sequence[OwnerRow]) -> list[Outcome]:
        return await settle(self._messages, self._clock, rows, self._apply_move, _explain)

    async def _apply_move(self, rows: Sequence[OwnerRow], now_ms: int) -> dict[Key, Outcome]:
        moved = await self._messages.move(rows, now_ms)
        for topic_id, message_id, version, at_ms in moved:
            self._arrived(topic_id, [Due(message_id, version, 0, at_ms)])
        return {(row[0], row[1]): Outcome(row[1], rules.OK, row[2], row[3]) for row in moved}

    async def _delete(self, rows: Sequence[OwnerRow]) -> list[Outcome]:
        outcomes = await settle(self._messages, self._clock, rows, self._apply_delete, _explain_delete)
        return [Outcome(one.id, rules.OK) if one.status == _GONE_ALREADY else one for one in outcomes]

    async def _apply_delete(self, rows: Sequence[OwnerRow], now_ms: int) -> dict[Key, Outcome]:
        deleted = await self._messages.delete_owned(rows, now_ms)
        return {key_of(row): Outcome(row.id, rules.OK) for row in rows if key_of(row) in deleted}


def _no_message(message_id: str, topic: Topic) -> NotFound:
    return NotFound(f"topic {topic.name!r} has no message {message_id!r}")


def _or_raise(outcome: Outcome, message_id: str, topic: Topic) -> Outcome:
    match outcome.status:
        case rules.OK:
            return outcome
        case rules.FORBIDDEN:
            raise Forbidden(f"message {message_id!r} belongs to another producer group")
        case rules.STALE_VERSION:
            raise StaleVersion(f"message {message_id!r} has another version by now")
        case rules.LEASED:
            raise MessageLeased(f"message {message_id!r} is leased by a consumer")
        case _:
            raise _no_message(message_id, topic)


def _version(version: int | None) -> int:
    if version is None:
        return ANY_VERSION
    return version if 0 < version < _INT4 else NO_VERSION


def _explain(row: OwnerRow, position: Position | None, now_ms: int) -> str:
    return rules.judge_owner(position, row.producer_group, None if row.version == ANY_VERSION else row.version, now_ms)


def _explain_delete(row: OwnerRow, position: Position | None, now_ms: int) -> str:
    """Deleting again is fine, as long as the id is known as deleted."""
    if position and position.stage == MessageStage.GONE and position.producer_group == row.producer_group:
        return _GONE_ALREADY
    return _explain(row, position, now_ms)


def _invalid(entry: Refused) -> Created:
    return Created(entry.id, "invalid", error=entry.error)


def _new_position(message: NewMessage) -> Position:
    return Position(
        message.id, message.at_ms, MessageStage.OPEN, 1, 0, message.bucket_id, message.producer_group, None, message.at_ms
    )


def _exists(message: NewMessage, position: Position | None) -> Created:
    """The position of the other message is shown to its owner only."""
    mine = position and position.stage != MessageStage.GONE and position.producer_group == message.producer_group
    if position is None or not mine:
        return Created(message.id, "exists", bucket_id=message.bucket_id)
    return Created(message.id, "exists", position.version, position.at_ms, position.bucket_id)
