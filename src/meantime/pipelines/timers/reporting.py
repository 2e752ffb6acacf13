"""What the futures query tells after each micro-batch: how long it took, how much it keeps, how far it has come.

Nodes export the last report as metrics (`timers/status.py`); the process itself serves none.
"""

import time
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

import msgspec

from meantime.pipelines.timers.intake import FuturesOptions, upcoming
from meantime.pipelines.timers.watermark import JoinWatermark
from meantime.timers.reports import FuturesReport
from meantime.timers.topics import REQUEST


class FuturesListener:
    """Gets Spark's progress and calls `report`, in a thread of Spark's. `through`: what an earlier process reported last."""

    def __init__(self, options: FuturesOptions, through: Mapping[int, int], report: Callable[[FuturesReport], None]) -> None:
        self._options = options
        self._watermark = JoinWatermark(through)
        self._report = report
        self._batches = 0

    def on_batch(self, progress: str) -> None:
        self._batches += 1
        batch = msgspec.json.decode(progress, type=BatchProgress)
        report = report_of(batch, self._batches)
        # The tasks have looked at the clock before now, so they cannot have chosen a later tick.
        through = self._watermark.batch(report.places, upcoming(time.time(), self._options), batch.last_tick)
        self._report(msgspec.structs.replace(report, through=through))


class OperatorProgress(msgspec.Struct, frozen=True, rename="camel"):
    num_rows_total: int = 0


class SourceProgress(msgspec.Struct, frozen=True, rename="camel"):
    end_offset: Any = None
    latest_offset: Any = None


class BatchProgress(msgspec.Struct, frozen=True, rename="camel"):
    """The part of Spark's report that is used."""

    num_input_rows: int = 0
    duration_ms: Mapping[str, int] = {}
    state_operators: tuple[OperatorProgress, ...] = ()
    sources: tuple[SourceProgress, ...] = ()
    event_time: Mapping[str, str] = {}

    @property
    def last_tick(self) -> int | None:
        """The last tick of the batch, if it had one."""
        last = self.event_time.get("max")
        return None if last is None else int(datetime.fromisoformat(last).timestamp())


def report_of(progress: BatchProgress, batches: int) -> FuturesReport:
    reached: dict[int, int] = {}
    ends: dict[int, int] = {}
    for source in progress.sources:
        reached |= _offsets(source.end_offset)
        ends |= _offsets(source.latest_offset)
    return FuturesReport(
        batches=batches,
        batch_ms=progress.duration_ms.get("triggerExecution", 0),
        state_rows=sum(operator.num_rows_total for operator in progress.state_operators),
        lag=sum(max(0, end - reached.get(partition, 0)) for partition, end in ends.items()),
        input_rows=progress.num_input_rows,
        places=reached,
    )


def _offsets(offsets: Any) -> dict[int, int]:
    found = offsets.get(REQUEST, {}) if isinstance(offsets, dict) else {}
    return {int(partition): int(offset) for partition, offset in found.items()}
