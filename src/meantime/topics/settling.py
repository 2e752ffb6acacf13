"""One shape for every operation on messages by id: try it in one statement, then explain what did not happen.

The statement decides; the look afterwards only finds the words. If the look says that it should have worked, something
changed in between, and it is tried again.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from meantime.clock import Clock
from meantime.topics.merging import rounds
from meantime.topics.model import Outcome, Position
from meantime.topics.rules import OK, STALE_VERSION
from meantime.topics.storage.messages import HolderRow, Key, MessageStore, OwnerRow

Row = TypeVar("Row", HolderRow, OwnerRow)
Apply = Callable[[Sequence[Row], int], Awaitable[dict[Key, Outcome]]]
"""Does it, and answers for those that it was done to."""
Explain = Callable[[Row, Position | None, int], str]
"""The first reason that applies, or `ok` if there is none."""

_TRIES = 3


def key_of(row: HolderRow | OwnerRow) -> Key:
    return row.topic_id, row.id


async def settle(
    messages: MessageStore, clock: Clock, rows: Sequence[Row], apply: Apply[Row], explain: Explain[Row]
) -> list[Outcome]:
    """One outcome per row, in the order of the rows; rows about the same message come one after the other."""
    outcomes: dict[int, Outcome] = {}
    if len({key_of(row) for row in rows}) == len(rows):
        settled = await _settle_distinct(messages, clock, rows, apply, explain)
        return [settled[key_of(row)] for row in rows]
    for indexes in rounds(rows, key_of):
        settled = await _settle_distinct(messages, clock, [rows[index] for index in indexes], apply, explain)
        outcomes |= {index: settled[key_of(rows[index])] for index in indexes}
    return [outcomes[index] for index in range(len(rows))]


async def _settle_distinct(
    messages: MessageStore, clock: Clock, rows: Sequence[Row], apply: Apply[Row], explain: Explain[Row]
) -> dict[Key, Outcome]:
    outcomes: dict[Key, Outcome] = {}
    left = sorted(rows, key=key_of)
    for _ in range(_TRIES):
        now_ms = clock.now_ms()
        outcomes |= await apply(left, now_ms)
        if len(outcomes) == len(rows):
            return outcomes
        left = [row for row in left if key_of(row) not in outcomes]
        positions = await messages.positions([key_of(row) for row in left])
        reasons = {key_of(row): explain(row, positions.get(key_of(row)), now_ms) for row in left}
        outcomes |= {key: Outcome(key[1], reason) for key, reason in reasons.items() if reason != OK}
        left = [row for row in left if key_of(row) not in outcomes]
    return outcomes | {key_of(row): Outcome(row.id, STALE_VERSION) for row in left}
