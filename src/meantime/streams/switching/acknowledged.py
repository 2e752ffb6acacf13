"""The last offset of each partition that this node has acknowledged, kept where others can read it.

Only a forced switch needs it: when a storage is dead, its timeline is closed at the last offset that any node is known to
have acknowledged. Nodes write what they know every second and, before they acknowledge a forced lock, at once.
"""

import asyncio
from collections.abc import Mapping
from typing import NamedTuple, Protocol

import structlog

from meantime.errors import MeantimeError

log = structlog.get_logger(__name__)


class StoragePartition(NamedTuple):
    storage_id: str
    topic: str
    partition: int


class OffsetStore(Protocol):
    async def raise_acknowledged(self, offsets: Mapping[StoragePartition, int]) -> None: ...


class AcknowledgedOffsets:
    def __init__(self, ledger: OffsetStore, *, write_every: float = 1.0) -> None:
        self._ledger = ledger
        self._write_every = write_every
        self._news: dict[StoragePartition, int] = {}
        self._writing = asyncio.Lock()

    def note(self, storage_id: str, topic: str, offsets: Mapping[int, int]) -> None:
        for partition, offset in offsets.items():
            place = StoragePartition(storage_id, topic, partition)
            if offset > self._news.get(place, -1):
                self._news[place] = offset

    async def write(self) -> None:
        """Write what is new; on failure it stays new."""
        async with self._writing:
            news, self._news = self._news, {}
            try:
                if news:
                    await self._ledger.raise_acknowledged(news)
            except BaseException:
                for place, offset in news.items():
                    self._news[place] = max(offset, self._news.get(place, -1))
                raise

    async def run(self) -> None:
        while True:
            await asyncio.sleep(self._write_every)
            try:
                await self.write()
            except MeantimeError as error:
                log.warning("acknowledged_offsets_not_written", error=error.detail)
            except Exception:
                log.exception("acknowledged_offsets_failed")
