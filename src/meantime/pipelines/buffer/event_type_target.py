"""An event type as the target of a time buffer.

Publishing over the API is no transaction, so what is about to be published is written down first, together with the
place that the event type has reached. After a crash the events since that place tell which of them went out: by their
`eid`, or where they have none by their content.

    intent written ──► published ──► intent says so ──► leases deleted
          └── crash ──► what is found after the intent's place went out, the rest did not
"""

from collections import Counter
from collections.abc import Sequence
from hashlib import sha256

import msgspec

from meantime.errors import UNREADABLE, PublishFailed
from meantime.pipelines.buffer.model import BufferedRecord
from meantime.pipelines.buffer.refused import RefusedFile
from meantime.pipelines.event_types import http_reader
from meantime.pipelines.event_types.layout import cursors, look_up, texts
from meantime.pipelines.event_types.ranges import between
from meantime.pipelines.spark.broker import Broker
from meantime.pipelines.spark.places import Place, write_whole
from meantime.sdk.client import Client

MOST_BYTES = 4 << 20


class PublishIntent(msgspec.Struct, frozen=True):
    """`marks` are in the order of `ids`; ids without one went out before."""

    ids: list[str]
    marks: list[str]
    places: dict[str, str]
    done: bool = False


class _Metadata(msgspec.Struct):
    eid: str | None = None


class _Event(msgspec.Struct):
    metadata: _Metadata | None = None


class EventTypeTarget:
    def __init__(self, client: Client, broker: Broker, event_type: str, folder: Place, refused: RefusedFile) -> None:
        self._client = client
        self._broker = broker
        self._event_type = event_type
        self._file = folder / "intent.json"
        self._refused = refused
        folder.mkdir(parents=True, exist_ok=True)
        client.event_type(event_type)

    def published(self) -> set[str]:
        if not self._file.exists():
            return set()
        intent = msgspec.json.decode(self._file.read_bytes(), type=PublishIntent)
        if intent.done:
            return set(intent.ids)
        return went_out(intent, self._marks_since(intent.places))

    def publish(self, ids: Sequence[str], records: Sequence[BufferedRecord]) -> None:
        values = [record.value or b"null" for record in records]
        places = texts(look_up(self._client, self._event_type).newest)
        intent = PublishIntent(list(ids), [mark(value) for value in values], places)
        self._write(intent)
        for chunk in chunks(values):
            self._publish(chunk)
        self._write(msgspec.structs.replace(intent, done=True))

    def _publish(self, values: Sequence[bytes]) -> None:
        """A batch with an event that the event type refuses is refused as a whole; then each event goes alone."""
        try:
            self._client.publish_encoded(self._event_type, b"[%b]" % b",".join(values))
        except PublishFailed as error:
            if error.extras.get("written"):
                raise
            if len(values) > 1:
                for value in values:
                    self._publish([value])
                return
            self._refused.keep(values[0], error.detail)

    def _marks_since(self, places: dict[str, str]) -> Counter[str]:
        layout = look_up(self._client, self._event_type)
        ranges = between(layout, cursors(places), layout.newest)
        return Counter(mark(row[0].encode()) for row in http_reader.read(self._broker, self._event_type, ranges))

    def _write(self, intent: PublishIntent) -> None:
        write_whole(self._file, msgspec.json.encode(intent))


def went_out(intent: PublishIntent, found: Counter[str]) -> set[str]:
    """The ids whose events are among those that were found; of equal events as many as there are."""
    left = Counter(found)
    out = set(intent.ids[len(intent.marks) :])
    for id, wanted in zip(intent.ids, intent.marks, strict=False):
        if left[wanted]:
            left[wanted] -= 1
            out.add(id)
    return out


def mark(value: bytes) -> str:
    """What an event is recognised by, also after its metadata was enriched."""
    try:
        metadata = msgspec.json.decode(value, type=_Event).metadata
        if metadata and metadata.eid:
            return metadata.eid
        content = msgspec.json.encode(msgspec.json.decode(value), order="deterministic")
    except UNREADABLE:
        content = value
    return sha256(content).hexdigest()


def chunks(values: Sequence[bytes]) -> list[list[bytes]]:
    """Batches that a node takes."""
    found: list[list[bytes]] = [[]]
    size = 0
    for value in values:
        if size + len(value) > MOST_BYTES:
            found.append([])
            size = 0
        found[-1].append(value)
        size += len(value) + 1
    return [chunk for chunk in found if chunk]
