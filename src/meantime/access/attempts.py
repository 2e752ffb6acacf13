"""How many wrong keys an address may try: a few at once, then one in a while. Bounded in memory, whoever asks.

Keys cannot be guessed, but each guess is a question to PostgreSQL. Of an IPv6 address the network counts, since a client has
all of it.
"""

import math
import time
from collections import OrderedDict
from collections.abc import Callable
from ipaddress import IPv6Address, ip_address

from meantime.errors import TooManyRequests

AT_ONCE = 20
ONE_EVERY = 1.0
"""Seconds after which one more may be tried."""
ADDRESSES = 10_000
NETWORK_BITS = 64


class WrongKeys:
    """For each address the instant until which its wrong keys are paid for. Those that were idle longest are forgotten."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._paid_at: OrderedDict[str, float] = OrderedDict()

    def __len__(self) -> int:
        return len(self._paid_at)

    def check(self, peer: str) -> None:
        """Raises TooManyRequests while an address may not try another key."""
        wait_for = self._paid_at.get(source_of(peer), 0.0) - self._now() - (AT_ONCE - 1) * ONE_EVERY
        if wait_for > 0:
            raise TooManyRequests("too many wrong keys came from this address", retry_after=math.ceil(wait_for))

    def count(self, peer: str) -> None:
        source = source_of(peer)
        self._paid_at[source] = max(self._paid_at.get(source, 0.0), self._now()) + ONE_EVERY
        self._paid_at.move_to_end(source)
        if len(self._paid_at) > ADDRESSES:
            self._paid_at.popitem(last=False)


def source_of(peer: str) -> str:
    """What counts as one source: an IPv4 address, or the network of an IPv6 address."""
    if ":" not in peer:
        return peer
    try:
        address = ip_address(peer.partition("%")[0])
    except ValueError:
        return peer
    if not isinstance(address, IPv6Address):
        return peer
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return f"{int(address) >> (128 - NETWORK_BITS):x}"
