"""Background work goes on after a failure, and whoever keeps failing is named."""

import asyncio
from collections.abc import Callable

import pytest

from meantime import supervision
from meantime.errors import Unavailable
from meantime.supervision import Duty, failing_tasks, kept_running, on_duty, supervised


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervision, "PAUSE_FIRST", 0.001)
    monkeypatch.setattr(supervision, "PAUSE_MOST", 0.002)
    monkeypatch.setattr(supervision, "STEADY_AFTER", 0.02)


class Work:
    """Fails so many times, then goes well until it is cancelled."""

    def __init__(self, failures: int, error: Callable[[], BaseException] = lambda: ValueError("seven")) -> None:
        self.well = asyncio.Event()
        self.runs = 0
        self._failures = failures
        self._error = error

    async def run(self) -> None:
        self.runs += 1
        if self.runs <= self._failures:
            raise self._error()
        self.well.set()
        await asyncio.Event().wait()

    async def run_once(self) -> None:
        self.runs += 1
        if self.runs <= self._failures:
            raise self._error()
        self.well.set()


def counted(name: str) -> float:
    return supervision.FAILURES.labels(name)._value.get()


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not condition():  # noqa: ASYNC110 - what is waited for has no event
            await asyncio.sleep(0)


async def test_work_that_fails_is_begun_again_and_counted() -> None:
    work = Work(2)
    async with asyncio.timeout(60), kept_running(work.run, "work that fails") as task:
        await work.well.wait()
        assert (work.runs, counted("work that fails"), failing_tasks()) == (3, 2, [])
    assert task.cancelled()


async def test_who_keeps_failing_is_named_until_it_goes_well_for_a_while() -> None:
    work = Work(5)
    async with kept_running(work.run, "work", "orders"):
        await until(lambda: [str(task) for task in failing_tasks()] == ["work orders"])
        assert failing_tasks()[0].error == "ValueError: seven"
        await until(lambda: not failing_tasks())
        assert work.well.is_set()


async def test_nobody_is_named_who_has_ended() -> None:
    async with kept_running(Work(10_000).run, "work"):
        await until(lambda: bool(failing_tasks()))
    assert failing_tasks() == []


async def test_a_cancellation_that_nobody_asked_for_is_a_failure() -> None:
    work = Work(1, asyncio.CancelledError)
    async with asyncio.timeout(60), kept_running(work.run, "cancelled by nobody") as task:
        await work.well.wait()
        assert counted("cancelled by nobody") == 1
    assert task.cancelled()


async def test_work_that_returns_is_done() -> None:
    async def work() -> None:
        await asyncio.sleep(0)

    async with asyncio.timeout(60):
        await supervised(work, "work that returns")
    assert counted("work that returns") == 0


async def test_pauses_grow_to_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervision, "PAUSE_FIRST", 0.1)
    monkeypatch.setattr(supervision, "PAUSE_MOST", 10.0)
    record = supervision.TaskRecord("pausing")
    pauses = []
    for _ in range(2000):
        record.failed(ValueError())
        pauses.append(record.pause)
    record.went_well()
    assert pauses[:3] == [0.1, 0.2, 0.4]
    assert pauses[-1] == 10.0


@pytest.mark.parametrize("error", [ValueError, asyncio.CancelledError])
async def test_a_duty_that_fails_has_its_next_turn(error: Callable[[], BaseException]) -> None:
    work, told = Work(4, error), []
    async with asyncio.timeout(60), on_duty([Duty("failing duty", work.run_once, 0.001)], told.append):
        await until(lambda: bool(failing_tasks()))
        await work.well.wait()
        await until(lambda: not failing_tasks())
    assert told == ["failing duty"] * 4


async def test_a_duty_that_waits_for_others_has_not_failed() -> None:
    work = Work(5, Unavailable)
    async with asyncio.timeout(60), on_duty([Duty("waiting duty", work.run_once, 0.001)]):
        await work.well.wait()
    assert counted("waiting duty") == 0
