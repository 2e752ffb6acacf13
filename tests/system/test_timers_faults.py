"""Timers on a whole stack, while its processes are killed: each fires once, none early, none that was cancelled.

The plan of what is killed when is drawn from a seed, which is printed. `MEANTIME_TIMERS=200000` and `MEANTIME_STOPPED=300`
(seconds without the Spark job, at the least) make it the full run.
"""

import os
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import pairwise
from uuid import uuid4

import pytest
from confluent_kafka import KafkaException, Message
from timers_site import Site, events_of, lateness_of, new_event_type, switch, token_of

from meantime.kafka.settings import Storage
from meantime.stack.services.postgres import last_report
from meantime.timers.dispatching.consumers import RequestConsumer
from meantime.timers.topics import REQUEST

pytestmark = [pytest.mark.takes(seconds=250), pytest.mark.timeout(900)]

SEED = int(os.environ.get("MEANTIME_SEED", "20260503"))
TIMERS = int(os.environ.get("MEANTIME_TIMERS", "4000"))
STOPPED_S = int(os.environ.get("MEANTIME_STOPPED", "0"))
FULL = 100_000
"""From so many on it is the full run, in which the Spark job is killed twice."""
NEAR_S = 30
"""A dispatcher takes requests so far ahead by itself, so that most of these timers need the Spark job."""
STRETCH_S, HANDED_OUT_S = 30, 25
"""The Spark job hands stretches out so long before their first second: its own 20 s, and the lead of the ticks."""
OVER_S, AHEAD_S = (60, 20) if TIMERS >= FULL else (25, 12)
LONGEST_PAUSE_S = 15
"""The lead and ten seconds: asked of the run at full length, which has the machine to itself."""


@pytest.fixture(scope="module")
def site(stack_of) -> Iterator[Site]:
    # Beside so many other tests a nice Spark would hardly ever get its turn.
    settings = {"MEANTIME_TIMERS_NEAR": str(NEAR_S), "MEANTIME_FUTURES_NICE": "0"}
    with stack_of(nodes=1, kafka=2, timers=True, **settings) as stack:
        yield Site(stack)


