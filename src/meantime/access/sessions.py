"""Sessions of the console: a key becomes a token that only a cookie carries, for some hours.

The token is random and says nothing about the key; PostgreSQL has its digest, so every node knows it and nobody who reads
the database can use it. It may do what its key may. It ends after its time, at a logout, and with its key, each of them at
once on every node; whatever a browser has left of it is worth nothing from then on.
"""

from meantime.access.keys import SQL, Authenticator, digest_of, is_token, new_token
from meantime.access.scopes import Identity
from meantime.clock import Clock
from meantime.database.pool import Database

PURGE_EVERY = 600.0


class ConsoleSessions:
    """`lasts_for` are the seconds after which one has to log in again."""

    def __init__(self, database: Database, authenticator: Authenticator, clock: Clock, lasts_for: int) -> None:
        self._database = database
        self._authenticator = authenticator
        self._clock = clock
        self.lasts_for = lasts_for

    async def begin(self, key: str, peer: str) -> str:
        """The token of a new session. A wrong key counts as one of this address."""
        identity = await self._authenticator.identify(f"Bearer {key}", peer)
        token, now_ms = new_token(), self._clock.now_ms()
        values = {"digest": digest_of(token), "key_id": identity.key_id, "now_ms": now_ms}
        await self._database.execute(SQL["add_session"], values | {"expires_ms": now_ms + self.lasts_for * 1000})
        return token

    async def end(self, token: str) -> None:
        """Again is fine."""
        if is_token(token):
            await self._database.fetch_all(SQL["end_session"], {"digest": digest_of(token)})
            self._authenticator.forget_session(token)

    async def identify(self, token: str, peer: str) -> Identity:
        return await self._authenticator.identify_session(token, peer)

    async def purge(self) -> int:
        """Forget those that have ended by themselves."""
        return await self._database.execute(SQL["purge_sessions"], {"now_ms": self._clock.now_ms()})
