"""The mark of an archive on an event type: clean-up of closed timelines waits until the archive has them.

It is an annotation, set and moved on over the public API. It moves only after the journal has the events safely; a mark that
stands too low costs storage, never events.
"""

from meantime.pipelines.layout import Cursors, Layout
from meantime.sdk.client import Client
from meantime.sdk.model import EventType
from meantime.streams.holding import ARCHIVED_TIMELINE


def archived_timeline(layout: Layout, reached: Cursors) -> int:
    """The last closed timeline of which nothing lies after `reached`; 0 if there is none."""
    order = min(layout.track(name).settled(cursor).order for name, cursor in reached.items())
    return max((one.order for one in layout.timelines if one.closed and one.order < order), default=0)


class Mark:
    """What is known of the mark of one event type, so that it is written only when it moves."""

    def __init__(self, client: Client, event_type: str) -> None:
        self._client = client
        self._event_type = event_type
        self._shown = self._annotations().get(ARCHIVED_TIMELINE)

    @property
    def present(self) -> bool:
        return self._shown is not None

    def move(self, order: int) -> None:
        if self._shown != str(order):
            self._write(self._annotations() | {ARCHIVED_TIMELINE: str(order)})
            self._shown = str(order)

    def remove(self) -> None:
        annotations = self._annotations()
        if annotations.pop(ARCHIVED_TIMELINE, None) is not None:
            self._write(annotations)
        self._shown = None

    def _annotations(self) -> dict[str, str]:
        return dict(self._client.event_type(self._event_type).annotations or {})

    def _write(self, annotations: dict[str, str]) -> None:
        self._client.update_event_type(EventType(self._event_type, annotations=annotations))
