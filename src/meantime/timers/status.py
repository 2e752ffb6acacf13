"""How timers are: the last report of each process, put together, watched and exported."""

import asyncio
from collections import Counter
from contextlib import suppress

import msgspec
import structlog
from prometheus_client import Gauge

from meantime.clock import Clock
from meantime.coordination.election import Election
from meantime.coordination.session import Session
from meantime.errors import CoordinationLost, StorageUnavailable
from meantime.metrics import REGISTRY
from meantime.timers.lateness import BOUNDS_MS, CallbackCounts, quantile
from meantime.timers.ledger.store import LedgerStore
from meantime.timers.meters import DISPATCHERS
from meantime.timers.reports import (
    DispatcherReport,
    FuturesReport,
    LedgerReport,
    OscillatorReport,
    Reported,
)

log = structlog.get_logger(__name__)

ALIVE_FOR_MS = 6_000
SILENT_AFTER_MS = 5_000
WATCH_EVERY = 5.0

AGE = Gauge("meantime_timers_oscillator_age_seconds", "Time since the last tick was written.", registry=REGISTRY)
BATCH = Gauge("meantime_timers_futures_batch_seconds", "Time of the last micro-batch.", registry=REGISTRY)
ROWS = Gauge("meantime_timers_futures_state_rows", "Rows that the Spark job keeps.", registry=REGISTRY)
SILENT = Gauge("meantime_timers_futures_age_seconds", "Time since the last micro-batch.", registry=REGISTRY)
LAG = Gauge("meantime_timers_futures_lag", "Requests that the Spark job has not taken in.", registry=REGISTRY)
HELD = Gauge("meantime_timers_held", "Timers that dispatchers hold.", registry=REGISTRY)
LEDGER = Gauge("meantime_timers_ledger", "The ledger's sums.", ["account"], registry=REGISTRY)


class OscillatorStatus(msgspec.Struct, frozen=True):
    leader: str | None = None
    last_tick: int | None = None
    age_ms: int | None = None
    lead_s: int | None = None


class FuturesStatus(msgspec.Struct, frozen=True):
    batch_ms: int | None = None
    state_rows: int | None = None
    lag: int | None = None
    age_ms: int | None = None


class LatenessBucket(msgspec.Struct, frozen=True):
    """Callbacks that were at most `le_ms` late, and later than the bucket before; null is no bound."""

    le_ms: int | None
    count: int


class LatenessStatus(msgspec.Struct, frozen=True):
    """`p50` and `p99` of the last minute; `histogram` since these dispatchers began."""

    p50: int
    p99: int
    histogram: tuple[LatenessBucket, ...] = ()


class DispatcherStatus(msgspec.Struct, frozen=True):
    """`callbacks`: how many there were since these dispatchers began, by topic; topics beyond the first few are `other`."""

    instances: int
    held: int
    lateness_ms: LatenessStatus
    callbacks: dict[str, int] = {}


class LedgerStatus(msgspec.Struct, frozen=True):
    """`overdue`: pending timers that should have ended minutes ago; `lag`: records that are not booked yet."""

    requested: int
    fired: int
    cancelled: int
    rejected: int
    pending: int
    difference: int
    overdue: int
    lag: int | None


class TimersStatus(msgspec.Struct, frozen=True):
    oscillator: OscillatorStatus
    futures: FuturesStatus
    dispatcher: DispatcherStatus
    ledger: LedgerStatus


def alarms(status: TimersStatus) -> list[str]:
    """What somebody should look at."""
    found = []
    if status.oscillator.age_ms is not None and status.oscillator.age_ms > SILENT_AFTER_MS:
        found.append(f"the oscillator has been silent for {status.oscillator.age_ms // 1000} s")
    if status.ledger.difference:
        found.append(f"the ledger differs by {status.ledger.difference}")
    if status.ledger.overdue:
        found.append(f"{status.ledger.overdue} timers are overdue")
    return found


