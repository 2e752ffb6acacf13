"""Sends messages of one topic to another, each under the id and with the body that whoever knows them gives.

A dead letter that an application has made lies in a topic like any message, so topics do not know what it is: they are told
by `Rewrite`. Each page is one transaction, so a message is in one of the two topics at any time.
"""

from collections import Counter
from collections.abc import Awaitable, Callable, Sequence

import msgspec

from meantime.clock import Clock
from meantime.database.arrays import byte_strings, int4s, texts
from meantime.database.queries import load
from meantime.database.statements import Connection, Rows, Statements, rows_of
from meantime.topics.model import Due, Redriven, Topic
from meantime.topics.producing import OnArrival
from meantime.topics.rules import bucket_of

PAGE = 32
"""Messages at a time: bodies have up to some megabytes."""
FIRST_MS = -(1 << 62)

Rewrite = Callable[[str, bytes], tuple[str, bytes] | None]
"""From the id and the JSON of a message to those that it goes on with; None for one that has to stay."""


class _Going(msgspec.Struct, frozen=True):
    id: str
    new_id: str
    body: bytes


class SendingBack:
    def __init__(self, statements: Statements, clock: Clock, arrived: OnArrival) -> None:
        self._statements = statements
        self._clock = clock
        self._arrived = arrived
        self._sql = load("meantime.topics.duties", "sending_back.sql")

    async def send(self, topic: Topic, to: Callable[[], Awaitable[Topic]], rewrite: Rewrite, limit: int) -> Redriven:
        """Send up to so many; `to` is asked when there is one to be sent."""
        moved, reasons, after = 0, Counter[str](), (FIRST_MS, "")
        target: Topic | None = None
        while moved < limit:
            async with self._statements.transaction() as connection:
                now_ms = self._clock.now_ms()
                page = {"topic_id": topic.topic_id, "now_ms": now_ms, "limit": min(PAGE, limit - moved)}
                rows = await rows_of(connection, self._sql["page"], page | {"after_ms": after[0], "after_id": after[1]})
                going, taken = _going(rows, rewrite)
                sent = await self._send(connection, topic, target, going, now_ms) if target and going else []
            if going and target is None:
                target = await to()  # and look again: this page was let go
                continue
            if target and sent:
                self._arrived(target.topic_id, sent)
            moved += len(sent)
            reasons["not_a_dead_letter"] += len(rows) - len(going) - taken
            reasons["id_taken"] += len(going) - len(sent) + taken
            if not rows:
                break
            after = (rows[-1][1], rows[-1][0])
        left = {reason: count for reason, count in reasons.items() if count}
        return Redriven(moved=moved, skipped=sum(left.values()), reasons=left)

    async def leased(self, topic: Topic, *, all_messages: bool) -> int:
        """How many messages are with a consumer: dead letters from other topics, or all."""
        params = {"topic_id": topic.topic_id, "now_ms": self._clock.now_ms(), "all_messages": all_messages}
        return int((await self._statements.run(self._sql["leased"], params))[0][0])

    async def _send(
        self, connection: Connection, topic: Topic, to: Topic, going: Sequence[_Going], now_ms: int
    ) -> list[Due]:
        new_ids = texts([one.new_id for one in going])
        await rows_of(connection, self._sql["drop_forgotten"], {"to_topic": to.topic_id, "new_ids": new_ids})
        buckets = {one.new_id: bucket_of(one.new_id, to.settings.bucket_count) for one in going}
        params = {
            "topic_id": topic.topic_id,
            "to_topic": to.topic_id,
            "now_ms": now_ms,
            "ids": texts([one.id for one in going]),
            "new_ids": new_ids,
            "buckets": int4s(list(buckets.values())),
            "bodies": byte_strings([one.body for one in going]),
        }
        rows = await rows_of(connection, self._sql["send_back"], params)
        return [Due(row[0], 1, buckets[row[0]], now_ms) for row in rows]


def _going(rows: Rows, rewrite: Rewrite) -> tuple[list[_Going], int]:
    """Those that can go, and how many cannot because another one of them goes under the same id."""
    rewritten = [(row[0], new) for row in rows if (new := rewrite(row[0], row[3]) if row[2] else None)]
    by_new_id = {new[0]: _Going(id, *new) for id, new in reversed(rewritten)}
    return sorted(by_new_id.values(), key=lambda one: one.id), len(rewritten) - len(by_new_id)