def test_timers_fire_once_while_everything_is_killed(site):
    print("seed", SEED)
    chance = random.Random(SEED)
    topic, before = site.new_topic(), site.ledger()
    start = int(time.time()) + AHEAD_S
    seconds = {f"t{number:05}": start + chance.randrange(OVER_S) for number in range(TIMERS)}
    cancelled = set(chance.sample(sorted(seconds), TIMERS // 10))
    for token, second in seconds.items():
        site.request(second, topic, token)
    assert site.producer.flush(30) == 0
    # Kafka comes last: a dispatcher has to get over it by itself.
    victims = ["dispatcher-1", "oscillator", "futures", "dispatcher-1", "dispatcher-1", "kafka-1"]
    if TIMERS >= FULL:
        victims.insert(0, "futures")
    moments = sorted(chance.uniform(AHEAD_S - 5, AHEAD_S + OVER_S - 10) for _ in victims)
    plan = list(zip(moments, victims, strict=True))
    began, pending = time.time(), sorted(cancelled, key=lambda token: seconds[token])
    in_time: set[str] = set()
    while plan or pending:
        if plan and time.time() - began >= plan[0][0]:
            _, victim = plan.pop(0)
            site.kill(site.leader() if victim == "oscillator" else victim)
        # As late as it is still promised to be heard, with some room for a slow machine.
        while pending and (not plan or seconds[pending[0]] - time.time() < 4):
            site.cancel(seconds[pending[0]], pending.pop(0), in_time)
        assert site.producer.flush(60) == 0
        time.sleep(0.1)
    fired = site.all_of(topic, TIMERS - len(cancelled), within=240)
    counts = Counter(map(token_of, fired))
    print("cancelled in time", len(in_time), "of", len(cancelled))
    assert in_time, "nothing was cancelled in time"
    assert not [token for token, count in counts.items() if count > 1], "fired twice"
    assert not in_time & counts.keys(), "cancelled in time, and fired"
    assert not seconds.keys() - cancelled - counts.keys(), "never fired"
    assert min(map(lateness_of, fired)) >= 0, "fired early"
    pause_s, latest_s = _longest_pause(start, fired), max(map(lateness_of, fired)) / 1000
    print(f"firing paused for {pause_s:.1f} s at most, the latest callback came {latest_s:.1f} s after its second")
    if TIMERS >= FULL:
        assert pause_s <= LONGEST_PAUSE_S, "firing did not go on soon after a restart"
    _balanced(site, before, len(counts))


def _longest_pause(start: int, fired: list[Message]) -> float:
    """Seconds without a callback, while some are due in every second."""
    moments = sorted({start * 1000, *(message.timestamp()[1] for message in fired)})
    return max(after - before for before, after in pairwise(moments)) / 1000


def _balanced(site: Site, before: dict[str, int], fired: int) -> None:
    """The ledger comes to the same numbers, a little later."""
    expected = {"requested": TIMERS, "fired": fired, "cancelled": TIMERS - fired, "pending": 0}
    for _ in range(120):
        now = site.ledger()
        if {name: now[name] - before[name] for name in expected} == expected:
            break
        time.sleep(0.5)
    assert {name: now[name] - before[name] for name in expected} == expected
    assert now["difference"] == 0


@dataclass(frozen=True, slots=True)
class Still:
    """The Spark job stands still, and has taken in timers that come due meanwhile."""

    topic: str
    first: int
    count: int
    until: float
    go_on: Callable[[], None]


@pytest.fixture(scope="module")
def still(site) -> Iterator[Still]:
    assert _joined(site, until=time.time() + 400), "the Spark job does not take requests in"
    for ahead_s in (20, 40, 80):  # as far as a busy machine needs it
        topic, count, first = site.new_topic(), 2000, _opening(HANDED_OUT_S + ahead_s)
        for number in range(count):
            site.request(first + number % 5, topic, f"far-{topic}-{number}")
        assert site.producer.flush(60) == 0
        if _joined(site, until=first - HANDED_OUT_S):
            break
    else:
        pytest.fail("the Spark job does not take requests in")
    with ExitStack() as stopped:
        stopped.enter_context(site.stopped("futures"))
        yield Still(topic, first, count, max(first + 6, time.time() + STOPPED_S), stopped.close)


def _opening(ahead_s: int) -> int:
    """The first second of the next stretch that opens after so many seconds."""
    return (int(time.time()) + ahead_s) // STRETCH_S * STRETCH_S + STRETCH_S


def _joined(site: Site, until: float) -> bool:
    """Whether by then the Spark job has every request that was written, and what need not wait has come through."""
    ends = site.ends(REQUEST)
    while (report := last_report(site.stack.places.postgres, "futures", "futures", 0)) is None or any(
        int(report["through"].get(str(partition), 0)) < end for partition, end in ends.items()
    ):
        if time.time() > until:
            return False
        time.sleep(0.2)
    return True


def test_callbacks_into_an_event_type_survive_its_switch_and_a_killed_dispatcher(site, still):
    name = new_event_type(site)
    start, count = int(time.time()) + 5, 400
    timers = [
        {
            "at": start + number % 12,
            "callback_topic": f"event-type:{name}",
            "callback": {"n": number, "metadata": {"eid": str(uuid4()), "occurred_at": "2026-05-01T09:00:00Z"}},
            "token": f"{name}-{number}",
        }
        for number in range(count)
    ]
    assert site.http.post("/timers", json={"timers": timers}).status_code == 202
    time.sleep(max(0, start + 3 - time.time()))
    switch(site, name)
    time.sleep(max(0, start + 7 - time.time()))
    site.kill("dispatcher-1")
    events = events_of(site, name, count, within=120)
    tokens = Counter(event["metadata"]["timer_token"] for event in events)
    assert tokens == Counter(f"{name}-{number}" for number in range(count))
    assert all(event["metadata"]["timer_due"] == start + event["n"] % 12 for event in events)


def test_what_comes_due_while_the_spark_job_stands_still_fires_once_it_goes_on(site, still):
    topic, near = site.new_topic(), int(time.time()) + 5
    site.request(near, topic, "near")
    assert site.producer.flush(30) == 0
    (message,) = site.all_of(topic, 1, within=60)
    assert lateness_of(message) >= 0
    time.sleep(max(0, still.until - time.time()))
    assert not site.all_of(still.topic, 1, within=1), "the Spark job has not stood still"
    still.go_on()
    fired = site.all_of(still.topic, still.count, within=120)
    assert Counter(map(token_of, fired)) == Counter(f"far-{still.topic}-{number}" for number in range(still.count))
    assert min(map(lateness_of, fired)) >= 0


def test_how_far_requests_have_been_read_is_known_again_after_kafka_was_killed(site):
    ends = site.ends(REQUEST)
    requests = RequestConsumer(Storage("default", site.kafka))
    try:
        requests.start(len(ends), ends, 0)
        _covered(requests, within=60)
        site.kill("kafka-1")
        assert _once_kafka_is_back(lambda: site.ends(REQUEST)) == ends, "Kafka has lost requests"
        _covered(requests, within=60)
    finally:
        requests.close()


def _once_kafka_is_back(ask: Callable[[], dict[int, int]]) -> dict[int, int]:
    """It is asked again while it says that nobody leads its partitions yet."""
    deadline = time.monotonic() + 60
    while True:
        try:
            return ask()
        except KafkaException:
            assert time.monotonic() < deadline, "Kafka has not come back"
            time.sleep(0.2)


def _covered(requests: RequestConsumer, within: float) -> None:
    """All that Kafka has by now has been read."""
    asked_ms, deadline = round(time.time() * 1000), time.monotonic() + within
    while requests.covered_until() < asked_ms:
        assert time.monotonic() < deadline, "it is not known how far requests have been read"
        requests.ask_for_ends(round(time.time() * 1000), asked_ms)
        list(requests.poll(500))
        time.sleep(0.01)
