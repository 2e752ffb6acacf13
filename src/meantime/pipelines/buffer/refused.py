"""What a time buffer cannot pass on: kept in a file, a line of JSON for each, before it is let go.

Anybody may put a message into the buffer's topic, and an event type may refuse an event; neither may stop all others.
"""

import msgspec
import structlog

from meantime.pipelines.spark.meters import REFUSED
from meantime.pipelines.spark.places import Place, append

log = structlog.get_logger(__name__)


class RefusedFile:
    def __init__(self, file: Place, buffer: str) -> None:
        self._file = file
        self._buffer = buffer
        file.parent.mkdir(parents=True, exist_ok=True)

    def keep(self, value: bytes, reason: str) -> None:
        """On disk when it returns. Twice if the process ends before what it kept is gone from the buffer."""
        log.warning("buffer_refused", topic=self._buffer, reason=reason)
        REFUSED.labels(self._buffer).inc()
        line = msgspec.json.encode({"value": value.decode("utf-8", "replace"), "error": reason})
        append(self._file, line + b"\n")
