"""Dispatchers on a real Kafka: on the second, once, not when cancelled, and nobody held up."""

import asyncio
import os
import time
from collections import Counter
from uuid import uuid4

import pytest
import timers_dispatching
from confluent_kafka import OFFSET_END, TopicPartition
from confluent_kafka.admin import NewTopic
from structlog.testing import capture_logs
from timers_dispatching import all_fired, dispatcher, due, ends_of, read, refusals, soon
from timers_world import SHARES, lateness_of, token_of

from meantime.timers.model import TimerId, TimerState
from meantime.timers.reports import FuturesReport
from meantime.timers.rules import OWNED_TOPIC, RESERVED_TOPIC
from meantime.timers.topics import DUE, REJECTED, REQUEST

pytestmark = pytest.mark.takes(seconds=170)
kafka, calls = timers_dispatching.kafka, timers_dispatching.calls
store, mark = timers_dispatching.store, timers_dispatching.mark


async def test_a_timer_fires_on_its_second_with_key_value_and_headers(kafka, calls, store, mark):
    tail = kafka.tail(calls)
    async with dispatcher(kafka, store):
        second = soon()
        due(kafka, second, calls, f"{mark}-a", b"\x00\xff")
        kafka.flush()
        (message,) = await read(tail, 1)
    assert (message.key(), message.value(), token_of(message)) == (b"k", b"\x00\xff", f"{mark}-a")
    assert dict(message.headers())["timer-due"] == str(second).encode()
    assert lateness_of(message) >= 0


async def test_a_timer_that_arrives_by_both_ways_and_again_fires_once(kafka, calls, store, mark):
    tail = kafka.tail(calls)
    async with dispatcher(kafka, store):
        second = soon()
        for _ in range(2):
            kafka.set(second, calls, f"{mark}-a")
            due(kafka, second, calls, f"{mark}-a")
        kafka.flush()
        assert len(await read(tail, 1)) == 1
        due(kafka, second, calls, f"{mark}-a")
        kafka.set(second, calls, f"{mark}-a")
        due(kafka, second, calls, f"{mark}-b")
        kafka.flush()
        assert await all_fired(tail, 1) == [f"{mark}-b"]


async def test_a_restarted_dispatcher_remembers_what_it_has_fired(kafka, calls, store, mark):
    tail = kafka.tail(calls)
    second = soon(1)
    async with dispatcher(kafka, store):
        for number in range(50):
            due(kafka, second, calls, f"{mark}-{number}")
        due(kafka, second + 4, calls, f"{mark}-later")
        kafka.flush()
        assert len(await read(tail, 50)) == 50
    async with dispatcher(kafka, store):
        for number in range(50):
            due(kafka, second, calls, f"{mark}-{number}")
        kafka.flush()
        assert await all_fired(tail, 1) == [f"{mark}-later"]


async def test_what_came_while_nobody_was_there_fires_at_once(kafka, calls, store, mark):
    tail = kafka.tail(calls)
    due(kafka, soon(-5), calls, f"{mark}-a")
    kafka.flush()
    async with dispatcher(kafka, store):
        (message,) = await read(tail, 1)
    assert token_of(message) == f"{mark}-a"


async def test_a_cancel_in_time_is_heard_straight_from_the_requests(kafka, calls, store, mark):
    tail = kafka.tail(calls)
    async with dispatcher(kafka, store):
        second = soon(10)
        for number in range(20):
            due(kafka, second, calls, f"{mark}-{number}")
        kafka.flush()
        await asyncio.sleep(1.0)
        for number in range(0, 20, 2):
            kafka.cancel(second, f"{mark}-{number}")
        kafka.flush()
        fired = set(await all_fired(tail, 10))
    assert fired == {f"{mark}-{number}" for number in range(1, 20, 2)}


async def test_a_cancel_that_comes_behind_its_late_timer_is_heard(kafka, calls, store, mark):
    """The Spark job was away, and brings both at once in any order."""
    second = soon(4)
    for number in range(20):
        kafka.set(second, calls, f"{mark}-{number}")
    for number in range(0, 20, 2):
        kafka.cancel(second, f"{mark}-{number}")
    kafka.flush()
    await asyncio.sleep(second + 1 - time.time())
    await store.report("futures", int(time.time() * 1000), FuturesReport(through=ends_of(kafka, REQUEST)))
    tail = kafka.tail(calls)
    async with dispatcher(kafka, store):
        for number in range(20):
            due(kafka, second, calls, f"{mark}-{number}")
        kafka.flush()
        fired = set(await all_fired(tail, 10))
    assert fired == {f"{mark}-{number}" for number in range(1, 20, 2)}


