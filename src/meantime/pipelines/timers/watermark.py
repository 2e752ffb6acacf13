"""The watermark of the join is how far requests have come through it: before that place, all that waits for no stretch to
open has left it.

A request that is taken in too late for its stretch meets the next tick, and where that tick is not in the same micro-batch
the request waits in the join for a moment. Whoever follows `timer-request` beside the Spark job must not leave it to the
join before it is out: a cancel is worth nothing once its timer has fired.

    a batch ends at f ──► what it took in meets a tick up to `upcoming(f)` ──► a batch has that tick ──► it is through
"""

from collections import deque
from collections.abc import Mapping


class JoinWatermark:
    def __init__(self, through: Mapping[int, int]) -> None:
        """`through`: how far an earlier process had come; what is out stays out."""
        self._through = dict(through)
        self._inside: deque[tuple[int, Mapping[int, int]]] = deque()
        self._last_tick = 0

    def batch(self, taken_in: Mapping[int, int], needed: int, last_tick: int | None) -> dict[int, int]:
        """After each batch: how far it has read, the last tick that one of its requests may meet, and the last that it had.
        Returns how far all have come through; where the join has begun anew, that is not further than it has read."""
        self._inside.append((needed, taken_in))
        self._last_tick = max(self._last_tick, last_tick or 0)
        while self._inside and self._inside[0][0] <= self._last_tick:
            self._through |= self._inside.popleft()[1]
        return {partition: min(place, taken_in.get(partition, 0)) for partition, place in self._through.items()}
