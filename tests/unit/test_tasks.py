"""Tasks end, also if they miss that they were asked."""

import asyncio

import pytest

from meantime import tasks as background
from meantime.tasks import running


class Deaf:
    """Misses the first so many cancellations."""

    def __init__(self, times: int) -> None:
        self.missed = 0
        self._times = times

    async def run(self) -> None:
        while True:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                if self.missed == self._times:
                    raise
                self.missed += 1


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(background, "AGAIN_AFTER", 0.01)


async def test_a_task_that_missed_its_cancellation_is_asked_again() -> None:
    deaf, prompt = Deaf(2), Deaf(0)
    tasks = [asyncio.create_task(one.run()) for one in (deaf, prompt)]
    await asyncio.sleep(0)
    async with asyncio.timeout(60):
        outcomes = await background.end(*tasks)
    assert (deaf.missed, prompt.missed) == (2, 0)
    assert [type(outcome) for outcome in outcomes] == [asyncio.CancelledError] * 2


async def test_a_block_ends_although_its_task_missed_it() -> None:
    async with asyncio.timeout(60):
        async with running(Deaf(1).run(), name="deaf") as task:
            await asyncio.sleep(0)
    assert task.cancelled()


async def test_what_has_ended_before_is_told_as_it_ended() -> None:
    async def work() -> int:
        return 7

    async def failing() -> None:
        raise ValueError("seven")

    done, failed = asyncio.create_task(work()), asyncio.create_task(failing())
    await asyncio.wait({done, failed})
    outcomes = await background.end(done, failed)
    assert outcomes[0] == 7
    assert isinstance(outcomes[1], ValueError)
    assert await background.end() == []