class TimersMonitor:
    def __init__(self, store: LedgerStore, session: Session, election: str, clock: Clock) -> None:
        self._store = store
        self._election = Election(session, election, "")
        self._clock = clock
        self._alarms: list[str] = []

    async def run(self) -> None:
        """Export metrics and log alarms, for ever."""
        while True:
            with suppress(StorageUnavailable):
                status = await self.status()
                export(status)
                self._log_alarms(alarms(status))
            await asyncio.sleep(WATCH_EVERY)

    async def status(self) -> TimersStatus:
        now_ms = self._clock.now_ms()
        totals, overdue = await self._store.totals(now_ms)
        booking = await self._store.reports(LedgerReport, now_ms - ALIVE_FOR_MS)
        dispatchers = await self._store.reports(DispatcherReport, now_ms - ALIVE_FOR_MS)
        DISPATCHERS.measured(dispatchers)
        lag = sum(reported.report.lag for reported in booking if isinstance(reported.report, LedgerReport))
        return TimersStatus(
            oscillator=await self._oscillator(now_ms),
            futures=_futures(await self._store.reports(FuturesReport, 0), now_ms),
            dispatcher=_dispatchers(dispatchers),
            ledger=LedgerStatus(
                totals.requested,
                totals.fired,
                totals.cancelled,
                totals.rejected,
                totals.pending,
                totals.difference,
                overdue,
                lag if booking else None,
            ),
        )

    async def _oscillator(self, now_ms: int) -> OscillatorStatus:
        reports = await self._store.reports(OscillatorReport, 0)
        leader = None
        with suppress(CoordinationLost):
            leader = await self._election.leader()
        if not reports or not isinstance(reports[0].report, OscillatorReport):
            return OscillatorStatus(leader)
        last = reports[0].report
        return OscillatorStatus(leader, last.last_tick, max(0, now_ms - last.written_at_ms), last.lead_s)

    def _log_alarms(self, found: list[str]) -> None:
        """Once when it begins, once when it is over."""
        if found and not self._alarms:
            log.error("timers_alarm", alarms=found)
        elif self._alarms and not found:
            log.info("timers_alarm_over")
        self._alarms = found


def _futures(reports: list[Reported], now_ms: int) -> FuturesStatus:
    if not reports or not isinstance(reports[0].report, FuturesReport):
        return FuturesStatus()
    last = reports[0].report
    return FuturesStatus(last.batch_ms, last.state_rows, last.lag, max(0, now_ms - reports[0].at_ms))


def _dispatchers(reports: list[Reported]) -> DispatcherStatus:
    found = [reported.report for reported in reports if isinstance(reported.report, DispatcherReport)]
    late: Counter[int] = Counter()
    for report in found:
        late.update(report.lateness_ms)
    lateness = LatenessStatus(quantile(late, 0.5), quantile(late, 0.99), _histogram(found))
    callbacks = CallbackCounts()
    for report in found:
        callbacks.add(report.callbacks)
    return DispatcherStatus(len(found), sum(report.held for report in found), lateness, callbacks.counts())


def _histogram(reports: list[DispatcherReport]) -> tuple[LatenessBucket, ...]:
    bounds = (*BOUNDS_MS, None)
    whole = [report.late_buckets for report in reports if len(report.late_buckets) == len(bounds)]
    counts = [sum(each) for each in zip(*whole, strict=True)] or [0] * len(bounds)
    return tuple(LatenessBucket(bound, count) for bound, count in zip(bounds, counts, strict=True))


def export(status: TimersStatus) -> None:
    """As metrics of this node."""
    AGE.set((status.oscillator.age_ms or 0) / 1000)
    BATCH.set((status.futures.batch_ms or 0) / 1000)
    ROWS.set(status.futures.state_rows or 0)
    SILENT.set((status.futures.age_ms or 0) / 1000)
    LAG.set(status.futures.lag or 0)
    HELD.set(status.dispatcher.held)
    for account, amount in msgspec.structs.asdict(status.ledger).items():
        LEDGER.labels(account).set(amount or 0)
