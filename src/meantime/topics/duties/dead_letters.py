"""Duty: a message whose last lease ended without a delete goes to the dead-letter topic, at once and in one transaction.

Where there is no such topic, or that topic has a message of the same id, it stays and is dead: nothing that was accepted
is ever dropped. `redrive` sends dead messages back.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import structlog
from psycopg.errors import UniqueViolation

from meantime.clock import Clock
from meantime.database.arrays import int4s, int8s, texts
from meantime.database.pool import LostRace
from meantime.database.queries import load
from meantime.database.statements import Connection, Statements, rows_of
from meantime.errors import Degraded, NotFound
from meantime.topics.catalog import TopicCatalog
from meantime.topics.meters import METERS
from meantime.topics.model import Due, MessageStage, Redriven, Topic
from meantime.topics.producing import OnArrival
from meantime.topics.rules import bucket_of

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class _Expired:
    id: str
    topic: Topic
    attempts: int


@dataclass(frozen=True, slots=True)
class _Transfer:
    """One message on its way from a topic to another."""

    id: str
    from_topic: Topic
    to_topic: Topic

    @property
    def bucket_id(self) -> int:
        return bucket_of(self.id, self.to_topic.settings.bucket_count)


class DeadLetters:
    def __init__(
        self,
        statements: Statements,
        catalog: TopicCatalog,
        clock: Clock,
        arrived: OnArrival,
        require_healthy: Callable[[], None],
    ) -> None:
        self._statements = statements
        self._catalog = catalog
        self._clock = clock
        self._arrived = arrived
        self._require_healthy = require_healthy
        self._sql = load("meantime.topics.duties", "upkeep.sql")

    async def run_once(self, limit: int = 500, *, patient: bool = False) -> int:
        """Move all whose last lease has ended; how many there were. Mostly there are none, which one statement tells. Who is
        `patient` also waits for those that are being moved already. A node that does not trust its clock cannot tell which
        have ended."""
        try:
            self._require_healthy()
        except Degraded:
            return 0
        dying = self._sql["dying_patiently" if patient else "dying"]
        if not await self._statements.run(dying, {"now_ms": self._clock.now_ms(), "limit": 1}):
            return 0
        try:
            async with self._statements.transaction() as connection:
                return await self._move_batch(connection, dying, limit)
        except (UniqueViolation, LostRace):  # another node was quicker with one of them; the next turn sees that
            return 0

    async def _move_batch(self, connection: Connection, dying: str, limit: int) -> int:
        now_ms = self._clock.now_ms()
        rows = await rows_of(connection, dying, {"now_ms": now_ms, "limit": limit})
        expired = [
            _Expired(row[0], topic, row[2]) for row in rows if (topic := await self._catalog.by_id(row[1])) is not None
        ]
        transfers = [transfer for one in expired if (transfer := await self._transfer(one))]
        moved = await self._move(connection, transfers, now_ms) if transfers else set()
        await self._settle(connection, [one for one in expired if (one.topic.topic_id, one.id) not in moved], now_ms)
        for transfer in transfers:
            if (transfer.from_topic.topic_id, transfer.id) in moved:
                self._arrived(transfer.to_topic.topic_id, [Due(transfer.id, 1, transfer.bucket_id, now_ms)])
        for one in expired:
            METERS.of(one.topic.topic_id).dead += _spent(one)
        if expired:
            log.info(
                "dead_letters_moved",
                dead=len(expired),
                moved=len(moved),
                topics=dict(Counter(one.topic.name for one in expired)),
            )
        return len(expired)

    async def _transfer(self, one: _Expired) -> _Transfer | None:
        settings = one.topic.settings
        if settings.dead_letter_topic is None or not _spent(one):
            return None
        try:
            return _Transfer(one.id, one.topic, await self._catalog.get(settings.dead_letter_topic))
        except NotFound:
            return None

    async def _move(self, connection: Connection, transfers: Sequence[_Transfer], now_ms: int) -> set[tuple[int, str]]:
        targets = {
            "topic_ids": int4s([one.to_topic.topic_id for one in transfers]),
            "ids": texts([one.id for one in transfers]),
        }
        await rows_of(connection, self._sql["drop_forgotten"], targets)
        params = _route(transfers) | {"from_names": texts([one.from_topic.name for one in transfers]), "now_ms": now_ms}
        rows = await rows_of(connection, self._sql["move_dead_letters"], params)
        await self._remember(connection, transfers, {(row[0], row[1]): row[2] for row in rows}, now_ms)
        return {(row[0], row[1]) for row in rows}

    async def _remember(
        self,
        connection: Connection,
        transfers: Sequence[_Transfer],
        groups: dict[tuple[int, str], str],
        now_ms: int,
    ) -> None:
        known = [
            one for one in transfers if one.from_topic.settings.dedupe_ms > 0 and (one.from_topic.topic_id, one.id) in groups
        ]
        if not known:
            return
        until = int8s([now_ms + one.from_topic.settings.dedupe_ms for one in known])
        params = {
            "topic_ids": int4s([one.from_topic.topic_id for one in known]),
            "ids": texts([one.id for one in known]),
            "groups": texts([groups[one.from_topic.topic_id, one.id] for one in known]),
            "forgets": until,
            "knowns": until,
        }
        await rows_of(connection, self._sql["remember"], params)

    async def _settle(self, connection: Connection, staying: Sequence[_Expired], now_ms: int) -> None:
        if not staying:
            return
        params = {
            "topic_ids": int4s([one.topic.topic_id for one in staying]),
            "ids": texts([one.id for one in staying]),
            "stages": int4s([MessageStage.DEAD if _spent(one) else MessageStage.OPEN for one in staying]),
            "now_ms": now_ms,
        }
        await rows_of(connection, self._sql["settle"], params)

    async def redrive(self, topic_name: str, to: str | None, limit: int) -> Redriven:
        """Send dead messages back: dead letters to the topic they came from, those that died here in place, or all to
        `to`."""
        topic = await self._catalog.get(topic_name)
        if to is not None:
            await self._catalog.get(to)
        async with self._statements.transaction() as connection:
            now_ms = self._clock.now_ms()
            params = {"topic_id": topic.topic_id, "now_ms": now_ms, "limit": limit}
            letters = await rows_of(connection, self._sql["dead_letters"], params)
            here = await rows_of(connection, self._sql["dead_here"], params | {"limit": limit - len(letters)})
            wanted = [(row[0], to or row[1]) for row in letters] + [(row[0], to or topic.name) for row in here]
            targets = await self._targets({name for _, name in wanted})
            transfers = [_Transfer(one, topic, targets[name]) for one, name in wanted if name in targets]
            revived = await self._revive(connection, transfers, now_ms) if transfers else set()
        for transfer in transfers:
            if transfer.id in revived:
                self._arrived(transfer.to_topic.topic_id, [Due(transfer.id, 1, transfer.bucket_id, now_ms)])
        gone = len(wanted) - len(transfers)
        reasons = {"topic_gone": gone, "id_taken": len(transfers) - len(revived)}
        reasons = {reason: count for reason, count in reasons.items() if count}
        return Redriven(moved=len(revived), skipped=sum(reasons.values()), reasons=reasons)

    async def _targets(self, names: set[str]) -> dict[str, Topic]:
        found = await asyncio.gather(*(self._catalog.get(name) for name in sorted(names)), return_exceptions=True)
        return {topic.name: topic for topic in found if isinstance(topic, Topic)}

    async def _revive(self, connection: Connection, transfers: Sequence[_Transfer], now_ms: int) -> set[str]:
        forgotten = {
            "topic_ids": int4s([one.to_topic.topic_id for one in transfers]),
            "ids": texts([one.id for one in transfers]),
        }
        await rows_of(connection, self._sql["drop_forgotten"], forgotten)
        rows = await rows_of(connection, self._sql["revive"], _route(transfers) | {"now_ms": now_ms})
        return {row[0] for row in rows}


def _spent(one: _Expired) -> bool:
    most = one.topic.settings.max_attempts
    return 0 < most <= one.attempts


def _route(transfers: Sequence[_Transfer]) -> dict[str, object]:
    return {
        "topic_ids": int4s([one.from_topic.topic_id for one in transfers]),
        "ids": texts([one.id for one in transfers]),
        "to_topics": int4s([one.to_topic.topic_id for one in transfers]),
        "buckets": int4s([one.bucket_id for one in transfers]),
    }
