"""Extends the leases of one consumer while their handlers work, and reports those that are lost.

Leases are held weakly: one that was dropped by its handler, neither deleted nor released, is not extended any more and
goes back to the broker when it expires. `plan` decides, `LeaseKeeper.turn` acts once; `LeaseKeeper.run` repeats it.
"""

import asyncio
import math
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from weakref import WeakValueDictionary

from meantime.errors import MeantimeError
from meantime.sdk.calls import leases as lease_calls
from meantime.sdk.consuming.async_lease import AsyncLease
from meantime.sdk.http.transport import AsyncSender
from meantime.sdk.messages import LeasedMessage

#: A lease is extended when less than this share of it is left.
SHARE_LEFT = 0.6
LARGEST_BATCH = 1000


@dataclass(frozen=True, slots=True)
class ExtensionPlan:
    """Leases to extend now, leases that ran out, and seconds until the next look."""

    extend: Sequence[AsyncLease]
    expired: Sequence[AsyncLease]
    look_after: float


def plan(leases: Iterable[AsyncLease], lease_for: float, *, extending: bool) -> ExtensionPlan:
    free = [lease for lease in leases if not lease.settled and not lease.busy]
    expired = [lease for lease in free if lease.lost]
    alive = [lease for lease in free if not lease.lost]
    threshold = _threshold(lease_for, extending)
    due = [lease for lease in alive if lease.expires_in <= threshold] if extending else []
    next_look = min((lease.expires_in - threshold for lease in alive), default=lease_for)
    return ExtensionPlan(due[:LARGEST_BATCH], expired, min(max(next_look, lease_for / 20, 0.01), lease_for))


def _threshold(lease_for: float, extending: bool) -> float:
    """A lease with fewer seconds left is to be looked at."""
    return lease_for * SHARE_LEFT if extending else 0.0


class LeaseKeeper:
    def __init__(self, sender: AsyncSender, topic: str, consumer_id: str, lease_for: float, *, extending: bool) -> None:
        self._sender = sender
        self._topic = topic
        self._consumer_id = consumer_id
        self._lease_for = lease_for
        self._extending = extending
        self._leases: WeakValueDictionary[str, AsyncLease] = WeakValueDictionary()
        self._changed = asyncio.Event()
        self._look_at = math.inf

    def add(self, lease: AsyncLease) -> None:
        """Looking goes through all leases, so a new one asks for it only if the next look would come too late for it."""
        former = self._leases.get(lease.id)
        self._leases[lease.id] = lease
        if former is not None:  # its message has come again before anybody has looked: it ran out
            former.lose()
        if time.monotonic() + lease.expires_in - _threshold(self._lease_for, self._extending) < self._look_at:
            self._changed.set()

    def recognise(self, leased: LeasedMessage) -> bool:
        """Whether this is a lease that is already being worked on; if so, its new version and expiry are taken over."""
        known = self._leases.get(leased.id)
        if known is None or known.settled or known.lost or known.attempts != leased.attempts:
            return False
        if not known.busy:
            known.renew(leased)
        return True

    async def run(self) -> None:
        while True:
            self._changed.clear()
            self._look_at = math.inf
            look_after = await self.turn()
            self._look_at = time.monotonic() + look_after
            try:
                async with asyncio.timeout(look_after):
                    await self._changed.wait()
            except TimeoutError:
                continue

    async def turn(self) -> float:
        """Extend what is due, report what is lost; returns the seconds until the next turn."""
        decided = plan(list(self._leases.values()), self._lease_for, extending=self._extending)
        for lease in decided.expired:
            self._forget(lease)
            lease.lose()
        if decided.extend:
            await self._extend(decided.extend)
        return decided.look_after

    async def _extend(self, leases: Sequence[AsyncLease]) -> None:
        for lease in leases:
            await lease.lock.acquire()
        try:
            call = lease_calls.extend_leases(self._topic, self._consumer_id, leases, self._lease_for)
            outcomes = await self._sender.send(replace(call, answer_for=self._lease_for / 5), retry_for=0)
            for lease, outcome in zip(leases, outcomes, strict=True):
                if not await lease.learn(outcome):
                    self._forget(lease)
                    lease.lose()
        except MeantimeError:
            # Nothing is known about these leases; the next turn tries again, on another node, until they expire.
            return
        finally:
            for lease in leases:
                lease.lock.release()

    def _forget(self, lease: AsyncLease) -> None:
        if self._leases.get(lease.id) is lease:
            del self._leases[lease.id]