async def test_a_cancel_that_the_spark_job_has_yet_to_bring_is_heard_by_whoever_takes_over(kafka, calls, store, mark):
    """It has been taken in, and waits in the join for the next tick, while its timer is out already."""
    second, tail = soon(10), kafka.tail(calls)
    through = ends_of(kafka, REQUEST)
    for number in range(20):
        due(kafka, second, calls, f"{mark}-{number}")
    for number in range(0, 20, 2):
        kafka.cancel(second, f"{mark}-{number}")
    kafka.flush()
    report = FuturesReport(places=ends_of(kafka, REQUEST), through=through)
    await store.report("futures", int(time.time() * 1000), report)
    async with dispatcher(kafka, store):
        fired = set(await all_fired(tail, 10))
    assert fired == {f"{mark}-{number}" for number in range(1, 20, 2)}


async def test_two_dispatchers_share_the_work_and_one_takes_over(kafka, calls, store, mark):
    tail = kafka.tail(calls)
    async with dispatcher(kafka, store, "one") as one:
        async with dispatcher(kafka, store, "two") as two:
            for _ in range(200):
                if len(one._dispatcher.report.shares) == len(two._dispatcher.report.shares) == 1:
                    break
                await asyncio.sleep(0.1)
            second = soon(2)
            for number in range(40):
                due(kafka, second, calls, f"{mark}-{number}")
            due(kafka, second + 5, calls, f"{mark}-late-0")
            due(kafka, second + 5, calls, f"{mark}-late-3")
            kafka.flush()
            await read(tail, 40)
        fired = Counter(await all_fired(tail, 2))
    assert fired == Counter([f"{mark}-late-0", f"{mark}-late-3"])


async def test_near_timers_need_no_spark_job_and_survive_a_change_of_dispatchers(kafka, calls, store, mark):
    """Their requests are all there is of them, until the Spark job has taken them in."""
    await store.report("futures", int(time.time() * 1000), FuturesReport(through=ends_of(kafka, REQUEST)))
    tail = kafka.tail(calls)
    async with dispatcher(kafka, store, "one"):
        second = soon(9)
        for number in range(40):
            kafka.set(second, calls, f"{mark}-{number}")
            kafka.set(second - 6, calls, f"{mark}-first-{number}")
        for number in range(0, 40, 2):
            kafka.cancel(second, f"{mark}-{number}")
        kafka.flush()
        first = {token_of(message) for message in await read(tail, 40)}
    async with dispatcher(kafka, store, "one"):
        fired = Counter(await all_fired(tail, 20))
    assert first == {f"{mark}-first-{number}" for number in range(40)}
    assert fired == Counter(f"{mark}-{number}" for number in range(1, 40, 2))


async def test_a_share_that_comes_later_comes_with_its_requests(kafka, calls, store, mark):
    """Whoever takes a share over has read its requests before, as those of somebody else."""
    await store.report("futures", int(time.time() * 1000), FuturesReport(through=ends_of(kafka, REQUEST)))
    tail = kafka.tail(calls)
    async with dispatcher(kafka, store, "one") as one:
        async with dispatcher(kafka, store, "two") as two:
            for _ in range(200):
                if len(one._dispatcher.report.shares) == len(two._dispatcher.report.shares) == 1:
                    break
                await asyncio.sleep(0.1)
            second = soon(10)
            for number in range(40):
                kafka.set(second, calls, f"{mark}-{number}")
            for number in range(0, 40, 2):
                kafka.cancel(second, f"{mark}-{number}")
            kafka.flush()
            await asyncio.sleep(2)
        fired = Counter(await all_fired(tail, 20))
    assert fired == Counter(f"{mark}-{number}" for number in range(1, 40, 2))


async def test_what_cannot_be_delivered_is_rejected_and_holds_nobody_up(kafka, calls, store, mark):
    tight = kafka.new_topic(**{"max.message.bytes": "2000"})
    tail, rejected = kafka.tail(calls, tight), kafka.tail(REJECTED)
    async with dispatcher(kafka, store):
        second = soon()
        for number in range(6):
            due(kafka, second, calls, f"{mark}-calls-{number}")
            due(kafka, second, tight, f"{mark}-tight-{number}", bytes(200))
        due(kafka, second, tight, f"{mark}-huge", os.urandom(8000))
        due(kafka, second, "nowhere", f"{mark}-nowhere")
        kafka.flush()
        fired = {token_of(message) for message in await read(tail, 12)}
        refused = await refusals(rejected, mark, 2)
    assert len(fired) == 12
    assert refused.keys() == {f"{mark}-huge", f"{mark}-nowhere"}
    assert refused[f"{mark}-nowhere"] == "there is no topic 'nowhere' to call back"


