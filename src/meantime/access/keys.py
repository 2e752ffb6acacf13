"""API keys: made once, shown once, stored as a digest.

A key is `mt_<id>_<secret>` with 256 bits of randomness, so a plain SHA-256 is all the stretching it needs. Nodes remember
the keys they have seen; this cache is cleared when PostgreSQL says that a key was revoked, and is not used at all while
such a notification could not arrive. So a revoked key stops working at once.
"""

import hashlib
import secrets
from dataclasses import dataclass

from meantime.access.scopes import Identity, check_scope
from meantime.database.listener import Listener
from meantime.database.pool import Database
from meantime.database.queries import load
from meantime.errors import Invalid, NotFound, Unauthenticated
from meantime.names import check_identifier

SQL = load("meantime.access", "keys.sql")
CHANNEL = "meantime_keys"
REMEMBERED = 10_000


@dataclass(frozen=True, slots=True)
class Key:
    id: str
    name: str
    scopes: tuple[str, ...]
    created_ms: int
    revoked_ms: int | None


def digest_of(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()


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
        id = secrets.token_hex(4)
        key = f"mt_{id}_{secrets.token_urlsafe(32)}"
        values = {"id": id, "name": name, "digest": digest_of(key), "scopes": checked, "now_ms": now_ms}
        await self._database.execute(SQL["add"], values)
        return id, key

    async def list(self) -> list[Key]:
        rows = await self._database.fetch_all(SQL["list"])
        return [Key(row["id"], row["name"], tuple(row["scopes"]), row["created_ms"], row["revoked_ms"]) for row in rows]

    async def revoke(self, id: str, now_ms: int) -> None:
        if await self._database.fetch_one(SQL["revoke"], {"id": id, "now_ms": now_ms}) is None:
            raise NotFound(f"there is no valid key {id!r}; `meantime keys list` shows them")


class Authenticator:
    """Tells a node who holds a key."""

    def __init__(self, database: Database, listener: Listener) -> None:
        self._database = database
        self._listener = listener
        self._known: dict[bytes, Identity] = {}
        listener.subscribe(CHANNEL, lambda _: self._known.clear())

    async def identify(self, authorization: str | None) -> Identity:
        """The holder of `Bearer <key>`; raises Unauthenticated."""
        scheme, _, key = (authorization or "").partition(" ")
        if scheme.lower() != "bearer" or not key.strip():
            raise Unauthenticated()
        digest = digest_of(key.strip())
        if self._listener.connected and digest in self._known:
            return self._known[digest]
        return await self._look_up(digest)

    async def _look_up(self, digest: bytes) -> Identity:
        row = await self._database.fetch_one(SQL["find"], {"digest": digest})
        if row is None:
            raise Unauthenticated("this key is not known, or it was revoked")
        identity = Identity(row["id"], frozenset(row["scopes"]))
        if len(self._known) >= REMEMBERED:
            self._known.clear()
        self._known[digest] = identity
        return identity
