"""The ledger: reads what was asked for and how it ended, and keeps the account of both.

    timer-request ──► requested, cancelled in time, rejected unread ──┐
                                                                       ├──► one PostgreSQL transaction, with the places read
    timer-done ─────► fired, cancelled, rejected ─────────────────────┘

The invariant: what is in the tables is exactly what was read up to the places in the tables. Two ledgers may read the same
by mistake; the one that comes second changes nothing. It also refuses requests whose message cannot be opened: the Spark job
does not look inside. They go to `timer-rejected` before this is written down, so they may go there twice after a crash.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from meantime.timers.ledger.store import LedgerStore, Place
from meantime.timers.model import (
    CancelRequest,
    Record,
    RefusedRequest,
    SetRequest,
    TimerId,
    TimerLimits,
    TimerOutcomes,
    TimerState,
)
from meantime.timers.rules import in_time, read

Account = dict[TimerId, int | None]


@dataclass(slots=True)
class LedgerBatch:
    """What one reading of Kafka amounts to."""

    requested: Account = field(default_factory=dict)
    cancelled: Account = field(default_factory=dict)
    refused: dict[str, Account] = field(default_factory=dict)
    """By the reason."""
    rejected: list[tuple[Record, str]] = field(default_factory=list)
    """Requests to be put into `timer-rejected`, with the reason."""
    ended: list[tuple[TimerState, str, Account]] = field(default_factory=list)
    """How, why, and which."""
    places: dict[Place, tuple[int, int]] = field(default_factory=dict)
    """From where to where each partition was read."""

    def note_request(self, record: Record, limits: TimerLimits) -> None:
        match read(record, limits):
            case SetRequest(token, second):
                self.requested[TimerId(token, second)] = None
            case CancelRequest(token, second, requested_ms):
                if in_time(second, requested_ms):
                    self.cancelled[TimerId(token, second)] = None
            case RefusedRequest(token, second, reason, opaque):
                self.refused.setdefault(reason, {})[TimerId(token, second)] = None
                if opaque:
                    self.rejected.append((record, reason))

    def note_outcomes(self, outcomes: TimerOutcomes) -> None:
        if outcomes.state is TimerState.ATTEMPTED:
            return
        for second, tokens in outcomes.timers:
            for token in tokens:
                self._end(outcomes, TimerId(token, second))

    def note_place(self, place: Place, offset: int, next_offset: int) -> None:
        first, _ = self.places.get(place, (offset, 0))
        self.places[place] = first, next_offset

    def _end(self, outcomes: TimerOutcomes, timer: TimerId) -> None:
        """A timer that ends twice is counted twice, so it goes into another account."""
        for state, reason, account in self.ended:
            if state is outcomes.state and reason == outcomes.reason and timer not in account:
                account[timer] = outcomes.at_ms
                return
        self.ended.append((outcomes.state, outcomes.reason, {timer: outcomes.at_ms}))


class LedgerWriter:
    def __init__(self, store: LedgerStore) -> None:
        self._store = store

    async def write(self, batch: LedgerBatch) -> None:
        """All of it or, when another ledger was faster (`Conflict`), nothing."""
        async with self._store.writing() as connection:
            for place, (offset, next_offset) in sorted(batch.places.items()):
                await self._store.advance(connection, place, offset, next_offset)
            for state, reason, account in self._accounts(batch):
                await self._store.apply(connection, state, account, reason or None)

    @staticmethod
    def _accounts(batch: LedgerBatch) -> Iterable[tuple[TimerState, str, Mapping[TimerId, int | None]]]:
        yield TimerState.PENDING, "", batch.requested
        for reason, account in batch.refused.items():
            yield TimerState.REJECTED, reason, account
        yield TimerState.VOID, "", batch.cancelled
        yield from batch.ended
