"""Many callers share one statement."""

import asyncio
from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from meantime.errors import Conflict
from meantime.topics.merging import Merger, Sizes


async def test_callers_that_come_while_a_statement_runs_share_the_next_one() -> None:
    gate, batches = asyncio.Event(), []

    async def run(items: Sequence[int]) -> list[int]:
        batches.append(list(items))
        await gate.wait()
        return [item * 10 for item in items]

    merger: Merger[int, int] = Merger(run, lanes=1)
    calls = [asyncio.create_task(merger.submit([number])) for number in range(5)]
    await asyncio.sleep(0)
    gate.set()
    assert await asyncio.gather(*calls) == [[0], [10], [20], [30], [40]]
    assert sum(map(len, batches)) == 5
    assert len(batches) <= 2


async def test_an_error_reaches_every_caller_and_the_next_batch_runs() -> None:
    async def run(items: Sequence[int]) -> list[int]:
        if 1 in items:
            raise Conflict()
        return list(items)

    merger: Merger[int, int] = Merger(run, lanes=1)
    failed = await asyncio.gather(merger.submit([1]), merger.submit([1]), return_exceptions=True)
    assert [type(one) for one in failed] == [Conflict, Conflict]
    assert await merger.submit([2]) == [2]


@given(st.lists(st.integers(0, 50), max_size=60), st.integers(1, 10), st.integers(1, 120))
def test_pieces_keep_the_order_and_their_size(items: list[int], most: int, heaviest: int) -> None:
    sizes: Sizes[int] = Sizes(most=most, weigh=lambda item: item, heaviest=heaviest)
    pieces = sizes.pieces(items)
    assert [item for piece in pieces for item in piece] == items
    assert all(len(piece) <= most and (sum(piece) <= heaviest or len(piece) == 1) for piece in pieces)
