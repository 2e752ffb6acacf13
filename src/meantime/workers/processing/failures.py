"""Where a job's retry is put: a message that its job has failed on goes to the topic `<app>.retry`, or to `<app>.dead`.

Every attempt is one message of the retry topic with an id made of queue, cursor and attempt. So a failure can be recorded
again after a crash without making a second retry: the next attempt is scheduled first, then the present one is deleted.
"""

import traceback

import msgspec
import structlog

from meantime.errors import Invalid, NotFound
from meantime.sdk.async_client import AsyncClient
from meantime.workers.app import Job, Message
from meantime.workers.letters import (
    LARGEST_BODY,
    DeadBody,
    PastAttempt,
    RetryBody,
    dead_topic,
    letter_id,
    retry_id,
    retry_topic,
)
from meantime.workers.meters import DEAD, RETRIED

log = structlog.get_logger(__name__)

LONGEST_TRACE = 16_000
LONGEST_ERROR = 2_000
LONGEST_HISTORY = 20


class FailedMessages:
    """Puts failed messages on the retry topic or on the dead-letter topic; fulfils `queue_work.Failures`."""

    def __init__(self, client: AsyncClient, app: str) -> None:
        self._client = client
        self._app = app

    async def pass_on(self, job: Job, message: Message, error: BaseException) -> None:
        await self.put(job, message, error, [])

    async def put(self, job: Job, message: Message, error: BaseException, history: list[PastAttempt]) -> None:
        """Schedule the next attempt if there is one, else make it a dead letter. Raises when it is not stored yet."""
        now_ms = round(self._client.now() * 1000)
        past = [*history, PastAttempt(message.attempt, _sentence(error), now_ms)][-LONGEST_HISTORY:]
        if job.retry and message.attempt < job.retry.attempts:
            await self._retry(job.retry.delay_after(message.attempt), message, past)
            RETRIED.labels(job.event_type).inc()
        else:
            await self._dead_letter(message, error, past)
            DEAD.labels(job.event_type).inc()

    async def ensure(self, topic: str) -> None:
        """Make the topic if it is not there."""
        try:
            await self._client.create_topic(topic, max_body_bytes=LARGEST_BODY)
        except Invalid:
            await self._client.create_topic(topic)

    async def _retry(self, delay: float, message: Message, history: list[PastAttempt]) -> None:
        body = RetryBody(
            event=message.event,
            event_type=message.event_type,
            partition=message.partition,
            cursor=message.cursor,
            written_at_ms=message.written_at_ms,
            attempt=message.attempt + 1,
            history=history,
        )
        id = retry_id(message.event_type, message.partition, message.cursor, body.attempt)
        await self._schedule(retry_topic(self._app), id, body, delay)

    async def _dead_letter(self, message: Message, error: BaseException, history: list[PastAttempt]) -> None:
        body = DeadBody(
            event=message.event,
            event_type=message.event_type,
            partition=message.partition,
            cursor=message.cursor,
            error=_sentence(error),
            traceback=_printable("".join(traceback.format_exception(error))[-LONGEST_TRACE:]),
            attempts=message.attempt,
            written_at_ms=message.written_at_ms,
            history=history,
        )
        id = letter_id(message.event_type, message.partition, message.cursor)
        await self._schedule(dead_topic(self._app), id, body, 0.0)
        log.error("dead_letter", event_type=message.event_type, cursor=message.cursor, error=body.error)

    async def _schedule(self, topic: str, id: str, body: msgspec.Struct, delay: float) -> None:
        document = msgspec.to_builtins(body)
        try:
            await self._client.schedule(topic, document, after=delay, id=id)
        except NotFound:
            await self.ensure(topic)
            await self._client.schedule(topic, document, after=delay, id=id)


def _sentence(error: BaseException) -> str:
    text = str(error)
    return _printable(f"{type(error).__name__}: {text}"[:LONGEST_ERROR] if text else type(error).__name__)


def _printable(text: str) -> str:
    """Without what JSON cannot carry."""
    return text.encode("utf-8", "replace").decode()