async def test_topics_of_timelines_and_of_the_system_are_nobodys_callback_topic(kafka, calls, store, mark):
    """Requests that a Kafka client writes: by their names, and where an event type has adopted a topic of any name."""
    adopted, timeline = kafka.new_topic(), f"orders-{mark}.1.{uuid4().hex[:8]}"
    kafka.admin.create_topics([NewTopic(timeline, 1, 1)])[timeline].result()
    tail, forged, rejected = kafka.tail(calls), kafka.tail(adopted, timeline), kafka.tail(REJECTED)
    async with dispatcher(kafka, store, adopted=lambda: frozenset({adopted})):
        second = soon(5)
        for name in (timeline, REQUEST, "oscillator", "__consumer_offsets", adopted, calls):
            kafka.set(second, name, f"{mark}-{name}")
        kafka.flush()
        assert await all_fired(tail, 1) == [f"{mark}-{calls}"]
        refused = await refusals(rejected, mark, 5)
        assert await read(forged, 1, within=1.5) == []
    system = (REQUEST, "oscillator", "__consumer_offsets")
    reasons = dict.fromkeys(system, RESERVED_TOPIC) | dict.fromkeys((timeline, adopted), OWNED_TOPIC)
    assert refused == {f"{mark}-{name}": reason for name, reason in reasons.items()}


async def test_what_kafka_has_deleted_before_anybody_came_is_told_and_comes_again(kafka, calls, store, mark):
    """As after an outage of all dispatchers that is longer than the retention of `timer-due`."""
    tail, second = kafka.tail(calls), soon(1)
    async with dispatcher(kafka, store):
        for number in range(20):
            due(kafka, second, calls, f"{mark}-first-{number}")
        kafka.flush()
        assert len(await read(tail, 20)) == 20
        await asyncio.sleep(4)  # positions are committed by then
    for number in range(20):
        due(kafka, soon(-2), calls, f"{mark}-{number}")
    kafka.flush()
    everything = [TopicPartition(DUE, partition, OFFSET_END) for partition in range(SHARES)]
    for deleted in kafka.admin.delete_records(everything).values():
        deleted.result(20)
    with capture_logs() as logs:
        async with dispatcher(kafka, store):
            for number in range(20):  # a Spark job without its checkpoint
                due(kafka, second, calls, f"{mark}-first-{number}")
                due(kafka, soon(-4), calls, f"{mark}-{number}")
            kafka.flush()
            fired = Counter(await all_fired(tail, 20))
    assert fired == Counter(f"{mark}-{number}" for number in range(20))
    expired = [one for one in logs if one["event"] == "due_timers_expired"]
    assert sum(one["records"] for one in expired) >= 20
    assert {one["log_level"] for one in expired} == {"error"}


async def test_the_ledger_is_asked_about_timers_that_are_older_than_the_memory(kafka, calls, store, mark):
    """As after a lost checkpoint: everything comes again."""
    long_ago = soon(-900)
    recently = int(time.time() * 1000) - 60_000
    async with store.writing() as connection:
        await store.apply(connection, TimerState.PENDING, {TimerId(f"{mark}-{n}", long_ago): None for n in range(4)})
        await store.apply(connection, TimerState.FIRED, {TimerId(f"{mark}-0", long_ago): 5})
        await store.apply(connection, TimerState.VOID, {TimerId(f"{mark}-1", long_ago): None})
    tail = kafka.tail(calls)
    async with dispatcher(kafka, store, remember_ms=100):
        second = soon(1)
        due(kafka, second, calls, f"{mark}-first")
        kafka.flush()
        await read(tail, 1)
        await asyncio.sleep(2.5)
        for number in range(4):
            due(kafka, long_ago, calls, f"{mark}-{number}", requested_ms=recently)
        due(kafka, long_ago, calls, f"{mark}-forgotten", requested_ms=recently - 200_000_000)
        due(kafka, long_ago, calls, f"{mark}-new", requested_ms=recently)
        kafka.flush()
        fired = set(await all_fired(tail, 3))
    assert fired == {f"{mark}-2", f"{mark}-3", f"{mark}-new"}
