"""ClockClient the other nodes what time it is, twice a second, each on its own, so that a silent one delays no other.

The same questions show who is reachable. A question goes over a plain connection where nothing lies between the nodes, else
through httpx: by httpx alone the questions would be most of what an idle node does.
"""

import asyncio
import ssl
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial

import httpx
import msgspec
import structlog

from meantime.cluster.clock import ClockSample, PeerClock, steady_us
from meantime.pulse import Pulse
from meantime.sdk.core import Request
from meantime.sdk.http.connection import ConnectionPool, is_direct
from meantime.supervision import supervised
from meantime.tasks import end, start

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class PeerOptions:
    ask_every: float = 0.5
    answer_within: float = 1.0
    tls: ssl.SSLContext | bool = True
    """How to verify the peers' certificates; a context may carry a client certificate."""


class ClockAnswer(msgspec.Struct, frozen=True):
    """What is needed of a peer's `GET /clock`."""

    received_us: int
    sent_us: int
    source_error_us: float = 0.0


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
async def open_clock_client(options: PeerOptions) -> AsyncIterator["ClockClient"]:
    client = ClockClient(options)
    try:
        yield client
    finally:
        await client.close()


class ClockClient:
    def __init__(self, options: PeerOptions) -> None:
        self._options = options
        self._connections = ConnectionPool()
        self._http: httpx.AsyncClient | None = None

    async def clock_of(self, url: str) -> bytes:
        """The answer to `GET /clock`; whatever comes instead of one in time is raised."""
        client = None if is_direct(url) else self._client()
        async with asyncio.timeout(self._options.answer_within):
            return await (_ask_by_httpx(client, f"{url}/clock") if client else self._ask_directly(f"{url}/clock"))

    async def close(self) -> None:
        self._connections.close()
        if self._http is not None:
            await self._http.aclose()

    def _client(self) -> httpx.AsyncClient:
        """Not before it is needed: what TLS trusts takes long to load."""
        if self._http is None:
            self._http = httpx.AsyncClient(timeout=self._options.answer_within, verify=self._options.tls)
        return self._http

    async def _ask_directly(self, url: str) -> bytes:
        answer = await self._connections.request(Request("GET", url, {}, None, self._options.answer_within))
        if answer.status != httpx.codes.OK:
            raise httpx.RemoteProtocolError(f"it answers with {answer.status}")
        return answer.content


async def _ask_by_httpx(client: httpx.AsyncClient, url: str) -> bytes:
    response = await client.get(url)
    return response.raise_for_status().content


@asynccontextmanager
async def open_peers(options: PeerOptions) -> AsyncIterator["Peers"]:
    async with open_clock_client(options) as client:
        peers = Peers(client, options.ask_every)
        try:
            yield peers
        finally:
            await peers.close()


class Peers:
    def __init__(self, client: ClockClient, ask_every: float) -> None:
        self.current: dict[str, Peer] = {}
        self.answers = Pulse()
        """Beats after every question, whether it was answered or not."""
        self._clocks = client
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
                asking = supervised(partial(self._keep_asking, peer), "peer clock", id)
                self._tasks[id] = start(asking, name=f"clock of {id}")

    def reachable(self, within: float) -> set[str]:
        """Who has answered in the last `within` seconds."""
        now = time.monotonic()
        return {peer.id for peer in self.current.values() if now - peer.seen_at <= within}

    def best_samples(self) -> dict[str, ClockSample]:
        return {peer.id: peer.clock.best for peer in self.current.values() if peer.clock.best}

    @property
    def all_asked(self) -> bool:
        return all(peer.asked for peer in self.current.values())

    async def close(self) -> None:
        tasks = list(self._tasks.values())
        self.follow({})
        self.answers.beat()
        await end(*tasks)

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
            content = await self._clocks.clock_of(peer.url)
            returned_us = steady_us()
            answer = msgspec.json.decode(content, type=ClockAnswer)
        except Exception as error:  # a peer's address and answer may be anything, and asking must go on
            self._note(peer, silent=True, why=str(error) or type(error).__name__)
            return
        sample = ClockSample(asked_us, answer.received_us, answer.sent_us, returned_us, max(0.0, answer.source_error_us))
        peer.clock = peer.clock.after(sample)
        peer.seen_at = time.monotonic()
        self._note(peer, silent=False)

    def _note(self, peer: Peer, *, silent: bool, why: str = "") -> None:
        if silent and not peer.silent:
            log.warning("peer_silent", peer=peer.id, url=peer.url, reason=why)
        elif peer.silent and not silent:
            log.info("peer_answers_again", peer=peer.id)
        peer.silent = silent
