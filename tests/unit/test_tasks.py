"""Tasks end, also if they miss that they were asked."""

import asyncio

import pytest

from meantime import tasks as background
from meantime.errors import NotFound, Unavailable
from meantime.tasks import PatientCalls, SharedCalls, running


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


class Asked:
    """A call that takes until it is let go, and counts how often it was made."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.let_go = asyncio.Event()

    async def call(self, name: str) -> str:
        self.names.append(name)
        await self.let_go.wait()
        if name == "bad":
            raise ValueError(name)
        return name.upper()


async def test_those_who_ask_for_the_same_at_once_share_one_call_and_its_answer() -> None:
    asked = Asked()
    shared = SharedCalls(asked.call)
    asking = [asyncio.create_task(shared.ask(name)) for name in ("a", "a", "b", "a", "bad", "bad")]
    await asyncio.sleep(0)
    asking[0].cancel()
    asked.let_go.set()
    answers = await asyncio.gather(*asking, return_exceptions=True)
    assert asked.names == ["a", "b", "bad"]
    assert [type(answers[0]), *answers[1:4]] == [asyncio.CancelledError, "A", "B", "A"]
    assert [str(answer) for answer in answers[4:]] == ["bad", "bad"]
    assert await shared.ask("a") == "A"
    assert asked.names[-1] == "a"


async def test_who_asks_after_a_change_gets_an_answer_of_after_it() -> None:
    asked = Asked()
    shared = SharedCalls(asked.call)
    before = asyncio.create_task(shared.ask("a"))
    await asyncio.sleep(0)
    shared.forget("a")
    after = asyncio.create_task(shared.ask("a"))
    await asyncio.sleep(0)
    asked.let_go.set()
    assert [await before, await after] == ["A", "A"]
    assert asked.names == ["a", "a"]


async def test_the_last_answer_will_do_while_nothing_is_answered() -> None:
    answers: list[asyncio.Future[str]] = []

    def answer(name: str) -> "asyncio.Future[str]":
        answers.append(asyncio.get_running_loop().create_future())
        return answers[-1]

    async def call(name: str) -> str:
        return await answer(name)

    calls = PatientCalls(call, patience=0.001)
    assert await calls.ask("a", "old") == "old"
    assert calls.silent
    assert await calls.ask("a", "old") == "old"
    assert len(answers) == 1, "it was asked again while an answer was still awaited"
    answers[0].set_result("new")
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert not calls.silent
    calls = PatientCalls(call, patience=60.0)
    asking = asyncio.create_task(calls.ask("a", "old"))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    answers[1].set_exception(Unavailable())
    assert await asking == "old"
    asking = asyncio.create_task(calls.ask("a", "old"))
    assert await asking == "old"
    await asyncio.sleep(0)
    answers[2].set_exception(NotFound())
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert not calls.silent, "to be told that there is no such thing is an answer"
