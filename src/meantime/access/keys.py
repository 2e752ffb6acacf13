"""API keys: made once, shown once, stored as a digest.

A key is `mt_<id>_<secret>` with 256 bits of randomness, so a plain SHA-256 is all the stretching it needs. Nodes remember
the keys they have seen; this cache is cleared when PostgreSQL says that a key was revoked, and is not used at all while
such a notification could not arrive. An answer that such a notification overtakes is worthless: the question is asked again.
So a revoked key stops working at once. Open requests of the key are told when the notification comes, and those that it does
not reach within `LOOK_EVERY` seconds. So often it is also looked whether streams are still allowed by the authorization of
what they read.

The token of a session of the console (see `sessions`) is looked up in the same way and stands for the key that it was made
with, until it expires. A key is taken from the header `Authorization` only and a token from the cookie only.

While PostgreSQL does not answer, a key that was valid within the last `TRUSTED_FOR` seconds still is: nobody can revoke one
meanwhile, except where only this node does not reach the database. A key whose revocation was told is not trusted again.
"""

import asyncio
import hashlib
import re
import secrets
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Protocol

import structlog

from meantime.access.attempts import WrongKeys
from meantime.access.scopes import Identity, check_scope
from meantime.clock import Clock, SystemClock
from meantime.database.listener import Listener
from meantime.database.pool import Database
from meantime.database.queries import load
from meantime.errors import Forbidden, Invalid, MeantimeError, NotFound, Unauthenticated
from meantime.names import check_identifier
from meantime.tasks import PatientCalls

SQL = load("meantime.access", "keys.sql")
CHANNEL = "meantime_keys"
REMEMBERED = 10_000
LOOK_EVERY = 2.0
TRUSTED_FOR = 300.0

log = structlog.get_logger(__name__)


SESSION = "session:"
"""What notifications of sessions that have ended begin with."""
_TOKEN = re.compile(r"ms_[A-Za-z0-9_-]{43}")
_KEY = re.compile(r"mt_([0-9a-f]{8})_[A-Za-z0-9_-]{32,128}")


@dataclass(frozen=True, slots=True)
class Key:
    id: str
    name: str
    scopes: tuple[str, ...]
    created_ms: int
    revoked_ms: int | None


