"""The present instant, for what callers position in time.

An absolute instant is the caller's word. A relative one (`after_ms`) is made by this node's clock, so a node that does not
trust its clock refuses it: this is the one place where that is decided.
"""

from collections.abc import Callable

from meantime.clock import Clock


class Instants:
    """`require_healthy` raises `Degraded` while this node does not trust its clock."""

    def __init__(self, clock: Clock, require_healthy: Callable[[], None]) -> None:
        self._clock = clock
        self._require_healthy = require_healthy

    def now_ms(self, *, relative: bool) -> int:
        """Now, by cluster time; raises `Degraded` if something is relative to it and this node is not healthy."""
        if relative:
            self._require_healthy()
        return self._clock.now_ms()
