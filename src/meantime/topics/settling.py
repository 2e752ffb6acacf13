"""One shape for every operation on messages by id: try it in one statement, then explain what did not happen.

The statement decides; the look afterwards only finds the words. If the look says that it should have worked, something
changed in between, and it is tried again.

Rows about the same message come one after the other. What the place of the message refuses changes nothing, so all that are
refused after a change are judged by one look: a message that is named ten thousand times costs a few statements.
"""

from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import TypeVar

from meantime.clock import Clock
from meantime.topics.model import Outcome, Position
from meantime.topics.rules import OK, STALE_VERSION
from meantime.topics.storage.messages import HolderRow, Key, MessageStore, OwnerRow

Row = TypeVar("Row", HolderRow, OwnerRow)
Apply = Callable[[Sequence[Row], int], Awaitable[dict[Key, Outcome]]]
"""Does it, and answers for those that it was done to."""
Explain = Callable[[Row, Position | None, int], str]
"""The first reason that applies, or `ok` if there is none."""

_TRIES = 3
_MOST_CHANGES = 8
"""Who changes a message more often with one statement guesses versions, and hears that they are stale."""


def key_of(row: HolderRow | OwnerRow) -> Key:
    return row.topic_id, row.id


async def settle(
    messages: MessageStore, clock: Clock, rows: Sequence[Row], apply: Apply[Row], explain: Explain[Row]
) -> list[Outcome]:
    """One outcome per row, in the order of the rows."""
    outcomes: dict[int, Outcome] = {}
    left: dict[Key, list[int]] = {}
    for index, row in enumerate(rows):
        left.setdefault(key_of(row), []).append(index)
    for _ in range(_MOST_CHANGES):
        settled = await _settle_distinct(messages, clock, [rows[indexes[0]] for indexes in left.values()], apply, explain)
        outcomes |= {indexes[0]: settled[key] for key, indexes in left.items()}
        left = {key: indexes[1:] for key, indexes in left.items() if len(indexes) > 1}
        if not left:
            break
        positions, now_ms = await messages.positions(sorted(left)), clock.now_ms()
        refused = {
            index: Outcome(key[1], reason)
            for key, indexes in left.items()
            for index, reason in _refusals(rows, indexes, positions.get(key), now_ms, explain)
        }
        outcomes |= refused
        left = {key: rest for key, indexes in left.items() if (rest := [one for one in indexes if one not in refused])}
    outcomes |= {index: Outcome(key[1], STALE_VERSION) for key, indexes in left.items() for index in indexes}
    return [outcomes[index] for index in range(len(rows))]


def _refusals(
    rows: Sequence[Row], indexes: Sequence[int], position: Position | None, now_ms: int, explain: Explain[Row]
) -> Iterator[tuple[int, str]]:
    """Of rows about one message: why not, up to the first one that its place does not refuse."""
    for index in indexes:
        reason = explain(rows[index], position, now_ms)
        if reason == OK:
            return
        yield index, reason


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
