"""The ledger on real PostgreSQL and Kafka: what was asked for, how it ended, and that the account is true."""

import asyncio
import time
from uuid import uuid4

import msgspec
import pytest
import timers_dispatching
from confluent_kafka import Producer
from timers_world import kafka_with_topics

from meantime.errors import Conflict
from meantime.timers.ledger.account import LedgerBatch, LedgerWriter
from meantime.timers.ledger.reader import LedgerOptions, LedgerReader
from meantime.timers.ledger.store import LedgerStore
from meantime.timers.model import LedgerTotals, TimerId, TimerLimits, TimerOutcomes, TimerState
from meantime.timers.reports import DispatcherReport, FuturesReport
from meantime.timers.topics import DONE, REJECTED, REQUEST

S = 1_700_000_040
store = timers_dispatching.store


def now_ms() -> int:
    return round(time.time() * 1000)


async def book(store: LedgerStore, state: TimerState, *tokens: str, second: int = S, at_ms: int | None = None) -> None:
    async with store.writing() as connection:
        await store.apply(connection, state, {TimerId(token, second): at_ms for token in tokens})


async def sums(store: LedgerStore) -> LedgerTotals:
    totals, _ = await store.totals(S * 1000)
    return totals


async def state_of(store: LedgerStore, token: str) -> str:
    (standing,) = await store.find(token)
    return standing.state.word


async def until_it_is(store: LedgerStore, token: str, state: str) -> None:
    for _ in range(600):
        found = await store.find(token)
        if found and found[0].state.word == state:
            return
        await asyncio.sleep(0.1)
    raise AssertionError(f"{token} did not become {state}")


def write_as_a_dispatcher(address: str, done: TimerOutcomes) -> None:
    """In a transaction: Kafka puts a mark behind it."""
    producer = Producer({"bootstrap.servers": address, "transactional.id": uuid4().hex})
    producer.init_transactions(20)
    producer.begin_transaction()
    producer.produce(DONE, msgspec.msgpack.encode(done), partition=1)
    producer.commit_transaction(20)


async def until_all_is_read(books: LedgerReader) -> None:
    for _ in range(600):
        if (await books.report()).lag == 0:
            return
        await asyncio.sleep(0.1)
    raise AssertionError("the ledger says that something is left to read")


async def test_every_timer_is_counted_once_and_ends_in_one_account(store):
    await book(store, TimerState.PENDING, "a", "b", "c", "d")
    await book(store, TimerState.PENDING, "a", "b")
    assert await sums(store) == LedgerTotals(requested=4, fired=0, cancelled=0, rejected=0, pending=4)
    await book(store, TimerState.FIRED, "a", at_ms=S * 1000 + 7)
    await book(store, TimerState.VOID, "b")
    await book(store, TimerState.REJECTED, "c")
    assert await sums(store) == LedgerTotals(requested=4, fired=1, cancelled=1, rejected=1, pending=1)
    assert (await store.find("a"))[0].fired_at_ms == S * 1000 + 7
    assert [await state_of(store, token) for token in "abcd"] == ["fired", "cancelled", "rejected", "pending"]


async def test_a_timer_that_ends_twice_makes_a_difference(store):
    await book(store, TimerState.PENDING, "a")
    await book(store, TimerState.FIRED, "a", at_ms=1)
    assert (await sums(store)).difference == 0
    await book(store, TimerState.FIRED, "a", at_ms=2)
    assert (await sums(store)).difference == -1


async def test_a_cancel_may_come_before_its_request(store):
    await book(store, TimerState.VOID, "a")
    assert await sums(store) == LedgerTotals(0, 0, 0, 0, 0)
    await book(store, TimerState.PENDING, "a")
    assert await sums(store) == LedgerTotals(requested=1, fired=0, cancelled=1, rejected=0, pending=0)


async def test_an_end_may_be_read_before_its_request(store):
    await book(store, TimerState.FIRED, "a", at_ms=5)
    await book(store, TimerState.PENDING, "a")
    assert await sums(store) == LedgerTotals(requested=1, fired=1, cancelled=0, rejected=0, pending=0)


async def test_the_same_token_at_another_second_is_another_timer(store):
    await book(store, TimerState.PENDING, "a")
    await book(store, TimerState.PENDING, "a", second=S + 1)
    await book(store, TimerState.FIRED, "a", at_ms=5)
    assert [standing.state for standing in await store.find("a")] == [TimerState.FIRED, TimerState.PENDING]


