"""The dispatcher: takes timers in, holds each until its second, fires it, and records how it ended.

One thread runs it, in steps that never wait longer than the next second allows. A step fires what is due, or loads what will
be due in the next moment, so that it is ready at its second; only when there is nothing to fire, it takes in what has
arrived. `held_timers` decides, `transaction` writes to Kafka, `background_work` does what takes time.
"""

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain
from threading import Event

import structlog

from meantime.clock import Clock
from meantime.timers.dispatching import pacing
from meantime.timers.dispatching.background_work import BackgroundWork, WorkResult
from meantime.timers.dispatching.consumers import DueConsumer, RequestConsumer, RequestFilter
from meantime.timers.dispatching.delivery import CallbackTopics, TimerDelivery
from meantime.timers.dispatching.dispatcher_options import DispatcherOptions
from meantime.timers.dispatching.done_consumer import DoneConsumer
from meantime.timers.dispatching.ended_timers import PERMITTED_FOR
from meantime.timers.dispatching.event_attempts import EventAttempts
from meantime.timers.dispatching.grouping import by_share
from meantime.timers.dispatching.held_timers import HeldTimers, Span
from meantime.timers.dispatching.request_coverage import CancelsAheadOfJoin, far_from
from meantime.timers.dispatching.transaction import FiredTimers, FiringTransaction, OutcomeBatch, TransactionAborted
from meantime.timers.lateness import CallbackCounts, LatenessCounts
from meantime.timers.model import CancelRequest, Record, SetRequest
from meantime.timers.reports import DispatcherReport
from meantime.timers.rules import IN_TIME_MS, OWNED_TOPIC, event_type_of, missing_topic, read, read_due, set_by, share_of
from meantime.timers.topics import DUE, REQUEST

log = structlog.get_logger(__name__)

ASKED_LATER_MS = 100
"""A cancel that Kafka had in time must be before the end that is asked for. Its clock may be behind, and between looking at
it and writing a record it may have to wait for a processor."""
COMMIT_EVERY = 3.0
PARTITIONS_EVERY = 2.0


@dataclass(frozen=True, slots=True)
class DispatcherClients:
    """Everything of Kafka that a dispatcher uses."""

    due: DueConsumer
    requests: RequestConsumer
    done: DoneConsumer
    transaction: FiringTransaction


