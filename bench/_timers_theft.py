"""Which seconds a machine had to itself: where it shares processors with other machines, some of their time is stolen."""

import threading
import time
from pathlib import Path

SHARE = 0.01
"""With more than this of the processors' time stolen around a second, its lateness tells of the machine."""


class Theft:
    """Looks in the middle between seconds. Where nobody tells of theft, there is none."""

    def __init__(self) -> None:
        self._stolen: dict[int, float] = {}
        threading.Thread(target=self._watch, daemon=True).start()

    def spared(self, second: int) -> bool:
        return self._stolen.get(second, 0.0) <= SHARE

    def share(self, first: int, last: int) -> float:
        """Of the processors' time from one second to another."""
        found = [self._stolen[second] for second in range(first, last + 1) if second in self._stolen]
        return sum(found) / max(1, len(found))

    def _watch(self) -> None:
        stolen, total = _ticks()
        while True:
            time.sleep((0.5 - time.time()) % 1)
            now = _ticks()
            self._stolen[int(time.time())] = (now[0] - stolen) / max(1, now[1] - total)
            stolen, total = now
            time.sleep(0.1)


def _ticks() -> tuple[int, int]:
    """Stolen, and all, since the machine started."""
    try:
        numbers = [int(number) for number in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
    except OSError:
        return 0, 1
    return numbers[7], sum(numbers)
