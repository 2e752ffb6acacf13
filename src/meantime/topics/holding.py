"""What holders of leases do: extend, release and delete, each claim with the version that they believe in.

Only the present holder, with the present version, before its lease ends: everything else is refused and changes nothing.
Whoever has deleted a message and asks again hears that it is done, for as long as the topic remembers it.
"""

from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from meantime.clock import Clock
from meantime.database.statements import Rows
from meantime.topics import rules
from meantime.topics.instants import Instants
from meantime.topics.merging import Merger
from meantime.topics.meters import METERS
from meantime.topics.model import Due, LeaseClaim, MessageStage, Outcome, Position, RetryPolicy, Topic
from meantime.topics.producing import OnArrival
from meantime.topics.settling import key_of, settle
from meantime.topics.storage.messages import NO_VERSION, HolderRow, Key, MessageStore

_NO_INSTANT = 0
_DONE_ALREADY = "done"
_INT4 = 1 << 31


@dataclass(frozen=True, slots=True)
class Effects:
    """What follows from a decision of a holder."""

    arrived: OnArrival
    leases_changed: Callable[[int, str, Sequence[tuple[str, int | None]]], None]
    """Called with a topic, a consumer, and its leases that ended (None) or end at another instant now."""
    finished: Callable[[int, int], None]
    """Called with a topic and how many of its messages were deleted by their holders."""
    move_dead_letters: Callable[[], Awaitable[int]]
    """Returns when the dead are where they belong: their last holder finds them there."""