def digest_of(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()


def new_key() -> str:
    return f"mt_{secrets.token_hex(4)}_{secrets.token_urlsafe(32)}"


def new_token() -> str:
    """For a session of the console; never taken for a key."""
    return f"ms_{secrets.token_urlsafe(32)}"


def is_token(text: str) -> bool:
    return _TOKEN.fullmatch(text) is not None


def id_of(key: str) -> str:
    found = _KEY.fullmatch(key)
    if found is None:
        raise Invalid("a key is mt_, 8 hexadecimal digits, _, and at least 32 of A-Z a-z 0-9 _ -")
    return found[1]


class Keys:
    """The store, for those who manage keys."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def add(self, name: str, scopes: list[str], now_ms: int) -> tuple[str, str]:
        """A new key as (id, the key itself). It cannot be had again."""
        check_identifier(name, "name of a key")
        if not scopes:
            raise Invalid("a key without a scope can do nothing: give at least one --scope")
        checked = sorted({check_scope(scope) for scope in scopes})
        key = new_key()
        id = id_of(key)
        values = {"id": id, "name": name, "digest": digest_of(key), "scopes": checked, "now_ms": now_ms}
        await self._database.execute(SQL["add"], values)
        return id, key

    async def ensure(self, name: str, scopes: list[str], key: str, now_ms: int) -> None:
        """Make a key that was made elsewhere valid, unless it is known already; one that was revoked stays so."""
        values = {"id": id_of(key), "name": name, "digest": digest_of(key), "scopes": scopes, "now_ms": now_ms}
        await self._database.execute(SQL["ensure"], values)

    async def list(self) -> list[Key]:
        rows = await self._database.fetch_all(SQL["list"])
        return [Key(row["id"], row["name"], tuple(row["scopes"]), row["created_ms"], row["revoked_ms"]) for row in rows]

    async def revoke(self, id: str, now_ms: int) -> None:
        if await self._database.fetch_one(SQL["revoke"], {"id": id, "now_ms": now_ms}) is None:
            raise NotFound(f"there is no valid key {id!r}; `meantime keys list` shows them")


@dataclass(frozen=True, slots=True)
class KnownKey:
    """`expires_ms` is the end of a session; a key has none."""

    identity: Identity
    looked_up_at: float
    expires_ms: int | None = None

    def valid_at(self, now_ms: int) -> bool:
        return self.expires_ms is None or now_ms < self.expires_ms


class OpenRequest(Protocol):
    def key_revoked(self) -> None: ...


StillAllowed = Callable[[], Awaitable[Any]]
"""Raises when what a request was allowed to do at its beginning is not allowed any more."""


class Authenticator:
    """Tells a node who holds a key, and open requests that theirs was revoked."""

    def __init__(self, database: Database, listener: Listener, clock: Clock | None = None) -> None:
        self._database = database
        self._listener = listener
        self._clock = clock or SystemClock()
        self._known: dict[bytes, KnownKey] = {}
        self._trusted: dict[bytes, KnownKey] = {}
        self._patient = PatientCalls(self._look_up)
        self._open: dict[str, set[OpenRequest]] = {}
        self._watched: dict[OpenRequest, StillAllowed] = {}
        self._heard = 0
        self._wrong_keys, self._wrong_tokens = WrongKeys(), WrongKeys()
        listener.subscribe(CHANNEL, self._on_revoked)

    async def identify(self, authorization: str | None, peer: str = "") -> Identity:
        """The holder of `Bearer <key>`; raises Unauthenticated, or TooManyRequests when so many wrong keys came from this
        address that PostgreSQL is not asked any more. Keys that are known go through."""
        scheme, _, key = (authorization or "").partition(" ")
        if scheme.lower() != "bearer" or not key.strip():
            raise Unauthenticated()
        digest = digest_of(key.strip())
        return await self._identify(digest, digest.hex(), peer, self._wrong_keys)

    async def identify_session(self, token: str, peer: str = "") -> Identity:
        """The holder of the key that this session of the console was opened with; raises as `identify` does. Sessions that
        have ended do not count as wrong keys: whoever had one may log in again at once."""
        if not is_token(token):
            raise Unauthenticated("this session is not known; log in again")
        digest = digest_of(token)
        return await self._identify(digest, SESSION + digest.hex(), peer, self._wrong_tokens)

    async def _identify(self, digest: bytes, asked: str, peer: str, wrong: WrongKeys) -> Identity:
        now_ms = self._clock.now_ms()
        known = self._known.get(digest) if self._listener.connected else None
        if known is not None and known.valid_at(now_ms):
            return known.identity
        trusted = self._trusted.get(digest)
        if trusted is None or not trusted.valid_at(now_ms) or time.monotonic() - trusted.looked_up_at > TRUSTED_FOR:
            wrong.check(peer)
            trusted = None
        try:
            if trusted is not None:
                return (await self._patient.ask(asked, trusted)).identity
            return (await self._look_up(asked)).identity
        except Unauthenticated:
            wrong.count(peer)
            raise

    def forget_session(self, token: str) -> None:
        """It has ended: this node knows that before the notification comes back to it."""
        self._on_revoked(SESSION + digest_of(token).hex())

    def enter(self, identity: Identity, request: OpenRequest) -> None:
        """Tell this request when its key is revoked, until it leaves."""
        if identity.key_id is not None:
            self._open.setdefault(identity.key_id, set()).add(request)

    def watch(self, request: OpenRequest, still_allowed: StillAllowed) -> None:
        """End this request when it is not allowed any more, until it leaves."""
        self._watched[request] = still_allowed

    def leave(self, identity: Identity, request: OpenRequest) -> None:
        self._watched.pop(request, None)
        requests = self._open.get(identity.key_id or "")
        if requests is not None:
            requests.discard(request)
            if not requests:
                del self._open[identity.key_id or ""]

    async def run(self) -> None:
        """Look for revocations of which no notification came, for ever."""
        while True:
            await asyncio.sleep(LOOK_EVERY)
            try:
                await self.end_revoked()
                await self.end_forbidden()
            except MeantimeError as error:
                log.warning("keys_not_checked", error=error.detail)

    async def end_revoked(self) -> None:
        """Tell the open requests of all keys that are not valid any more."""
        asked = list(self._open)
        if asked:
            valid = {row["id"] for row in await self._database.fetch_all(SQL["valid"], {"ids": asked})}
            for id in asked:
                if id not in valid:
                    self._distrust(id)
                    self._tell(id)

    async def end_forbidden(self) -> None:
        """End the requests that are not allowed any more."""
        for request, still_allowed in list(self._watched.items()):
            try:
                await still_allowed()
            except (Forbidden, NotFound, Unauthenticated) as error:
                log.info("open_request_ended", detail=error.detail)
                self._watched.pop(request, None)
                request.key_revoked()

    async def _look_up(self, asked: str) -> KnownKey:
        digest = bytes.fromhex(asked.removeprefix(SESSION))
        query, thing = (SQL["find_session"], "session") if asked.startswith(SESSION) else (SQL["find"], "key")
        while True:
            heard, looked_up_at = self._heard, time.monotonic()
            row = await self._database.fetch_one(query, {"digest": digest, "now_ms": self._clock.now_ms()})
            if row is None:
                self._known.pop(digest, None)
                self._trusted.pop(digest, None)
                raise Unauthenticated(f"this {thing} is not known, or it was revoked")
            if heard == self._heard:
                break
        identity = Identity(row["id"], frozenset(row["scopes"]), row["name"])
        key = KnownKey(identity, looked_up_at, row["expires_ms"])
        for kept in (self._known, self._trusted):
            if len(kept) >= REMEMBERED:
                kept.clear()
            kept[digest] = key
        return key

    def _on_revoked(self, id: str | None) -> None:
        self._heard += 1
        self._known.clear()
        if id is not None and id.startswith(SESSION):
            self._trusted.pop(bytes.fromhex(id.removeprefix(SESSION)), None)
        elif id is not None:
            self._distrust(id)
            self._tell(id)

    def _distrust(self, id: str) -> None:
        self._trusted = {digest: key for digest, key in self._trusted.items() if key.identity.key_id != id}

    def _tell(self, id: str) -> None:
        requests = list(self._open.get(id, ()))
        if requests:
            log.info("open_requests_ended", key_id=id, requests=len(requests))
        for request in requests:
            request.key_revoked()
