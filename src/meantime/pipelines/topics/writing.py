"""A frame into a topic, with an answer: how many messages were created, existed already, were refused."""

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from meantime.pipelines.topics.tally import Tally

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def write_topic(frame: "DataFrame", topic: str, **options: str) -> Tally:
    """Write a frame with the columns `id?, at_ms | after_ms, body`; repeat it as often as you like.

    >>> write_topic(frame, "reminders", rejects="refused.ndjson")
    Tally(created=1000000, exists=0, rejected=0)
    """
    with tempfile.TemporaryDirectory(prefix="meantime-") as folder:
        report = Path(folder) / "report.json"
        writer = frame.write.format("meantime.topic").mode("append").option("topic", topic).option("report", str(report))
        writer.options(**options).save()
        return msgspec.json.decode(report.read_bytes(), type=Tally)