class Holding:
    def __init__(self, messages: MessageStore, clock: Clock, instants: Instants, effects: Effects) -> None:
        self._messages = messages
        self._clock = clock
        self._instants = instants
        self._effects = effects
        self._extensions: Merger[HolderRow, Outcome] = Merger(self._extend)
        self._releases: Merger[HolderRow, Outcome] = Merger(self._release)
        self._deletions: Merger[HolderRow, Outcome] = Merger(self._delete)

    async def extend(self, topic: Topic, consumer_id: str, claims: Sequence[LeaseClaim]) -> list[Outcome]:
        """Let leases end at another instant, later or sooner."""
        return await self._extensions.submit(self._rows(topic, consumer_id, claims, topic.settings.max_lease_ms))

    async def release(self, topic: Topic, consumer_id: str, claims: Sequence[LeaseClaim]) -> list[Outcome]:
        """Give messages back: any consumer may lease them at another instant, or where none is given when the topic's retry
        policy says."""
        for claim in claims:
            rules.check_reason(claim.reason)
        retry = rules.retry_policy(topic.settings)
        return await self._releases.submit(self._rows(topic, consumer_id, claims, topic.settings.max_future_ms, retry))

    async def delete(self, topic: Topic, consumer_id: str, claims: Sequence[LeaseClaim]) -> list[Outcome]:
        """These messages are done."""
        return await self._deletions.submit([_row(topic, consumer_id, claim, _NO_INSTANT) for claim in claims])

    def _rows(
        self,
        topic: Topic,
        consumer_id: str,
        claims: Sequence[LeaseClaim],
        limit_ms: int,
        retry: RetryPolicy | None = None,
    ) -> list[HolderRow]:
        """With the instants that are asked for, at most `limit_ms` ahead, or with the policy where none is."""
        relative = any(claim.after_ms is not None or (retry is not None and claim.at_ms is None) for claim in claims)
        now_ms = self._instants.now_ms(relative=relative)
        return [
            _row(topic, consumer_id, claim, _NO_INSTANT, retry)
            if retry is not None and claim.at_ms is None and claim.after_ms is None
            else _row(topic, consumer_id, claim, rules.consumer_instant(claim.at_ms, claim.after_ms, limit_ms, now_ms))
            for claim in claims
        ]

    async def _extend(self, rows: Sequence[HolderRow]) -> list[Outcome]:
        return await settle(self._messages, self._clock, rows, self._apply_extend, _explain_instant)

    async def _apply_extend(self, rows: Sequence[HolderRow], now_ms: int) -> dict[Key, Outcome]:
        timely = [row for row in rows if row.at_ms != _NO_INSTANT]
        changed = await self._messages.extend(timely, now_ms) if timely else []
        self._report(timely, {(row[0], row[1]): row[3] for row in changed})
        return _done(changed)

    async def _release(self, rows: Sequence[HolderRow]) -> list[Outcome]:
        return await settle(self._messages, self._clock, rows, self._apply_release, _explain_instant)

    async def _apply_release(self, rows: Sequence[HolderRow], now_ms: int) -> dict[Key, Outcome]:
        timely = [row for row in rows if row.at_ms != _NO_INSTANT or row.retry is not None]
        changed = await self._messages.release(timely, now_ms) if timely else []
        self._report(timely, {(row[0], row[1]): None for row in changed})
        for topic_id, message_id, version, at_ms, stage in changed:
            if stage == MessageStage.OPEN:
                self._effects.arrived(topic_id, [Due(message_id, version, 0, at_ms)])
        if any(row[4] == MessageStage.LAST for row in changed):
            await self._effects.move_dead_letters()
        return _done(changed)

    async def _delete(self, rows: Sequence[HolderRow]) -> list[Outcome]:
        outcomes = await settle(self._messages, self._clock, rows, self._apply_delete, _explain_delete)
        return [Outcome(one.id, rules.OK) if one.status == _DONE_ALREADY else one for one in outcomes]

    async def _apply_delete(self, rows: Sequence[HolderRow], now_ms: int) -> dict[Key, Outcome]:
        deleted = await self._messages.delete_held(rows, now_ms)
        self._report(rows, dict.fromkeys(deleted))
        for topic_id, done in Counter(key[0] for key in deleted).items():
            METERS.of(topic_id).deleted += done
            self._effects.finished(topic_id, done)
        return {key: Outcome(key[1], rules.OK) for key in deleted}

    def _report(self, rows: Sequence[HolderRow], changed: dict[Key, int | None]) -> None:
        ends: dict[tuple[int, str], list[tuple[str, int | None]]] = {}
        for row in rows:
            key = key_of(row)
            if key in changed:
                ends.setdefault((row.topic_id, row.consumer_id), []).append((row.id, changed[key]))
        for (topic_id, consumer_id), leases in ends.items():
            self._effects.leases_changed(topic_id, consumer_id, leases)


def _row(
    topic: Topic, consumer_id: str, claim: LeaseClaim, at_ms: int | None, retry: RetryPolicy | None = None
) -> HolderRow:
    version = claim.version if claim.version is not None and 0 < claim.version < _INT4 else NO_VERSION
    at_ms = at_ms if at_ms is not None else _NO_INSTANT
    dedupe_ms = topic.settings.dedupe_ms
    return HolderRow(topic.topic_id, claim.id, version, consumer_id, at_ms, dedupe_ms, retry, claim.reason or "")


def _explain(row: HolderRow, position: Position | None, now_ms: int) -> str:
    return rules.judge_holder(position, row.consumer_id, row.version, now_ms)


def _explain_delete(row: HolderRow, position: Position | None, now_ms: int) -> str:
    if position and rules.deleted_by(position, row.consumer_id, row.version):
        return _DONE_ALREADY
    return _explain(row, position, now_ms)


def _explain_instant(row: HolderRow, position: Position | None, now_ms: int) -> str:
    reason = _explain(row, position, now_ms)
    return rules.INVALID_TIME if reason == rules.OK and row.at_ms == _NO_INSTANT and row.retry is None else reason


def _done(rows: Rows) -> dict[Key, Outcome]:
    return {(row[0], row[1]): Outcome(row[1], rules.OK, row[2], row[3]) for row in rows}
