"""Whether there is what a timer is to call back, asked for before the timer is taken.

What can be known is refused at once: a Kafka topic or an event type that does not exist, an event that its event type would
not take. What nobody tells within a moment is taken as it is: setting a timer needs `timer-request` and nothing else. Why it
was rejected in the end can be looked up, as it can when a topic is deleted before its second.
"""

import asyncio
import time
from collections.abc import Collection

import structlog

from meantime.errors import Invalid, MeantimeError, NotFound, StorageUnavailable, UnknownReference
from meantime.kafka.admin import Admin
from meantime.kafka.settings import Storage
from meantime.names import EVENT_TYPE
from meantime.timers.options import EventCheck
from meantime.timers.request_parsing import NewTimers
from meantime.timers.rules import event_type_of, missing_topic

log = structlog.get_logger(__name__)

ASK_FOR = 2.0
KNOWN_FOR = 1.0
"""Seconds for which a topic is taken to be there. That there is none is asked for each time: it may just have been made."""
AGAIN_AFTER = 0.1
"""A broker may hear of a new topic a moment after its maker does."""
MOST_KNOWN = 10_000


class CallbackTargets:
    def __init__(self, events: EventCheck) -> None:
        self._events = events
        self._storage: Storage | None = None
        self._admin: Admin | None = None
        self._known: dict[str, float] = {}

    def connect(self, storage: Storage) -> None:
        """Where timers and their callback topics live."""
        self._storage, self._admin = storage, None

    async def check(self, asked: NewTimers) -> None:
        """Refuse all of them if there is anything wrong with one: the first such is named."""
        places: dict[str, list[int]] = {}
        for place, new in enumerate(asked.timers):
            places.setdefault(new.future.topic, []).append(place)
        events = {topic: event_type for topic in places if (event_type := event_type_of(topic)) is not None}
        faults: dict[int, MeantimeError] = {}
        for topic in await self._missing(places.keys() - events.keys()):
            faults[places[topic][0]] = NotFound(f"{missing_topic(topic)}{_hint(topic)}", field="callback_topic")
        for topic, event_type in events.items():
            fault = await self._events(event_type, [asked.timers[place] for place in places[topic]])
            if fault is not None:
                faults[places[topic][fault.place]] = fault.error
        if faults:
            place = min(faults)
            raise _of_entry(place, faults[place]) if asked.batch else faults[place]

    async def _missing(self, topics: Collection[str]) -> set[str]:
        """Those that do not exist, by all that Kafka says in time."""
        now = time.monotonic()
        unknown = {topic for topic in topics if self._known.get(topic, 0) <= now}
        if not unknown or self._storage is None:
            return set()
        try:
            async with asyncio.timeout(ASK_FOR):
                missing = await self._asked_for(unknown, self._storage)
        except (TimeoutError, StorageUnavailable):
            log.warning("callback_topics_unknown", topics=len(unknown), waited_for=round(time.monotonic() - now, 3))
            return set()
        self._remember(unknown - missing, now)
        return missing

    async def _asked_for(self, topics: set[str], storage: Storage) -> set[str]:
        if self._admin is None:
            self._admin = Admin(storage, timeout=ASK_FOR)
        missing = await self._admin.missing(topics)
        if not missing:
            return missing
        await asyncio.sleep(AGAIN_AFTER)
        return await self._admin.missing(missing)

    def _remember(self, topics: set[str], now: float) -> None:
        if len(self._known) + len(topics) > MOST_KNOWN:
            self._known.clear()
        self._known |= dict.fromkeys(topics, now + KNOWN_FOR)


def _hint(topic: str) -> str:
    return f"; an event type is called back as event-type:{topic}" if EVENT_TYPE.fullmatch(topic) else ""


def _of_entry(place: int, error: MeantimeError) -> MeantimeError:
    """Entries of a batch that are bad are invalid, whatever is wrong with them."""
    kind = UnknownReference if isinstance(error, NotFound) else Invalid
    return kind(f"timers[{place}]: {error.detail}", index=place, **error.extras)
