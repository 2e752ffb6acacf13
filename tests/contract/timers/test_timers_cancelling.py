"""Cancels whose answer is true although clocks differ, and partitions that are added while dispatchers are at work."""

import asyncio
import time

import msgspec
import pytest
import timers_dispatching
from confluent_kafka.admin import NewPartitions
from timers_dispatching import all_fired, dispatcher, due, soon
from timers_world import SHARES, timer_topics, until

from meantime.clock import SystemClock
from meantime.errors import AlreadyFired, Degraded, Unavailable
from meantime.timers.future import encode
from meantime.timers.kafka_topics import ensure_topics
from meantime.timers.model import Future, TimerLimits
from meantime.timers.options import TimersOptions
from meantime.timers.request_producer import open_request_producer
from meantime.timers.requesting import TimerRequests
from meantime.timers.topics import DUE, REQUEST

pytestmark = pytest.mark.takes(seconds=60)
kafka, calls = timers_dispatching.kafka, timers_dispatching.calls
store, mark = timers_dispatching.store, timers_dispatching.mark


def trusted() -> None:
    """The node knows cluster time."""


def not_trusted() -> None:
    raise Degraded("this node does not know what time it is")


async def test_a_cancel_that_is_promised_holds_although_the_clock_of_kafka_is_behind(kafka, calls, store, mark):
    """By Kafka's clock all of these are in time, or close to it; by cluster time, which is ahead, some are not."""
    ahead = SystemClock(skew_ms=700)
    tail = kafka.tail(calls)
    async with dispatcher(kafka, store, clock=ahead), open_request_producer(400_000) as producer:
        producer.connect(kafka.storage)
        requests = TimerRequests(producer, store, ahead, TimersOptions(None, TimerLimits(), (), trusted))
        second = soon(6)
        names = [f"{mark}-{number}" for number in range(40)]
        timers = [{"at": second, "callback_topic": calls, "callback": "hi", "token": name} for name in names]
        await requests.set(msgspec.json.encode({"timers": timers}))
        answers = await asyncio.gather(
            *(cancelled(requests, name, second, second - 2.0 + number / 20) for number, name in enumerate(names))
        )
        fired = set(await all_fired(tail, 1, within=10))
    promised = {name for name, answer in zip(names, answers, strict=True) if answer == "cancelled"}
    late = {name for name, answer in zip(names, answers, strict=True) if answer == "fired"}
    assert promised, "none was cancelled in time"
    assert not promised & fired
    assert late <= fired


async def cancelled(requests: TimerRequests, token: str, second: int, at: float) -> str:
    """What a cancel is answered with that is sent at an instant of Kafka's clock."""
    await asyncio.sleep(at - time.time())
    try:
        await requests.cancel(token, second)
    except AlreadyFired:
        return "fired"
    except Unavailable:
        return "nobody knows"
    return "cancelled"


async def test_a_node_that_does_not_know_the_time_promises_nothing_and_tells_how_it_ended(kafka, calls, store, mark):
    async with dispatcher(kafka, store), open_request_producer(400_000) as producer:
        producer.connect(kafka.storage)
        wrong = SystemClock(skew_ms=-600_000)
        requests = TimerRequests(producer, store, wrong, TimersOptions(None, TimerLimits(), (), not_trusted))
        second = soon(4)
        await requests.set(msgspec.json.encode({"at": second, "callback_topic": calls, "token": f"{mark}-a"}))
        assert (await requests.cancel(f"{mark}-a", second)).second == second
        entry = await requests.show(f"{mark}-a", second)
    assert (entry.state.word, entry.certain) == ("cancelled", True)


@pytest.fixture
def grown(kafka):
    """`timer-due` is made anew afterwards: with a partition more, dispatchers of other tests might have no share."""
    yield
    kafka.admin.delete_topics([DUE])[DUE].result(20)
    until(lambda: DUE not in kafka.admin.list_topics(timeout=20).topics)
    ensure_topics(kafka.admin, [topic for topic in timer_topics() if topic.name == DUE])


async def test_partitions_that_are_added_are_followed_or_left_alone(kafka, calls, store, mark, grown):
    """Requests in a new partition are heard like any other. A new partition of `timer-due` is nobody's: to whom a timer
    belongs was agreed on with the first ones."""
    tail, partitions = kafka.tail(calls), len(kafka.admin.list_topics(REQUEST).topics[REQUEST].partitions)
    assert await store.agreed_shares(SHARES) == SHARES
    async with dispatcher(kafka, store):
        for topic, wanted in ((REQUEST, partitions + 1), (DUE, SHARES + 1)):
            if len(kafka.admin.list_topics(topic).topics[topic].partitions) < wanted:
                kafka.admin.create_partitions([NewPartitions(topic, wanted)])[topic].result(20)
        await asyncio.sleep(8)
        second = soon(15)
        value = encode(Future(calls, "k", b"hi"))
        for number in range(20):
            token = f"{mark}-{number}"
            kafka.send(REQUEST, second, value, partition=partitions, token=token)
            kafka.send(DUE, second, value, partition=SHARES, token=token, requested=str(int(time.time() * 1000)))
            due(kafka, second, calls, token)
        kafka.flush()
        for number in range(0, 20, 2):
            kafka.send(REQUEST, second, None, partition=partitions, cancel=f"{mark}-{number}")
        kafka.flush()
        fired = await all_fired(tail, 10)
    assert sorted(fired) == sorted(f"{mark}-{number}" for number in range(1, 20, 2))
    assert await store.agreed_shares(SHARES + 1) == SHARES
