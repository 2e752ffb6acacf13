"""The messages that wait for one queue's job: bounded and in order. A queue that is reset gets a new inbox."""

from collections import deque
from collections.abc import Callable

from meantime.pulse import Pulse
from meantime.workers.app import Message

MOST_MESSAGES = 1000
MOST_BYTES = 2 << 20
"""Beyond either a stream brings no more: up to one line of it has come on top."""


class Inbox:
    """`position` is the cursor of the last message that was put in; a stream that breaks goes on there. A queue whose
    record has a `last` and no cursor starts at the oldest message and skips what was written before `last`."""

    def __init__(self, position: str, arrived: Callable[[], None], skip_before_ms: int = 0) -> None:
        self.position = position
        self.closed = False
        self._skip_before_ms = skip_before_ms
        self._arrived = arrived
        self._waiting: deque[Message] = deque()
        self._bytes = 0
        self._freed = Pulse()

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def full(self) -> bool:
        return not self.closed and (len(self._waiting) >= MOST_MESSAGES or self._bytes >= MOST_BYTES)

    def put(self, messages: list[Message], size: int) -> None:
        """One or more, and about how many bytes they take."""
        self.position = messages[-1].cursor
        if self._skip_before_ms:
            messages = [message for message in messages if message.written_at_ms >= self._skip_before_ms]
        was_empty = not self._waiting
        self._waiting.extend(messages)
        self._bytes += size if messages else 0
        if was_empty and messages:
            self._arrived()

    def take(self, most: int) -> list[Message]:
        """Up to so many messages that are there."""
        was_full, there = self.full, len(self._waiting)
        taken = [self._waiting.popleft() for _ in range(min(most, there))]
        self._bytes = self._bytes * len(self._waiting) // max(there, 1)
        if was_full:
            self._freed.beat()
        return taken

    async def room(self, within: float | None) -> bool:
        """Wait until there is room; False when `within` seconds have passed without."""
        while self.full:
            if not await self._freed.beyond(self._freed.count, within):
                return False
        return True

    def close(self) -> None:
        """Whatever comes from now on is dropped."""
        self.closed = True
        self._waiting.clear()
        self._bytes = 0
        self._freed.beat()
