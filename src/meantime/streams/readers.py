"""The consumers of one stream: opened when none is to spare, kept when a timeline is over, closed with the stream.

A consumer costs threads, connections and some milliseconds; a stream over many timelines would pay that for each of them. So
a leg that is over gives its consumer back, empty, and the next leg in the same storage takes it.
"""

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from functools import partial
from typing import TypeVar

from meantime.streams.kafka_consumer import RunReader
from meantime.streams.model import Storage

T = TypeVar("T")


class Readers:
    """`wanted` tells whether there are timelines ahead that will need a consumer."""

    def __init__(self, threads: Executor, wanted: Callable[[], bool], *, timed: bool = False) -> None:
        self._threads = threads
        self._wanted = wanted
        self._timed = timed
        self._spare: list[RunReader] = []

    async def take(self, storage: Storage, foreign: Sequence[str]) -> RunReader:
        for index, reader in enumerate(self._spare):
            if reader.storage == storage:
                del self._spare[index]
                reader.foreign = frozenset(foreign)
                return reader
        return await self._in_thread(partial(RunReader, storage, foreign, timed=self._timed))

    async def give_back(self, reader: RunReader, *, sound: bool) -> None:
        if sound and self._wanted():
            await self._in_thread(reader.clear)
            self._spare.append(reader)
        else:
            await self._in_thread(reader.close)
        if not self._wanted():
            await self.close_spare()

    async def close_spare(self) -> None:
        while self._spare:
            await self._in_thread(self._spare.pop().close)

    async def _in_thread(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)
