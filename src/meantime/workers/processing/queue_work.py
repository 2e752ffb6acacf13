"""The work on one queue: message after message, each recorded when its job has returned.

    waiting for a message ──► job ──► recorded ──► waiting …          in order, one at a time
                               └────► failed ──► passed on or blocking, then recorded

It ends after the present message when it is stopped, at once when the queue is lost, and for good when the job raises
`StopWorker`; what was not recorded is processed again by the next owner of the queue.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import structlog

from meantime.errors import CorruptRecord, MeantimeError
from meantime.pulse import Pulse
from meantime.tasks import start
from meantime.workers.app import Job, Message, Retry, StopWorker
from meantime.workers.balancing.claims import ClaimEnded, QueueClaim
from meantime.workers.meters import FAILED, TALLIES
from meantime.workers.processing.feed import QueueFeeds
from meantime.workers.processing.gate import JobGate
from meantime.workers.processing.inbox import Inbox
from meantime.workers.processing.job import JobExecution
from meantime.workers.rules import instant_of, last_of

log = structlog.get_logger(__name__)

PATIENT = Retry(attempts=1, delay=1.0, factor=2.0, most=60.0)
"""How a blocking job is tried again if it does not say."""
AGAIN_AFTER = 1.0


class Failures(Protocol):
    """Where messages go that a job has failed on; see `failures`."""

    async def pass_on(self, job: Job, message: Message, error: BaseException) -> None:
        """Returns when the message is stored there."""


@dataclass(frozen=True, slots=True)
class QueueTools:
    """What the queues of a worker share."""

    gate: JobGate
    feeds: QueueFeeds
    execution: JobExecution
    failures: Failures
    stop_worker: Callable[[str], None]


class QueueWork:
    """Fulfils `balancer.Work`."""

    def __init__(self, claim: QueueClaim, job: Job, tools: QueueTools, ended: Callable[[], None]) -> None:
        self.claim = claim
        self.inbox = self._new_inbox(claim)
        self.done = False
        self._job = job
        self._tools = tools
        self._ended = ended
        self._stopping = False
        self._pulse = Pulse()
        self._unrecorded: Message | None = None
        self._unrecorded_count = 0
        self._tally = TALLIES.of(job.event_type)
        self._task = start(self._run(), name=f"queue {claim.queue}")

    def stop(self) -> None:
        self._stopping = True
        self._pulse.beat()

    def wake(self) -> None:
        self._pulse.beat()

    def abandon(self) -> None:
        self._task.cancel()

    async def _run(self) -> None:
        self._tools.gate.subscribe(self.wake)
        try:
            await self._work_off()
        except ClaimEnded as end:
            log.warning("queue_lost", queue=self.claim.queue, detail=str(end))
        except CorruptRecord as error:
            log.error("queue_unreadable", queue=self.claim.queue, detail=error.detail)
        except StopWorker as stop:
            self._tools.stop_worker(str(stop))
        except Exception:
            log.exception("queue_failed", queue=self.claim.queue)
        finally:
            self._tools.gate.unsubscribe(self.wake)
            self.inbox.close()
            self.done = True
            self._ended()

    async def _work_off(self) -> None:
        while await self._may_go_on():
            seen = self._pulse.count
            messages = self.inbox.take(self._job.most)
            if messages:
                await self._handle(messages)
            elif self._unrecorded:
                await self._record()
            else:
                await self._pulse.beyond(seen)
        await self._record()

    async def _may_go_on(self) -> bool:
        """Wait until a message may be taken; False when it is time to stop."""
        while not self._stopping:
            seen = self._pulse.count
            if self.claim.stale and await self.claim.refresh() is False:
                self._start_over()
            if self._tools.gate.open and not self.claim.record.paused:
                return True
            await self._pulse.beyond(seen)
        return False

    # Jobs

    async def _handle(self, messages: list[Message]) -> None:
        if self._job.on_error == "block":
            if not await self._insist(messages):
                return
        elif (error := await self._attempt(messages)) and not await self._pass_on(messages, error):
            return
        self._tally.done += len(messages)
        self._unrecorded = messages[-1]
        self._unrecorded_count += len(messages)
        if self._unrecorded_count >= self._job.checkpoint_every:
            await self._record()

    async def _attempt(self, messages: Sequence[Message]) -> BaseException | None:
        try:
            await self._tools.execution.attempt(self._job, messages)
        except StopWorker:
            # What came before is done and may be recorded; this message is not.
            await self._record()
            raise
        except (Exception, SystemExit, asyncio.CancelledError) as error:
            if isinstance(error, asyncio.CancelledError) and self._task.cancelling():
                raise
            FAILED.labels(self._job.event_type).inc()
            log.warning(
                "job_failed",
                job=self._job.name,
                event_type=self._job.event_type,
                partition=messages[0].partition,
                cursor=messages[0].cursor,
                attempt=messages[0].attempt,
                error=f"{type(error).__name__}: {error}",
                exc_info=error,
            )
            return error
        return None

    async def _insist(self, messages: list[Message]) -> bool:
        """Try until it works; False when the queue has to be given up, or was reset, before."""
        retry = self._job.retry or PATIENT
        attempt = 1
        while await self._attempt(messages) is not None:
            await self._record()
            if not await self._wait(retry.delay_after(attempt)):
                return False
            attempt += 1
            messages = [_as_attempt(message, attempt) for message in messages]
        return True

    async def _wait(self, seconds: float) -> bool:
        """Wait before the next attempt; False when the message is not to be tried again here."""
        until = asyncio.get_running_loop().time() + seconds
        position = self.claim.record
        while await self._may_go_on():
            seen = self._pulse.count
            left = until - asyncio.get_running_loop().time()
            if not self.claim.record.same_position(position):
                return False
            if left <= 0:
                return True
            await self._pulse.beyond(seen, left)
        return False

    async def _pass_on(self, messages: Sequence[Message], error: BaseException) -> bool:
        """The queue waits until the failed messages are stored elsewhere; False when it has to be given up before."""
        for message in messages:
            while True:
                try:
                    await self._tools.failures.pass_on(self._job, message, error)
                    break
                except MeantimeError as trouble:
                    log.error("failed_message_not_stored", cursor=message.cursor, detail=trouble.detail)
                if self._stopping:
                    return False
                await self._pulse.beyond(self._pulse.count, AGAIN_AFTER)
        return True

    # Position

    async def _record(self) -> None:
        message, self._unrecorded, self._unrecorded_count = self._unrecorded, None, 0
        if message is not None and not await self.claim.checkpoint(last_of(message.written_at_ms), message.cursor):
            self._start_over()

    def _start_over(self) -> None:
        """The position was changed from outside."""
        log.info("queue_reset", queue=self.claim.queue, cursor=self.claim.record.cursor or "the beginning")
        self._unrecorded, self._unrecorded_count = None, 0
        self.inbox.close()
        self.inbox = self._new_inbox(self.claim)
        self._tools.feeds.open([(self.claim.source, self.inbox)])

    def _new_inbox(self, claim: QueueClaim) -> Inbox:
        after = 0 if claim.record.cursor else instant_of(claim.record.last) or 0
        return Inbox(claim.record.cursor, self.wake, skip_before_ms=after)


def _as_attempt(message: Message, attempt: int) -> Message:
    return Message(message.event, message.event_type, message.partition, message.cursor, message.written_at_ms, attempt)