class TimerDispatcher:
    def __init__(
        self,
        clients: DispatcherClients,
        background: BackgroundWork,
        topics: Callable[[], Mapping[str, int]],
        clock: Clock,
        options: DispatcherOptions,
    ) -> None:
        self._clients = clients
        self._background = background
        self._topics = CallbackTopics(topics)
        self._delivery = TimerDelivery(clients.transaction, self._topics)
        self._clock = clock
        self._options = options
        self._shares: dict[int, HeldTimers] = {}
        self._filter = RequestFilter(options.shares, self._shares.keys())
        self._attempts = EventAttempts(self._shares, background, clock)
        self._ended_from: dict[int, int] = {}
        self._leftover = OutcomeBatch()
        self._far = CancelsAheadOfJoin()
        self._lateness = LatenessCounts()
        self._callbacks = CallbackCounts()
        self._fired = 0
        self._housekeeping_at = self._committed_at = 0.0
        self._partitions_at = time.monotonic()
        self._follow_from: Mapping[int, int] | None = None
        self._near_s = options.near_s
        self.report = DispatcherReport()

    def run(self, stop: Event) -> None:
        """Until `stop` is set; whatever goes wrong for good is raised, and the supervisor starts another dispatcher."""
        self._clients.transaction.open()
        self._follow_requests(self._background.through)
        self._clients.due.subscribe(self._begin, self._leave)
        while not stop.is_set():
            self.step()

    def step(self) -> None:
        self._take_results()
        now_ms = self._clock.now_ms()
        if self._follow_from is not None:
            self._follow_requests(self._follow_from)
        if self._fire_due(now_ms, self._clients.requests.covered_until()):
            return
        self._housekeeping(now_ms)
        busy = self._take_due(now_ms)
        self._take_requests(0.0 if busy else pacing.pause(self._left_ms(now_ms), self._longest_pause(now_ms)))

    def _follow_requests(self, through: Mapping[int, int]) -> None:
        """From where the Spark job stands: what has come through it lies in `timer-due`."""
        self._follow_from = None
        now_ms = self._clock.now_ms()
        self._release_cancels(now_ms, through)
        self._far = CancelsAheadOfJoin()
        self._clients.requests.start(self._topics.partitions(REQUEST), through, now_ms - self._options.look_back_ms)

    # Partitions come and go

    def _begin(self, number: int) -> int | None:
        if number >= self._options.shares:
            log.warning("partition_left_unused", topic=DUE, partition=number, shares=self._options.shares)
            return None
        # Its cancels and near timers were another dispatcher's to remember, until now. Where the Spark job stands is looked
        # up before the end of `timer-due` is: what comes through in between is read by both ways, and not by neither.
        self._follow_from = self._background.through if self._follow_from is None else self._follow_from
        start, end = self._clients.due.span(number)
        now_ms = self._clock.now_ms()
        ended_timers, place = self._clients.done.rebuild(number, self._options.remember_ms, now_ms)
        self._ended_from[number] = place
        self._shares[number] = HeldTimers(number, ended_timers, Span(start, end, now_ms))
        log.info("share_taken", share=number, offset=start, remembered=len(ended_timers))
        return start

    def _leave(self, number: int) -> None:
        """Whatever of it is under way is somebody else's now."""
        self._shares.pop(number, None)
        self._background.give_up(number)
        self._leftover = self._leftover.without(number)
        log.info("share_left", share=number)

    # Arriving

    def _take_due(self, now_ms: int) -> bool:
        """Whether there was something."""
        records = self._clients.due.poll(500)
        for record in records:
            share = self._shares.get(record.partition)
            if share is None:
                continue
            timer = set_by(record)
            if timer is not None and share.arrives_again(timer, record.offset):
                continue
            match read_due(record, self._options.limits):
                case SetRequest() as request:
                    share.set(request, now_ms, record.offset)
                case CancelRequest() as request:
                    share.cancel(request, now_ms, record.offset)
                case _:
                    share.drop(record.offset)
        return bool(records)

    def _take_requests(self, wait_for: float) -> None:
        """Follow `timer-request` for cancels and for timers that are near, which have no time to lose. All of them come
        through the Spark job as well, which does not forget; one that has been read here is known by then."""
        room = pacing.room(self._left_ms(self._clock.now_ms()))
        for messages in self._clients.requests.poll(room, wait_for):
            now_ms = self._clock.now_ms()
            near = now_ms // 1000 + self._near_s
            for record in self._filter.records(messages, near):
                self._take_request(record, near, now_ms)

    def _take_request(self, record: Record, near: int, now_ms: int) -> None:
        request = read(record, self._options.limits)
        share = self._shares.get(share_of(request.token, self._options.shares))
        if share is None:
            return
        match request:
            case SetRequest() if request.second <= near:
                share.set(request, now_ms)
            case CancelRequest():
                share.cancel(request, now_ms)
                self._far.append(record.partition, record.offset, request)

    def _release_cancels(self, now_ms: int, through: Mapping[int, int]) -> None:
        """Cancels that come through the Spark job come with their timers, so they need not be kept for ever."""
        far = far_from(now_ms, self._options.near_s)
        for cancel in self._far.taken_in(through):
            share = self._shares.get(share_of(cancel.token, self._options.shares))
            if share is not None:
                share.taken_in(cancel, now_ms, far=cancel.second > far)

    # Firing

    def _fire_due(self, now_ms: int, covered_ms: int) -> bool:
        until_ms = self._within_reach_ms(now_ms)
        batch, self._leftover = self._leftover, OutcomeBatch()
        for share in self._shares.values():
            while len(batch.fire) < self._options.most:
                fire, cancelled = share.pop_due(until_ms, covered_ms)
                if not fire and not cancelled:
                    break
                batch.fire += fire
                batch.cancelled += self._attempts.look_first(cancelled)
        if not batch:
            return False
        self._set_aside(batch)
        return self._deliver(batch)

    def _within_reach_ms(self, now_ms: int) -> int:
        """Up to which second timers are fired. The next one is loaded ahead when it is time, unless others wait already."""
        upcoming = self._next_second()
        if upcoming is None or self._leftover:
            return now_ms
        return upcoming * 1000 if now_ms >= self._loading_ms(upcoming) else now_ms

    def _loading_ms(self, upcoming: int) -> int:
        """When to begin to load the timers of a second."""
        return pacing.loading_ms(upcoming, sum(share.waiting(upcoming) for share in self._shares.values()))

    def _set_aside(self, batch: OutcomeBatch) -> None:
        """What goes to event types is published elsewhere; what has nowhere to go is refused."""
        adopted = self._options.adopted()
        topics = {held.future.topic for held in batch.fire}
        strange = {topic for topic in topics if topic not in self._topics or topic in adopted}
        if not strange:
            return
        events = {topic for topic in strange if event_type_of(topic) is not None}
        owned = {topic for topic in strange if topic in adopted}
        missing = self._topics.missing(strange - events - owned)
        batch.attempt += self._attempts.look_first([held for held in batch.fire if held.future.topic in events])
        batch.rejected += [(held, missing_topic(held.future.topic)) for held in batch.fire if held.future.topic in missing]
        batch.rejected += [(held, OWNED_TOPIC) for held in batch.fire if held.future.topic in owned]
        aside = events | missing | owned
        batch.fire = [held for held in batch.fire if held.future.topic not in aside]

    def _deliver(self, batch: OutcomeBatch) -> bool:
        """Whether all of it went out."""
        touched = {held.share for held in (*batch.ends, *batch.attempt)}
        positions = {number: self._shares[number].offsets.position for number in touched}
        publish_until = time.monotonic() + PERMITTED_FOR
        sent = self._delivery.send(batch, positions, self._clients.due.group())
        for part, fired in sent.done:
            self._ended(part, fired, positions)
            self._attempts.begin(part.attempt, publish_until)
        self._keep(sent.left)
        return not sent.left

    def _keep(self, left: OutcomeBatch) -> None:
        """Nothing of it was written. What was to fire may still be cancelled; all else is decided."""
        for number, timers in by_share(left.fire + left.attempt).items():
            self._shares[number].put_back(timers)
        for number, timers in by_share(left.cancelled).items():
            self._shares[number].mark_in_progress(timers)
        self._leftover.add(
            OutcomeBatch(cancelled=left.cancelled, rejected=left.rejected, fired_elsewhere=left.fired_elsewhere)
        )

    def _ended(self, batch: OutcomeBatch, fired: list[FiredTimers], positions: Mapping[int, int]) -> None:
        now_ms = self._clock.now_ms()
        for share, position in positions.items():
            self._shares[share].offsets.mark_committed(position)
        for number, timers in by_share(batch.ends).items():
            self._shares[number].end(timers, now_ms)
        self._callbacks.count(held.future.topic for held in chain(batch.fire, batch.fired_elsewhere))
        for one in fired:
            self._fired += len(one.timers)
            self._lateness.count([one.at_ms - max(held.second * 1000, held.requested_ms) for held in one.timers], one.at_ms)

    # Results of background work

    def _take_results(self) -> None:
        results = self._background.results()
        while results:
            self._apply(results.popleft())

    def _apply(self, results: WorkResult) -> None:
        """Timers of a share that has gone elsewhere in the meantime are somebody else's."""
        now_ms = self._clock.now_ms()
        for number, timers in by_share(results.go_on).items():
            with suppress(KeyError):
                self._shares[number].put_back(timers)
        for number, timers in by_share(results.ended).items():
            with suppress(KeyError):
                self._shares[number].end(timers, now_ms)
        self._attempts.take(results)
        self._leftover.cancelled += [held for held in results.cancelled if held.share in self._shares]
        self._leftover.fired_elsewhere += [held for held in results.published if held.share in self._shares]
        self._leftover.rejected += [(held, why) for held, why in results.refused if held.share in self._shares]

    # Housekeeping

    def _longest_pause(self, now_ms: int) -> float:
        """Requests end a pause when they come; all else that is waited for does not."""
        waits = self._clients.requests.asking or not self._shares
        waits = waits or any(share.unsettled(now_ms) for share in self._shares.values())
        return self._options.longest_pause if waits else self._options.idle_pause

    def _left_ms(self, now_ms: int) -> int | None:
        """How long there is nothing to load; None while nothing is held."""
        upcoming = self._next_second()
        return None if upcoming is None else self._loading_ms(upcoming) - now_ms

    def _next_second(self) -> int | None:
        seconds = (share.next_second() for share in self._shares.values())
        return min((second for second in seconds if second is not None), default=None)

    def _housekeeping(self, now_ms: int) -> None:
        self._ask_for_ends(now_ms)
        self._check_unverified()
        if time.monotonic() - self._housekeeping_at < 1.0:
            return
        self._housekeeping_at = time.monotonic()
        self._release_cancels(now_ms, self._background.through)
        self._look_for_partitions()
        for share in self._shares.values():
            share.expire(now_ms, self._options.remember_ms)
        self._remind_of_attempts()
        self._commit_positions()
        held_bytes = sum(share.held_bytes for share in self._shares.values())
        room = held_bytes < self._options.most_held_bytes
        self._near_s = self._options.near_s if room else self._options.lead_s + 2
        self.report = DispatcherReport(
            tuple(sorted(self._shares)),
            sum(share.held for share in self._shares.values()),
            sum(len(share.ended_timers) for share in self._shares.values()),
            self._fired,
            self._lateness.counts(now_ms),
            self._callbacks.counts(),
            tuple(self._lateness.buckets),
            self._lateness.total_ms,
        )

    def _look_for_partitions(self) -> None:
        """Partitions that were added to `timer-request` are followed like the others. Those who write there look for them
        less often."""
        if time.monotonic() - self._partitions_at < PARTITIONS_EVERY:
            return
        self._partitions_at = time.monotonic()
        if self._clients.requests.has_grown():
            log.info("partitions_added", topic=REQUEST, before=self._clients.requests.partitions)
            self._follow_from = self._background.through

    def _ask_for_ends(self, now_ms: int) -> None:
        """Once for each second: what Kafka has by then of cancels has to be read before its timers fire."""
        upcoming = self._next_second()
        if upcoming is None:
            return
        in_time_ms = upcoming * 1000 - IN_TIME_MS + ASKED_LATER_MS
        if now_ms >= in_time_ms:
            self._clients.requests.ask_for_ends(now_ms, in_time_ms)

    def _check_unverified(self) -> None:
        for number, share in self._shares.items():
            unverified = share.pop_unverified()
            if unverified:
                self._background.check(unverified, self._clients.requests.coverage.reached, self._ended_from[number])

    def _remind_of_attempts(self) -> None:
        open = self._attempts.reminder()
        positions = {number: self._shares[number].offsets.position for number in by_share(open)}
        with suppress(TransactionAborted):  # the next reminder comes soon enough
            if open:
                self._clients.transaction.fire(OutcomeBatch(reminded=open), positions, self._clients.due.group())

    def _commit_positions(self) -> None:
        """What ended without a transaction of its own moves the positions on, too. The next one that fires commits them as
        well."""
        if time.monotonic() - self._committed_at < COMMIT_EVERY:
            return
        self._committed_at = time.monotonic()
        moved = {number: share.offsets.position for number, share in self._shares.items() if share.offsets.moved}
        if not moved:
            return
        try:
            self._clients.transaction.fire(OutcomeBatch(), moved, self._clients.due.group())
        except TransactionAborted as error:
            log.info("positions_not_committed", error=str(error))
            return
        for number, position in moved.items():
            self._shares[number].offsets.mark_committed(position)