async def test_what_a_node_notes_is_known_at_once_and_counted_when_it_is_read(store):
    await store.note([TimerId("a", S), TimerId("b", S)])
    assert await state_of(store, "a") == "pending"
    assert await sums(store) == LedgerTotals(0, 0, 0, 0, 0)
    assert await store.load(S, S + 10, 10) == {0: 2}
    await store.note_cancelled("b", S)
    assert await state_of(store, "b") == "cancelled"
    assert await store.load(S, S + 10, 10) == {0: 1}
    await book(store, TimerState.PENDING, "a", "b")
    await book(store, TimerState.VOID, "b")
    assert await sums(store) == LedgerTotals(requested=2, fired=0, cancelled=1, rejected=0, pending=1)


async def test_load_is_the_same_by_second_and_by_minute(store):
    start = S - S % 60
    seconds = range(start, start + 120, 7)
    for second in seconds:
        await book(store, TimerState.PENDING, f"t{second}", second=second)
    assert await store.load(start, start + 180, 60) == await store.load(start, start + 180, 60, count_below=0)
    assert sum((await store.load(start, start + 180, 1)).values()) == len(seconds)


async def test_what_has_ended_is_forgotten_and_what_is_pending_is_not(store):
    await book(store, TimerState.PENDING, "a", "b")
    await book(store, TimerState.FIRED, "a", at_ms=5)
    assert await store.forget(S + 1) == 1
    assert await store.find("a") == []
    assert await state_of(store, "b") == "pending"
    assert (await sums(store)).requested == 2


async def test_a_ledger_that_comes_second_changes_nothing(store):
    await store.begin_progress([(REQUEST, 0)])
    first, second = LedgerBatch(), LedgerBatch()
    for batch in (first, second):
        batch.requested[TimerId("a", S)] = None
        batch.note_place((REQUEST, 0), 0, 5)
    await LedgerWriter(store).write(first)
    with pytest.raises(Conflict):
        await LedgerWriter(store).write(second)
    assert (await sums(store)).requested == 1
    assert await store.progress() == {(REQUEST, 0): 5}


async def test_late_timers_are_judged_by_what_is_known(store):
    await book(store, TimerState.PENDING, "a", "b")
    await book(store, TimerState.FIRED, "b", at_ms=5)
    known = await store.entries([TimerId("a", S), TimerId("b", S), TimerId("c", S)])
    assert {timer.token: standing.state for timer, standing in known.items()} == {
        "a": TimerState.PENDING,
        "b": TimerState.FIRED,
    }


async def test_reports_are_kept_by_kind(store):
    await store.report("d1", 100, DispatcherReport(held=3, lateness_ms={5: 2}))
    await store.report("d2", 200, DispatcherReport(held=4))
    await store.report("f", 200, FuturesReport(places={0: 7}))
    assert [reported.name for reported in await store.reports(DispatcherReport, 0)] == ["d2", "d1"]
    assert [reported.name for reported in await store.reports(DispatcherReport, 150)] == ["d2"]
    (futures,) = await store.reports(FuturesReport, 0)
    assert futures.report == FuturesReport(places={0: 7})


async def test_the_books_are_kept_from_what_kafka_has(services, store):
    mark = uuid4().hex[:6]
    with kafka_with_topics(services.kafka[1]) as kafka:
        rejected = kafka.tail(REJECTED)
        far = int(time.time()) + 3600
        for name in ("fires", "cancelled", "waits"):
            kafka.set(far, "calls", f"{mark}-{name}")
        kafka.cancel(far, f"{mark}-cancelled")
        kafka.send(REQUEST, far, b"garbage", token=f"{mark}-garbage")
        kafka.flush()
        done = TimerOutcomes(TimerState.FIRED, 77, ((far, (f"{mark}-fires",)),))
        write_as_a_dispatcher(kafka.address, done)
        books = LedgerReader(kafka.storage, LedgerWriter(store), store, LedgerOptions(TimerLimits()))
        running = asyncio.create_task(books.run())
        try:
            expected = {"fires": "fired", "cancelled": "cancelled", "waits": "pending", "garbage": "rejected"}
            for name, state in expected.items():
                await until_it_is(store, f"{mark}-{name}", state)
            assert (await sums(store)).difference == 0
            refused = [dict(message.headers()) for message in await asyncio.to_thread(rejected.read, 100, 2)]
            mine = [headers for headers in refused if headers["token"] == f"{mark}-garbage".encode()]
            assert [headers["reason"] for headers in mine] == [b"the value is not a Future message"]
            assert await books.join_lag() == 0, "no Spark job has said where it is"
            await store.report("f", now_ms(), FuturesReport(places={}))
            assert await books.join_lag() >= 5, "it has taken in nothing of what was read"
            await store.report("f", now_ms(), FuturesReport(places=dict.fromkeys(range(100), 1 << 40)))
            assert await books.join_lag() == 0
            await store.report("f", now_ms() - 120_000, FuturesReport(places={}))
            assert await books.join_lag() == 0, "it is not running"
            await until_all_is_read(books)
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
            books.close()
            rejected.close()
