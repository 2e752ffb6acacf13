"""One plan of shares, for queues among workers and for partitions among streams of a subscription: a pure function.

Sizes differ by at most one, nothing moves that could have stayed, and everybody who knows the same gets the same plan.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import TypeVar

Item = TypeVar("Item", str, tuple[str, int])


def plan_shares(
    holders: Collection[str], items: Collection[Item], held: Mapping[str, Collection[Item]]
) -> dict[str, list[Item]]:
    """The items of each holder, sorted, given what each of them holds now; empty when there are no holders."""
    if not holders:
        return {}
    shares = _held(sorted(holders), set(items), held)
    sizes = _sizes(shares, len(set(items)))
    for holder, size in sizes.items():
        del shares[holder][size:]
    free = iter(sorted(set(items).difference(*shares.values())))
    for holder, size in sizes.items():
        shares[holder] += [next(free) for _ in range(size - len(shares[holder]))]
    return {holder: sorted(share) for holder, share in shares.items()}


def _held(holders: Sequence[str], items: set[Item], held: Mapping[str, Collection[Item]]) -> dict[str, list[Item]]:
    """What each holds of these items; an item that two hold counts for the first."""
    left = set(items)
    found = {}
    for holder in holders:
        mine = left.intersection(held.get(holder, ()))
        left -= mine
        found[holder] = sorted(mine)
    return found


def _sizes(shares: Mapping[str, Sequence[Item]], items: int) -> dict[str, int]:
    """How many each may have. Those who hold most get the one more, since taking it from them would be a move."""
    least, rest = divmod(items, len(shares))
    by_size = sorted(shares, key=lambda holder: (-len(shares[holder]), holder))
    return {holder: least + (rank < rest) for rank, holder in enumerate(by_size)}
