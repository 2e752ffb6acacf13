"""Asking the other nodes what time it is, twice a second, each on its own, so that a silent one delays nobody.

The same questions show who is in sight.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import msgspec
import structlog

from meantime.cluster.asking import Asking
from meantime.cluster.clock import PeerClock, Sample, steady_us
from meantime.pulse import Pulse

log = structlog.get_logger(__name__)


class Answer(msgspec.Struct, frozen=True):
    """What is needed of a peer's `GET /clock`."""

    received_us: int
    sent_us: int


@dataclass(slots=True)
class Peer:
    id: str
    url: str
    seen_at: float
    clock: PeerClock = field(default_factory=PeerClock)
    asked: bool = False
    """Whether the first question was answered or has failed."""
    silent: bool = False


@asynccontextmanager
async def open_peers(asking: Asking, ask_every: float) -> AsyncIterator["Peers"]:
    peers = Peers(asking, ask_every)
    try:
        yield peers
    finally:
        await peers.close()


class Peers:
    def __init__(self, asking: Asking, ask_every: float) -> None:
        self.current: dict[str, Peer] = {}
        self.answers = Pulse()
        """Beats after every question, whether it was answered or not."""
        self._asking = asking
        self._ask_every = ask_every
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def follow(self, urls: Mapping[str, str], *, newcomers_seen: bool = False) -> None:
        """Ask exactly these nodes from now on. With `newcomers_seen`, one that has just appeared counts as seen at this
        moment: it may be in ZooKeeper before it listens."""
        seen_at = time.monotonic() if newcomers_seen else float("-inf")
        for id, peer in list(self.current.items()):
            if urls.get(id) != peer.url:
                del self.current[id]
                self._tasks.pop(id).cancel()
        for id, url in urls.items():
            if id not in self.current:
                peer = self.current[id] = Peer(id, url, seen_at)
                self._tasks[id] = asyncio.create_task(self._keep_asking(peer), name=f"clock of {id}")

    def in_sight(self, within: float) -> set[str]:
        """Who has answered in the last `within` seconds."""
        now = time.monotonic()
        return {peer.id for peer in self.current.values() if now - peer.seen_at <= within}

    def best_samples(self) -> dict[str, Sample]:
        return {peer.id: peer.clock.best for peer in self.current.values() if peer.clock.best}

    @property
    def all_asked(self) -> bool:
        return all(peer.asked for peer in self.current.values())

    async def close(self) -> None:
        tasks = list(self._tasks.values())
        self.follow({})
        self.answers.beat()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _keep_asking(self, peer: Peer) -> None:
        while True:
            started = time.monotonic()
            await self._ask(peer)
            peer.asked = True
            self.answers.beat()
            await asyncio.sleep(max(0.0, started + self._ask_every - time.monotonic()))

    async def _ask(self, peer: Peer) -> None:
        asked_us = steady_us()
        try:
            content = await self._asking.clock_of(peer.url)
            returned_us = steady_us()
            answer = msgspec.json.decode(content, type=Answer)
        except Exception as error:  # a peer's address and answer may be anything, and asking must go on
            self._note(peer, silent=True, why=str(error) or type(error).__name__)
            return
        peer.clock = peer.clock.after(Sample(asked_us, answer.received_us, answer.sent_us, returned_us))
        peer.seen_at = time.monotonic()
        self._note(peer, silent=False)

    def _note(self, peer: Peer, *, silent: bool, why: str = "") -> None:
        if silent and not peer.silent:
            log.warning("peer does not answer", peer=peer.id, url=peer.url, why=why)
        elif peer.silent and not silent:
            log.info("peer answers again", peer=peer.id)
        peer.silent = silent
