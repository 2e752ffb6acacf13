"""A wake-up that is never missed.

Whoever waits first notes the count, then looks at the world, then waits for the count to go on: a beat that comes between
looking and waiting is not lost, and any number of beats cost one wake-up. One bound `beat` can be left as a watch on any
number of nodes, again and again, without piling up callbacks.
"""

import asyncio


class Pulse:
    def __init__(self) -> None:
        self.count = 0
        self._waiters: set[asyncio.Future[None]] = set()

    def beat(self, _event: object = None) -> None:
        self.count += 1
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)
        self._waiters.clear()

    async def beyond(self, count: int, timeout: float | None = None) -> bool:
        """Wait until there was a beat after `count`; False when `timeout` seconds passed without one."""
        if self.count != count:
            return True
        waiter = asyncio.get_running_loop().create_future()
        self._waiters.add(waiter)
        try:
            async with asyncio.timeout(timeout):
                await waiter
        except TimeoutError:
            return False
        finally:
            self._waiters.discard(waiter)
        return True
