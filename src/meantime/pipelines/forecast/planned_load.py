"""The load that a table would make on top of the load that is there. Pure."""

from collections.abc import Mapping, Sequence

from meantime.sdk.messages import Slot


def merged(present: Sequence[Slot], new: Mapping[int, int], step_ms: int) -> list[Slot]:
    """Slots whose `available` is what is there and whose `waiting` is new. `new` is finer than the slots."""
    if not present:
        return []
    begin = present[0].from_ms
    added: dict[int, int] = {}
    for from_ms, count in new.items():
        index = max(0, (from_ms - begin) // step_ms)
        added[index] = added.get(index, 0) + count
    return [
        Slot(from_ms=slot.from_ms, waiting=added.get(index, 0), available=slot.total) for index, slot in enumerate(present)
    ]
