"""Running jobs: in the loop, in threads, within their time; and what waits for them."""

import asyncio
import threading
import time
from contextlib import asynccontextmanager, contextmanager

import pytest

from meantime import App, StopWorker
from meantime.errors import Invalid, TimeLimitReached
from meantime.workers.app import Job, Message
from meantime.workers.processing.inbox import MOST_MESSAGES, Inbox
from meantime.workers.processing.job import JobExecution, entered
from meantime.workers.processing.threads import Threads


def message(number=0):
    return Message({"n": number}, "orders", "0", f"001-0001-{number:018d}", 1000 + number)


@pytest.fixture
async def threads():
    threads = Threads(4)
    yield threads
    threads.close()


async def test_a_plain_function_runs_in_a_thread_and_gets_the_context(threads):
    seen = []
    job = Job("orders", lambda message, context: seen.append((message.event, context, threading.current_thread())))
    await JobExecution(threads, "context").attempt(job, [message(7)])
    event, context, thread = seen[0]
    assert (event, context) == ({"n": 7}, "context")
    assert thread is not threading.main_thread()


async def test_a_coroutine_runs_in_the_loop(threads):
    seen = []

    async def handle(message, context):
        seen.append(threading.current_thread())

    await JobExecution(threads, None).attempt(Job("orders", handle), [message()])
    assert seen == [threading.main_thread()]


async def test_a_batch_is_a_list(threads):
    seen = []
    job = Job("orders", lambda messages, context: seen.append([m.event["n"] for m in messages]), batch=10)
    await JobExecution(threads, None).attempt(job, [message(1), message(2)])
    assert seen == [[1, 2]]


@pytest.mark.parametrize("error", [ValueError("no"), StopWorker("enough"), StopIteration(1)])
async def test_what_a_thread_raises_comes_out(threads, error):
    def handle(message, context):
        raise error

    expected = RuntimeError if isinstance(error, StopIteration) else type(error)
    with pytest.raises(expected):
        await JobExecution(threads, None).attempt(Job("orders", handle), [message()])


async def test_a_coroutine_is_cancelled_at_its_time_limit(threads):
    cancelled = []

    async def handle(message, context):
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.append(True)
            raise

    with pytest.raises(TimeLimitReached):
        await JobExecution(threads, None).attempt(Job("orders", handle, time_limit=0.01), [message()])
    assert cancelled == [True]


async def test_a_timeout_of_the_job_itself_is_its_own_failure(threads):
    async def handle(message, context):
        raise TimeoutError("upstream")

    with pytest.raises(TimeoutError, match="upstream"):
        await JobExecution(threads, None).attempt(Job("orders", handle, time_limit=5), [message()])


async def test_a_busy_function_is_interrupted_at_its_time_limit(threads):
    ended = threading.Event()

    def handle(message, context):
        try:
            while True:
                time.monotonic()
        finally:
            ended.set()

    with pytest.raises(TimeLimitReached):
        await JobExecution(threads, None).attempt(Job("orders", handle, time_limit=0.05), [message()])
    assert ended.wait(60)


async def test_a_function_that_cannot_be_interrupted_is_left_to_itself(threads, monkeypatch):
    monkeypatch.setattr("meantime.workers.processing.threads.GRACE", 0.01)
    release, after = threading.Event(), []

    def handle(message, context):
        release.wait()  # in C: not interruptible
        after.append("went on")

    with pytest.raises(TimeLimitReached):
        await JobExecution(threads, None).attempt(Job("orders", handle, time_limit=0.01), [message()])
    release.set()
    await JobExecution(threads, None).attempt(Job("orders", lambda message, context: None), [message()])
    assert after == []


async def test_threads_are_used_again(threads):
    used = set()
    job = Job("orders", lambda message, context: used.add(threading.get_ident()))
    for _ in range(5):
        await JobExecution(threads, None).attempt(job, [message()])
    assert len(used) == 1


async def test_no_more_threads_than_allowed_run_at_once():
    threads, together, most = Threads(2), [], []
    lock = threading.Lock()
    gate = threading.Barrier(2, timeout=5)

    def handle(message, context):
        with lock:
            together.append(1)
            most.append(len(together))
        gate.wait()
        with lock:
            together.pop()

    execution, job = JobExecution(threads, None), Job("orders", handle)
    await asyncio.gather(*(execution.attempt(job, [message()]) for _ in range(4)))
    threads.close()
    assert max(most) == 2


# The application's context


async def test_a_context_may_be_sync_async_or_a_function():
    log = []

    @contextmanager
    def plain():
        log.append("in")
        yield "plain"
        log.append("out")

    @asynccontextmanager
    async def asynchronous():
        yield "async"

    for context, expected in ((plain(), "plain"), (plain, "plain"), (asynchronous, "async"), (None, None)):
        async with entered(App("sync", context=context).context) as value:
            assert value == expected
    assert log == ["in", "out"] * 2


async def test_a_context_that_is_none_is_refused():
    with pytest.raises(Invalid, match="context"):
        async with entered(5):
            pass


# Inboxes


def test_an_inbox_keeps_order_and_remembers_the_position():
    arrived = []
    inbox = Inbox("", lambda: arrived.append(1))
    for number in range(3):
        inbox.put([message(number)], 10)
    assert [m.event["n"] for m in inbox.take(2)] == [0, 1]
    assert [m.event["n"] for m in inbox.take(2)] == [2]
    assert inbox.position == message(2).cursor
    assert arrived == [1]


async def test_an_inbox_is_bounded_and_says_when_there_is_room():
    inbox = Inbox("", lambda: None)
    for number in range(MOST_MESSAGES):
        inbox.put([message(number)], 10)
    assert inbox.full
    assert not await inbox.room(0.01)
    waiting = asyncio.create_task(inbox.room(None))
    await asyncio.sleep(0)
    inbox.take(1)
    assert await waiting


async def test_a_closed_inbox_keeps_nobody_waiting():
    inbox = Inbox("", lambda: None)
    inbox.put([message()], 3 << 20)
    waiting = asyncio.create_task(inbox.room(None))
    await asyncio.sleep(0)
    inbox.close()
    assert await waiting
    assert inbox.take(1) == []


def test_a_queue_with_a_time_and_no_cursor_lets_go_by_what_is_older():
    inbox = Inbox("", lambda: None, skip_before_ms=1002)
    for number in range(4):
        inbox.put([message(number)], 10)
    assert [m.event["n"] for m in inbox.take(9)] == [2, 3]
