"""What is looked up for the metrics, and only when somebody asks for them: how deep topics are, how far readers lag.

    asked ──► the last look is recent: nothing is done
      └─────► one look for all who ask now; after a moment the answer goes out without it, and the look goes on

The longer a look takes, the less often it is made: looking costs a small share of the time, whatever there is to see. When
a look fails, what it measures is not shown at all, rather than as it was.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence

import structlog

from meantime.errors import MeantimeError
from meantime.tasks import end, start

log = structlog.get_logger(__name__)

EVERY = 5.0
SHARE = 0.02
"""Of the time that may be spent on looking."""
WITHIN = 2.0
"""Seconds that whoever asks waits for what is being looked up."""


class Measure:
    """`look` measures, `lost` is called when that failed."""

    def __init__(
        self, name: str, look: Callable[[], Awaitable[None]], lost: Callable[[], None], *, every: float = EVERY
    ) -> None:
        self.name = name
        self._look = look
        self._lost = lost
        self._every = every
        self._again_at = 0.0
        self._task: asyncio.Task[None] | None = None

    def begin(self) -> "asyncio.Task[None] | None":
        """The look that is under way, which may be a new one; None when it is too early for one."""
        if self._task is None or self._task.done():
            if time.monotonic() < self._again_at:
                return None
            self._task = start(self._run(), f"measure {self.name}")
        return self._task

    async def end(self) -> None:
        if self._task is not None:
            await end(self._task)

    async def _run(self) -> None:
        began = time.monotonic()
        try:
            await self._look()
        except MeantimeError as error:
            self._lost()
            log.info("not_measured", measure=self.name, reason=error.detail)
        except Exception:
            self._lost()
            log.exception("measure_failed", measure=self.name)
        finally:
            ended = time.monotonic()
            self._again_at = ended + max(self._every, (ended - began) / SHARE)


class Measures:
    def __init__(self, measures: Sequence[Measure] = ()) -> None:
        self._measures = measures

    async def refresh(self, within: float = WITHIN) -> None:
        """Look again at what was not looked at for a while."""
        looks = [look for measure in self._measures if (look := measure.begin()) is not None]
        if looks:
            await asyncio.wait(looks, timeout=within)

    async def end(self) -> None:
        await asyncio.gather(*(measure.end() for measure in self._measures))
