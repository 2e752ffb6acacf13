"""What a callback into an event type looks like as an event, and whether its event type would take it.

The rules are those of publishing, applied by the publisher itself: when a timer is set, and again when it fires.
"""

import asyncio
from collections.abc import Sequence

import msgspec
import structlog

from meantime.errors import UNREADABLE, Invalid, NotFound, Unavailable
from meantime.json_depth import MOST_DEEP, is_shallow
from meantime.streams.catalog.catalog import Catalog
from meantime.streams.model import UNDEFINED
from meantime.streams.publishing.publisher import Publisher
from meantime.streams.publishing.records import BatchRejected
from meantime.timers.model import NewTimer, TimerId
from meantime.timers.options import CallbackFault

log = structlog.get_logger(__name__)

NO_EVENT = f"the callback is not a JSON object, or is nested deeper than {MOST_DEEP}"
ASK_FOR = 2.0
AT_ONCE = 250
"""So many events are read before others have their turn."""


class EventChecks:
    def __init__(self, publisher: Publisher, catalog: Catalog) -> None:
        self._publisher = publisher
        self._catalog = catalog

    async def fault(self, event_type: str, timers: Sequence[NewTimer]) -> CallbackFault | None:
        """The first timer whose callback could not be published, by what is known of the event type within a moment."""
        try:
            async with asyncio.timeout(ASK_FOR):
                category = (await self._catalog.for_publishing(event_type)).event_type.category
        except NotFound as error:
            return CallbackFault(0, NotFound(error.detail, field="callback_topic"))
        except (TimeoutError, Unavailable) as error:
            log.warning("callbacks_not_checked", event_type=event_type, timers=len(timers), error=str(error))
            return None
        for start in range(0, len(timers), AT_ONCE):
            found = await self._rejected(event_type, timers[start : start + AT_ONCE], category)
            if found is not None:
                place, reason = found
                return CallbackFault(
                    start + place, Invalid(f"event type {event_type!r} would not take it: {reason}", field="callback")
                )
            await asyncio.sleep(0)
        return None

    async def _rejected(self, event_type: str, timers: Sequence[NewTimer], category: str) -> tuple[int, str] | None:
        events = []
        for place, new in enumerate(timers):
            event = event_of(new.timer, new.future.callback, category)
            if event is None:
                return place, NO_EVENT
            events.append(event)
        try:
            await self._publisher.check(event_type, b"[" + b",".join(events) + b"]")
        except BatchRejected as rejected:
            failed = (place for place, item in enumerate(rejected.items) if item.publishing_status == "failed")
            place = next(failed)
            return place, rejected.items[place].detail
        return None


def event_of(timer: TimerId, callback: bytes, category: str) -> bytes | None:
    """The event as it is published; None when the callback is none."""
    try:
        event = msgspec.json.decode(callback) if is_shallow(callback) else None
    except UNREADABLE:
        return None
    if not isinstance(event, dict):
        return None
    metadata = event.get("metadata")
    if category == UNDEFINED or not isinstance(metadata, dict):
        return callback
    event["metadata"] = metadata | {"timer_token": timer.token, "timer_due": timer.second}
    return msgspec.json.encode(event)
