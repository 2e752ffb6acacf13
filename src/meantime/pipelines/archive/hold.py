"""An archive's hold on an event type: clean-up of closed timelines waits until the archive has them.

It is an annotation that carries the archive's own name, set and moved on over the public API. It moves only after the
journal has the events safely; one that is too low costs storage, never events. An update of an event type replaces
all of its annotations, so of two archives that write at the same time one may undo what the other wrote: each looks again
whenever it goes on, and puts its own right.
"""

from uuid import uuid4

from meantime.pipelines.archive.journal import FOLDER
from meantime.pipelines.event_types.layout import Cursors, EventTypeLayout
from meantime.pipelines.spark.places import Place, write_whole
from meantime.sdk.client import Client
from meantime.sdk.model import EventType
from meantime.streams.catalog.archive_hold import ARCHIVED_TIMELINE


def archived_timeline(layout: EventTypeLayout, reached: Cursors) -> int:
    """The last closed timeline of which nothing lies after `reached`; 0 if there is none."""
    order = min(layout.track(name).settled(cursor).order for name, cursor in reached.items())
    return max((one.order for one in layout.timelines if one.closed and one.order < order), default=0)


def archive_name(archive: Place) -> str:
    """The name of an archive, which stays when its folder is moved; made when it is first asked for."""
    file = archive / FOLDER / "name"
    if not file.exists():
        file.parent.mkdir(parents=True, exist_ok=True)
        write_whole(file, uuid4().hex[:16].encode())
    return file.read_text().strip()


class ArchiveHold:
    """The annotation of one archive on one event type."""

    def __init__(self, client: Client, event_type: str, archive: str) -> None:
        self._client = client
        self._event_type = event_type
        self._name = f"{ARCHIVED_TIMELINE}.{archive}"
        self.wanted = self._name in self._annotations()
        """Whether it should be there: it was, or has been put there since."""

    def advance(self, order: int) -> None:
        self.wanted = True
        annotations = self._annotations()
        if annotations.get(self._name) != str(order):
            self._write(annotations | {self._name: str(order)})

    def remove(self) -> None:
        self.wanted = False
        annotations = self._annotations()
        if annotations.pop(self._name, None) is not None:
            self._write(annotations)

    def _annotations(self) -> dict[str, str]:
        return dict(self._client.event_type(self._event_type).annotations or {})

    def _write(self, annotations: dict[str, str]) -> None:
        self._client.update_event_type(EventType(self._event_type, annotations=annotations))
