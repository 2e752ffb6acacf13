"""What is loaded before its second leaves at its second, by Kafka's own clock."""

import time
from uuid import uuid4

import pytest
from timers_world import Kafka, kafka_with_topics, token_of

from meantime.clock import SystemClock
from meantime.timers.dispatching.held_timers import HeldTimer
from meantime.timers.dispatching.transaction import FiringTransaction, OutcomeBatch
from meantime.timers.model import Future

BY_KAFKA = {"message.timestamp.type": "LogAppendTime"}


@pytest.fixture(scope="module")
def kafka(services):
    with kafka_with_topics(services.kafka[0]) as kafka:
        yield kafka


@pytest.fixture
def firing(kafka: Kafka):
    firing = FiringTransaction(kafka.storage, uuid4().hex[:8], SystemClock(), 1_000_000)
    firing.open()
    yield firing
    firing.close()


@pytest.mark.parametrize(("count", "size"), [(40_000, 10), (150, 60_000)], ids=["many", "large"])
def test_a_loaded_volley_leaves_at_its_second_and_as_a_whole(kafka, firing, count, size):
    topic = kafka.new_topic(**BY_KAFKA)
    tail = kafka.tail(topic)
    second = int(time.time()) + 10
    timers = [HeldTimer(0, f"t{number}", second, Future(topic, str(number), bytes(size)), 0) for number in range(count)]
    fired = firing.fire(OutcomeBatch(fire=timers), {}, None)
    callbacks = tail.read(count)
    tail.close()
    assert {token_of(message) for message in callbacks} == {held.token for held in timers}
    assert min(message.timestamp()[1] for message in callbacks) >= second * 1000
    assert {one.at_ms for one in fired} == {second * 1000}, "loading was too slow to be ready in time"


def test_a_volley_that_is_not_loaded_in_time_leaves_in_parts_and_counts_as_a_whole(kafka, firing):
    topic = kafka.new_topic(**BY_KAFKA)
    tail = kafka.tail(topic)
    second, count = int(time.time()), 60_000
    timers = [HeldTimer(0, f"t{number}", second, Future(topic, str(number), b"x"), 0) for number in range(count)]
    fired = firing.fire(OutcomeBatch(fire=timers), {}, None)
    callbacks = tail.read(count)
    tail.close()
    assert {token_of(message) for message in callbacks} == {held.token for held in timers}
    first = min(message.timestamp()[1] for message in callbacks)
    assert first < fired[-1].at_ms, "nothing had left before all of it was loaded"


def test_what_is_published_elsewhere_waits_for_its_second_too(kafka, firing):
    second = int(time.time()) + 2
    firing.fire(OutcomeBatch(attempt=[HeldTimer(0, "t", second, Future("event-type:orders", "", b"{}"), 0)]), {}, None)
    assert time.time() >= second


def test_a_callback_carries_the_headers_that_its_timer_was_given(kafka, firing):
    topic = kafka.new_topic()
    tail = kafka.tail(topic)
    given = ("schedule", "nightly", "schedule-version", "3", "schedule-at", "1800000000000")
    timers = [HeldTimer(0, "s", int(time.time()), Future(topic, "k", b"x", given), 0)]
    timers.append(HeldTimer(0, "t", int(time.time()), Future(topic, "k", b"x"), 0))
    firing.fire(OutcomeBatch(fire=timers), {}, None)
    found = {
        token_of(message): dict(message.headers())["schedule"] if len(message.headers()) > 2 else None
        for message in tail.read(2)
    }
    tail.close()
    assert found == {"s": b"nightly", "t": None}
