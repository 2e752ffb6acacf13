"""The ledger: reads what was asked for and how it ended, and keeps the account of both.

    timer-request ──► requested, cancelled in time, rejected unread ──┐
                                                                       ├──► one PostgreSQL transaction, with the places read
    timer-done ─────► fired, cancelled, rejected ─────────────────────┘

The invariant: what is in the tables is exactly what was read up to the places in the tables. Two ledgers may read the same
by mistake; the one that comes second changes nothing. It also refuses requests whose message cannot be opened: the Spark job
does not look inside. That is said to `timer-rejected` before it is written down, so it may be said twice after a crash.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from meantime.timers.ledger.store import LedgerStore, Place
from meantime.timers.model import Bad, Cancel, Identity, Limits, Outcomes, Record, Set, State
from meantime.timers.rules import in_time, read

Account = dict[Identity, int | None]


@dataclass(slots=True)
class Batch:
    """What one reading of Kafka amounts to."""

    requested: Account = field(default_factory=dict)
    cancelled: Account = field(default_factory=dict)
    refused: Account = field(default_factory=dict)
    rejected: list[tuple[Record, str]] = field(default_factory=list)
    """Requests to be put into `timer-rejected`, with the reason."""
    ended: list[tuple[State, Account]] = field(default_factory=list)
    places: dict[Place, tuple[int, int]] = field(default_factory=dict)
    """From where to where each partition was read."""

    def note_request(self, record: Record, limits: Limits) -> None:
        match read(record, limits):
            case Set(token, second):
                self.requested[Identity(token, second)] = None
            case Cancel(token, second, requested_ms):
                if in_time(second, requested_ms):
                    self.cancelled[Identity(token, second)] = None
            case Bad(token, second, reason, opaque):
                self.refused[Identity(token, second)] = None
                if opaque:
                    self.rejected.append((record, reason))

    def note_outcomes(self, outcomes: Outcomes) -> None:
        if outcomes.state is State.ATTEMPTED:
            return
        at_ms = outcomes.at_ms if outcomes.state is State.FIRED else None
        for second, tokens in outcomes.timers:
            for token in tokens:
                self._end(outcomes.state, Identity(token, second), at_ms)

    def note_place(self, place: Place, offset: int, next_offset: int) -> None:
        first, _ = self.places.get(place, (offset, 0))
        self.places[place] = first, next_offset

    def _end(self, state: State, timer: Identity, at_ms: int | None) -> None:
        """A timer that ends twice is counted twice, so it goes into another account."""
        for known, account in self.ended:
            if known is state and timer not in account:
                account[timer] = at_ms
                return
        self.ended.append((state, {timer: at_ms}))


class Ledger:
    def __init__(self, store: LedgerStore) -> None:
        self._store = store

    async def write(self, batch: Batch) -> None:
        """All of it or, when another ledger was faster (`Conflict`), nothing."""
        async with self._store.writing() as connection:
            for place, (offset, next_offset) in sorted(batch.places.items()):
                await self._store.advance(connection, place, offset, next_offset)
            for state, account in self._accounts(batch):
                await self._store.apply(connection, state, account)

    @staticmethod
    def _accounts(batch: Batch) -> Iterable[tuple[State, Mapping[Identity, int | None]]]:
        yield State.PENDING, batch.requested
        yield State.REJECTED, batch.refused
        yield State.VOID, batch.cancelled
        yield from batch.ended
