"""Duty: a message whose last lease ended without a delete goes to the dead-letter topic, at once and in one transaction.

Where there is no such topic, or that topic has a message of the same id, it stays and is dead: nothing that was accepted
is ever dropped. `redrive` sends the dead back.
"""

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import structlog
from psycopg.errors import DeadlockDetected, UniqueViolation

from meantime.clock import Clock
from meantime.database.arrays import int4s, int8s, texts
from meantime.database.queries import load
from meantime.database.statements import Connection, Statements, rows_of
from meantime.errors import NotFound
from meantime.topics.catalog import Catalogue
from meantime.topics.model import Due, Redriven, Stage, Topic
from meantime.topics.producing import Bell
from meantime.topics.rules import bucket_of

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class _Dying:
    id: str
    topic: Topic
    attempts: int


@dataclass(frozen=True, slots=True)
class _Journey:
    """One message on its way from a topic to another."""

    id: str
    from_topic: Topic
    to_topic: Topic

    @property
    def bucket_id(self) -> int:
        return bucket_of(self.id, self.to_topic.settings.bucket_count)


class Burial:
    def __init__(self, statements: Statements, catalogue: Catalogue, clock: Clock, bell: Bell) -> None:
        self._statements = statements
        self._catalogue = catalogue
        self._clock = clock
        self._bell = bell
        self._sql = load("meantime.topics.duties", "upkeep.sql")

    async def run_once(self, limit: int = 500) -> int:
        """Bury all that is dying now; how many there were. Mostly there are none, which one statement tells."""
        if not await self._statements.run(self._sql["dying"], {"now_ms": self._clock.now_ms(), "limit": 1}):
            return 0
        try:
            async with self._statements.transaction() as connection:
                return await self._bury_batch(connection, limit)
        except (UniqueViolation, DeadlockDetected):  # somebody else was quicker with one of them; the next turn sees that
            return 0

    async def _bury_batch(self, connection: Connection, limit: int) -> int:
        now_ms = self._clock.now_ms()
        rows = await rows_of(connection, self._sql["dying"], {"now_ms": now_ms, "limit": limit})
        dying = [_Dying(row[0], topic, row[2]) for row in rows if (topic := await self._catalogue.by_id(row[1])) is not None]
        journeys = [journey for one in dying if (journey := await self._journey(one))]
        buried = await self._bury(connection, journeys, now_ms) if journeys else set()
        await self._settle(connection, [one for one in dying if (one.topic.topic_id, one.id) not in buried], now_ms)
        for journey in journeys:
            if (journey.from_topic.topic_id, journey.id) in buried:
                self._bell(journey.to_topic.topic_id, [Due(journey.id, 1, journey.bucket_id, now_ms)])
        if dying:
            log.info("buried", dead=len(dying), moved=len(buried), topics=dict(Counter(one.topic.name for one in dying)))
        return len(dying)

    async def _journey(self, one: _Dying) -> _Journey | None:
        settings = one.topic.settings
        if settings.dead_letter_topic is None or not _spent(one):
            return None
        try:
            return _Journey(one.id, one.topic, await self._catalogue.get(settings.dead_letter_topic))
        except NotFound:
            return None

    async def _bury(self, connection: Connection, journeys: Sequence[_Journey], now_ms: int) -> set[tuple[int, str]]:
        targets = {
            "topic_ids": int4s([one.to_topic.topic_id for one in journeys]),
            "ids": texts([one.id for one in journeys]),
        }
        await rows_of(connection, self._sql["drop_forgotten"], targets)
        params = _route(journeys) | {"from_names": texts([one.from_topic.name for one in journeys]), "now_ms": now_ms}
        rows = await rows_of(connection, self._sql["bury"], params)
        await self._remember(connection, journeys, {(row[0], row[1]): row[2] for row in rows}, now_ms)
        return {(row[0], row[1]) for row in rows}

    async def _remember(
        self,
        connection: Connection,
        journeys: Sequence[_Journey],
        groups: dict[tuple[int, str], str],
        now_ms: int,
    ) -> None:
        known = [
            one for one in journeys if one.from_topic.settings.dedupe_ms > 0 and (one.from_topic.topic_id, one.id) in groups
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

    async def _settle(self, connection: Connection, staying: Sequence[_Dying], now_ms: int) -> None:
        if not staying:
            return
        params = {
            "topic_ids": int4s([one.topic.topic_id for one in staying]),
            "ids": texts([one.id for one in staying]),
            "stages": int4s([Stage.DEAD if _spent(one) else Stage.OPEN for one in staying]),
            "now_ms": now_ms,
        }
        await rows_of(connection, self._sql["settle"], params)

    async def redrive(self, topic: Topic, to: str | None, limit: int) -> Redriven:
        """Send the dead back: dead letters to where they came from, those that died here in place, or all to `to`."""
        async with self._statements.transaction() as connection:
            now_ms = self._clock.now_ms()
            params = {"topic_id": topic.topic_id, "now_ms": now_ms, "limit": limit}
            letters = await rows_of(connection, self._sql["dead_letters"], params)
            here = await rows_of(connection, self._sql["dead_here"], params | {"limit": limit - len(letters)})
            wanted = [(row[0], to or row[1]) for row in letters] + [(row[0], to or topic.name) for row in here]
            targets = await self._targets({name for _, name in wanted})
            journeys = [_Journey(one, topic, targets[name]) for one, name in wanted if name in targets]
            revived = await self._revive(connection, journeys, now_ms) if journeys else set()
        for journey in journeys:
            if journey.id in revived:
                self._bell(journey.to_topic.topic_id, [Due(journey.id, 1, journey.bucket_id, now_ms)])
        return Redriven(moved=len(revived), skipped=len(wanted) - len(revived))

    async def _targets(self, names: set[str]) -> dict[str, Topic]:
        found = await asyncio.gather(*(self._catalogue.get(name) for name in sorted(names)), return_exceptions=True)
        return {topic.name: topic for topic in found if isinstance(topic, Topic)}

    async def _revive(self, connection: Connection, journeys: Sequence[_Journey], now_ms: int) -> set[str]:
        forgotten = {
            "topic_ids": int4s([one.to_topic.topic_id for one in journeys]),
            "ids": texts([one.id for one in journeys]),
        }
        await rows_of(connection, self._sql["drop_forgotten"], forgotten)
        rows = await rows_of(connection, self._sql["revive"], _route(journeys) | {"now_ms": now_ms})
        return {row[0] for row in rows}


def _spent(one: _Dying) -> bool:
    most = one.topic.settings.max_attempts
    return 0 < most <= one.attempts


def _route(journeys: Sequence[_Journey]) -> dict[str, object]:
    return {
        "topic_ids": int4s([one.from_topic.topic_id for one in journeys]),
        "ids": texts([one.id for one in journeys]),
        "to_topics": int4s([one.to_topic.topic_id for one in journeys]),
        "buckets": int4s([one.bucket_id for one in journeys]),
    }
