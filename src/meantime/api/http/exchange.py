"""One request and its answer, whichever version of HTTP carries them.

A connection makes an exchange when the headers of a request have arrived, feeds it the body, and tells it when the client is
gone. The application reads the body as a whole, and answers once: with `send`, or with `open`, `write` and `close` for
a stream. Bytes of bodies count against the budget of the node until the exchange is over.
"""

import asyncio
import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable

from meantime.api.http.limits import BodyBudget, HttpLimits
from meantime.errors import BodyLate, Malformed, MeantimeError, TooLarge, Unavailable, UnknownEncoding

Headers = list[tuple[bytes, bytes]]

GZIP = (b"gzip", b"x-gzip")
AT_ONCE = 1 << 20
"""So many bytes are unpacked before others get their turn."""
PIECES_LET_GO = 64


class ClientGone(Exception):
    """The client has closed the connection, or the stream of it that carried this request."""


class HttpExchange(ABC):
    """What all versions of HTTP have in common; the abstract methods send the answer."""

    __slots__ = (
        "_body",
        "_body_complete",
        "_budget",
        "_closed",
        "_counted",
        "_failure",
        "_limits",
        "_on_ending",
        "_size",
        "_waiter",
        "answered",
        "eof",
        "gone",
        "headers",
        "method",
        "path",
        "query",
        "stopping",
    )

    def __init__(
        self, method: str, path: str, query: bytes, headers: dict[bytes, bytes], limits: HttpLimits, budget: BodyBudget
    ) -> None:
        self.method = method
        self.path = path
        self.query = query
        self.headers = headers
        self.answered = False
        self.gone = False
        self.eof = False
        self.stopping = False
        self._limits = limits
        self._budget = budget
        self._body: list[bytes] = []
        self._body_complete = False
        self._failure: MeantimeError | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._on_ending: Callable[[], None] | None = None
        self._size = self._counted = 0
        self._closed = False

    # --- what the connection tells ---

    def announce(self, length: bytes | None) -> None:
        """Refuse a body that is too large, or for which there is no room, before it is sent. Nothing is reserved: a client
        that announces much and sends nothing takes no room from others."""
        if length is None or not length.isdigit():
            return
        announced = int(length)
        if announced > self._limits.max_body_bytes:
            self.fail(self._too_large())
        elif announced > self._budget.left:
            self.fail(_no_room())

    def feed(self, data: bytes) -> None:
        if self._failure is not None or self._closed:
            return
        self._size += len(data)
        if self._size > self._limits.max_body_bytes:
            self.fail(self._too_large())
        elif self._count(len(data)):
            self._body.append(data)

    def complete(self) -> None:
        self._body_complete = True
        self._wake()

    def late(self) -> None:
        self.fail(BodyLate())

    def fail(self, error: MeantimeError) -> None:
        """The body cannot be had; whoever reads it gets this error."""
        if self._failure is None and not self._body_complete:
            self._failure = error
            self._body.clear()
            self._wake()

    def client_closes(self) -> bool:
        """The client has closed its side after the request. It may still read a plain answer; where the answer depends on
        somebody waiting for it, the client is taken to be gone, and this is True."""
        self.eof = True
        if self._on_ending is None:
            return False
        self.client_gone()
        return True

    def client_gone(self) -> None:
        self.gone = True
        if not self._body_complete:
            self.fail(Malformed("the client has disconnected"))
        self._tell_ending()

    def node_stops(self) -> None:
        """What waits for something should end; anything else is finished."""
        self.stopping = True
        self._tell_ending()

    def key_revoked(self) -> None:
        """Whoever asked may not ask any more: what waits for something ends as at a stop of the node."""
        self.node_stops()

    def over(self) -> None:
        """The application is done with it."""
        if not self._closed:
            self._closed = True
            self._budget.give_back(self._counted)
            self._body.clear()

    # --- what the application asks ---

    def peer(self) -> str:
        """The address that the connection comes from; empty for a Unix socket."""
        return ""

    def tls(self) -> bool:
        """Whether the connection speaks TLS."""
        return False

    @property
    def failed(self) -> MeantimeError | None:
        return self._failure

    @property
    def body_complete(self) -> bool:
        return self._body_complete

    def when_ending(self, call: Callable[[], None] | None) -> None:
        """Call this when the client goes, its key is revoked or the node stops, for what would otherwise wait; at once if
        that has happened."""
        self._on_ending = call
        self.gone = self.gone or (self.eof and call is not None)
        if self.gone or self.stopping:
            self._tell_ending()

    async def body(self) -> bytes:
        """The whole body, unpacked. Raises what is wrong with it."""
        while not self._body_complete and self._failure is None:
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter
        if self._failure is not None:
            raise self._failure
        pieces, self._body = self._body, []
        body = pieces[0] if len(pieces) == 1 else await joined(pieces, self._size)
        pieces.clear()
        encoding = self.headers.get(b"content-encoding")
        return body if encoding is None else await self._decoded(body, encoding.strip().lower())

    async def _decoded(self, body: bytes, encoding: bytes) -> bytes:
        if encoding in (b"", b"identity") or (not body and encoding not in GZIP):
            return body
        if encoding not in GZIP:
            raise UnknownEncoding()
        return await self._unpacked(body)

    async def _unpacked(self, packed: bytes) -> bytes:
        unpack, pieces, size = zlib.decompressobj(wbits=31), list[bytes](), 0
        rest = packed
        while True:
            try:
                piece = unpack.decompress(rest, AT_ONCE)
            except zlib.error as error:
                raise Malformed(f"the body is not valid gzip: {error}") from error
            size += len(piece)
            if size > self._limits.max_body_bytes:
                raise self._too_large()
            if size > self._counted and not self._count(size - self._counted):
                raise _no_room()
            pieces.append(piece)
            rest = unpack.unconsumed_tail
            if unpack.eof:
                return await joined(pieces, size)
            if not rest and not piece:
                raise Malformed("the gzip body ends too early")
            await asyncio.sleep(0)

    # --- how the answer goes out ---

    @abstractmethod
    def send(self, status: int, headers: Headers, body: bytes) -> None:
        """The whole answer."""

    @abstractmethod
    def open(self, status: int, headers: Headers) -> None:
        """The head of a stream, at once."""

    @abstractmethod
    async def write(self, chunk: bytes) -> None:
        """A piece of a stream; returns when the client has room for more. Raises ClientGone."""

    @abstractmethod
    def close(self, *, complete: bool) -> None:
        """The end of a stream. An incomplete one is cut, so that the client sees that there was more."""

    # --- inside ---

    def _count(self, size: int) -> bool:
        if not self._budget.take(size):
            self.fail(_no_room())
            return False
        self._counted += size
        return True

    def _tell_ending(self) -> None:
        if self._on_ending is not None:
            self._on_ending()

    def _too_large(self) -> TooLarge:
        most = self._limits.max_body_bytes
        return TooLarge(f"the body is over {most} bytes", max_body_bytes=most)

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


async def joined(pieces: list[bytes], size: int) -> bytes:
    """One of many, which are let go. Joining much takes long, mostly because fresh memory has to be had for it; Python lets
    go of its lock meanwhile, so it is done in a thread."""
    whole = b"".join(pieces) if size <= AT_ONCE else await asyncio.to_thread(b"".join, pieces)
    while pieces:
        del pieces[-PIECES_LET_GO:]
        if pieces:
            await asyncio.sleep(0)
    return whole


def _no_room() -> Unavailable:
    return Unavailable("the bodies in flight fill this node's budget of memory; try again", retry_after=1)
