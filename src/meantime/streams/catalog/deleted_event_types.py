"""Tells those who keep something of an event type, such as its counters, when it was deleted.

Only names that were told to have changed are looked up, many at once; all that are kept when a change may have been missed.
"""

from collections.abc import Callable, Iterable

from meantime.streams.catalog.catalog import ChangeNotifications
from meantime.streams.catalog.store import EVENT_TYPES_CHANNEL, Store

LOOK_EVERY = 5.0


class DeletedEventTypes:
    """`kept`: names of which something is kept. `forget` is called with each of them that does not exist any more."""

    def __init__(
        self, store: Store, news: ChangeNotifications, kept: Callable[[], Iterable[str]], forget: Callable[[str], None]
    ) -> None:
        self._store = store
        self._kept = kept
        self._forget = forget
        self._changed: set[str] = set()
        self._missed = False
        news.subscribe(EVENT_TYPES_CHANNEL, self._on_change)

    async def run_once(self) -> None:
        """What could not be looked up is looked up the next time."""
        kept = set(self._kept())
        asked = kept if self._missed else kept & self._changed
        self._changed, self._missed = set(), False
        try:
            existing = await self._store.existing(asked) if asked else set()
        except BaseException:
            self._changed |= asked
            raise
        for name in asked - existing:
            self._forget(name)

    def _on_change(self, name: str | None, /) -> None:
        if name is None:
            self._missed = True
        else:
            self._changed.add(name)
