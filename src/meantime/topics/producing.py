"""What producers do: create, move and delete messages of their group.

Creating is idempotent: an id that exists, or was deleted within the topic's dedupe window, is not created again, whoever
asks, however often, on whichever node.
"""

from collections.abc import Callable, Sequence
from functools import partial

from meantime.clock import Clock
from meantime.errors import NotFound
from meantime.topics import rules
from meantime.topics.catalog import Catalogue
from meantime.topics.drafts import checked
from meantime.topics.merging import Merger, Sizes
from meantime.topics.model import Created, Draft, Due, NewMessage, Outcome, Position, Refused, Stage, Topic
from meantime.topics.settling import key_of, settle
from meantime.topics.storage.messages import ANY_VERSION, NO_VERSION, Key, Messages, OwnerRow

Bell = Callable[[int, Sequence[Due]], None]
"""Told of messages of a topic (by its id) that have a new place in time."""

_INT4 = 1 << 31
_TRIES = 3
_GONE_ALREADY = "gone"


class Producing:
    def __init__(self, catalogue: Catalogue, messages: Messages, clock: Clock, bell: Bell) -> None:
        self._catalogue = catalogue
        self._messages = messages
        self._clock = clock
        self._bell = bell
        self._creations: dict[str, Merger[NewMessage, Created]] = {}
        self._moves: Merger[OwnerRow, Outcome] = Merger(self._move)
        self._deletions: Merger[OwnerRow, Outcome] = Merger(self._delete)

    async def create(self, topic_name: str, group: str, drafts: Sequence[Draft | Refused]) -> list[Created]:
        """One result per draft, in their order."""
        topic = await self._catalogue.get(topic_name)
        now_ms = self._clock.now_ms()
        entries = [checked(draft, topic, group, now_ms) if isinstance(draft, Draft) else draft for draft in drafts]
        sound = [entry for entry in entries if isinstance(entry, NewMessage)]
        results = iter(await self._merger(topic_name).submit(sound) if sound else ())
        return [next(results) if isinstance(entry, NewMessage) else _invalid(entry) for entry in entries]

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
            Created(message.id, "created", 1, message.at_ms, message.bucket_id)
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
            topic = await self._catalogue.get(topic_name)
            done = await self._messages.insert(topic, left, self._clock.now_ms())
            created |= done or set()
            self._ring(topic, [message for message in left if message.id in created])
            if done is None or len(done) < len(left):
                present |= await self._present(topic, [message for message in left if message.id not in created])
            left = [message for message in left if message.id not in created and message.id not in present]
            if not left:
                return created, present
            # Neither created nor there: the topic has changed, or the other one was deleted just now.
            await self._catalogue.reload(topic_name)
        raise NotFound(f"topic {topic_name!r} does not exist")

    async def _present(self, topic: Topic, messages: Sequence[NewMessage]) -> dict[str, Position]:
        found = await self._messages.positions([(topic.topic_id, message.id) for message in messages])
        return {key[1]: position for key, position in found.items()}

    def _ring(self, topic: Topic, messages: Sequence[NewMessage]) -> None:
        if messages:
            self._bell(topic.topic_id, [Due(one.id, 1, one.bucket_id, one.at_ms) for one in messages])

    async def move(self, topic: Topic, group: str, message_id: str, at_ms: int, version: int | None) -> Outcome:
        row = OwnerRow(topic.topic_id, message_id, _version(version), group, at_ms)
        return (await self._moves.submit([row]))[0]

    async def delete(self, topic: Topic, group: str, ids: Sequence[str], version: int | None = None) -> list[Outcome]:
        dedupe_ms = topic.settings.dedupe_ms
        rows = [OwnerRow(topic.topic_id, one, _version(version), group, dedupe_ms=dedupe_ms) for one in ids]
        return await self._deletions.submit(rows)

    async def _move(self, rows: Sequence[OwnerRow]) -> list[Outcome]:
        return await settle(self._messages, self._clock, rows, self._apply_move, _explain)

    async def _apply_move(self, rows: Sequence[OwnerRow], now_ms: int) -> dict[Key, Outcome]:
        moved = await self._messages.move(rows, now_ms)
        for topic_id, message_id, version, at_ms in moved:
            self._bell(topic_id, [Due(message_id, version, 0, at_ms)])
        return {(row[0], row[1]): Outcome(row[1], rules.OK, row[2], row[3]) for row in moved}

    async def _delete(self, rows: Sequence[OwnerRow]) -> list[Outcome]:
        outcomes = await settle(self._messages, self._clock, rows, self._apply_delete, _explain_delete)
        return [Outcome(one.id, rules.OK) if one.status == _GONE_ALREADY else one for one in outcomes]

    async def _apply_delete(self, rows: Sequence[OwnerRow], now_ms: int) -> dict[Key, Outcome]:
        deleted = await self._messages.delete_owned(rows, now_ms)
        return {key_of(row): Outcome(row.id, rules.OK) for row in rows if key_of(row) in deleted}


def _version(version: int | None) -> int:
    if version is None:
        return ANY_VERSION
    return version if 0 < version < _INT4 else NO_VERSION


def _explain(row: OwnerRow, position: Position | None, now_ms: int) -> str:
    return rules.judge_owner(position, row.producer_group, None if row.version == ANY_VERSION else row.version, now_ms)


def _explain_delete(row: OwnerRow, position: Position | None, now_ms: int) -> str:
    """Deleting again is fine, as long as it is remembered that there was something."""
    if position and position.stage == Stage.GONE and position.producer_group == row.producer_group:
        return _GONE_ALREADY
    return _explain(row, position, now_ms)


def _invalid(entry: Refused) -> Created:
    return Created(entry.id, "invalid", error=entry.error)


def _new_position(message: NewMessage) -> Position:
    return Position(
        message.id, message.at_ms, Stage.OPEN, 1, 0, message.bucket_id, message.producer_group, None, message.at_ms
    )


def _exists(message: NewMessage, position: Position | None) -> Created:
    """Where the other one stands is told to its owner only."""
    mine = position and position.stage != Stage.GONE and position.producer_group == message.producer_group
    if position is None or not mine:
        return Created(message.id, "exists", bucket_id=message.bucket_id)
    return Created(message.id, "exists", position.version, position.at_ms, position.bucket_id)
