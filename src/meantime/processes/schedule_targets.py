"""What schedules fire into: the place where they meet topics, timers and event types."""

from collections.abc import Sequence
from contextlib import suppress
from uuid import UUID, uuid5

import msgspec

from meantime.clock import rfc3339
from meantime.errors import UNREADABLE, AlreadyFired, Conflict, Invalid, NotFound, UnknownReference, UnknownTimer
from meantime.schedules.targets import ArrivedMessage, ScheduledTimer, TopicPlace
from meantime.streams.catalog.catalog import Catalog
from meantime.streams.model import UNDEFINED
from meantime.timers.model import Future, NewTimer, TimerId
from meantime.timers.requesting import TimerRequests
from meantime.timers.rules import EVENT_TYPE_PREFIX
from meantime.topics.meters import METERS
from meantime.topics.model import Due
from meantime.topics.rules import bucket_of, check_producer
from meantime.topics.topics import Topics

_EVENTS = UUID("6f1d6a51-2f4f-4c53-9d1b-6a1f6a0a4a4e")
"""Of the ids of events that schedules make: the same firing has the same."""


class TopicsOfSchedules:
    def __init__(self, topics: Topics) -> None:
        self._topics = topics

    async def find(self, topic: str) -> TopicPlace | None:
        try:
            found = await self._topics.catalog.get(topic)
        except NotFound:
            return None
        return TopicPlace(found.topic_id, found.settings.bucket_count, found.settings.max_body_bytes)

    def check_producer(self, topic: str, group: str) -> None:
        check_producer(topic, group)

    def bucket_of(self, message_id: str, bucket_count: int) -> int:
        return bucket_of(message_id, bucket_count)

    def arrived(self, topic_id: int, messages: Sequence[ArrivedMessage]) -> None:
        METERS.of(topic_id).created += len(messages)
        self._topics.arrived(topic_id, [Due(one.id, 1, one.bucket_id, one.at_ms) for one in messages])


class TimersOfSchedules:
    def __init__(self, requests: TimerRequests, catalog: Catalog) -> None:
        self._requests = requests
        self._catalog = catalog

    async def check(self, timer: ScheduledTimer) -> None:
        field = "target.event_type" if timer.target.event_type is not None else "target.kafka_topic"
        try:
            await self._requests.check(await self._timer(timer))
        except NotFound as error:
            raise UnknownReference(error.detail, field=field) from error
        except Invalid as error:
            body = error.extras.get("field") == "callback"
            raise Invalid(error.detail, field="body" if body else field) from error

    async def set(self, timers: Sequence[ScheduledTimer]) -> None:
        await self._requests.set_all([await self._timer(timer) for timer in timers])

    async def cancel(self, token: str, second: int) -> bool:
        try:
            await self._requests.cancel(token, second)
        except AlreadyFired:
            return False
        except UnknownTimer:
            return False  # its second has passed; whether it was ever set cannot be told any more
        except Conflict:
            return True  # it was rejected, and does not fire
        return True

    async def _timer(self, timer: ScheduledTimer) -> NewTimer:
        return NewTimer(TimerId(timer.token, timer.second), await self._future(timer))

    async def _future(self, timer: ScheduledTimer) -> Future:
        if timer.target.event_type is None:
            origin = {"schedule": timer.schedule_id, "schedule-version": timer.version, "schedule-at": timer.at_ms}
            headers = tuple(str(word) for pair in origin.items() for word in pair)
            return Future(timer.target.kafka_topic or "", timer.target.key or "", timer.body, headers)
        category = UNDEFINED
        with suppress(NotFound):
            category = (await self._catalog.for_publishing(timer.target.event_type)).event_type.category
        return Future(f"{EVENT_TYPE_PREFIX}{timer.target.event_type}", "", event_of(timer, category))


def event_of(timer: ScheduledTimer, category: str) -> bytes:
    """The body as an event: where events have metadata, it says which schedule has made it, and what every event needs and
    no template can give is filled in: an id, and when it happened."""
    if category == UNDEFINED:
        return timer.body
    try:
        event = msgspec.json.decode(timer.body)
    except UNREADABLE:
        return timer.body
    if not isinstance(event, dict) or not isinstance(event.setdefault("metadata", {}), dict):
        return timer.body
    needed = {"eid": str(uuid5(_EVENTS, timer.token)), "occurred_at": rfc3339(timer.at_ms)}
    origin = {"schedule": timer.schedule_id, "schedule_version": timer.version, "schedule_at": timer.at_ms}
    event["metadata"] = needed | event["metadata"] | origin
    return msgspec.json.encode(event)
