"""Timers on a whole stack, while its processes are killed: each fires once, none early, none that was cancelled.

The plan of what is killed when is drawn from a seed, which is printed. `MEANTIME_TIMERS=200000` and `MEANTIME_STOPPED=300`
(seconds without the Spark job, at the least) make it the full run.
"""

import ctypes
import os
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from uuid import uuid4

import confluent_kafka
import pytest
from confluent_kafka import KafkaException, Message, Producer
from kazoo.client import KazooClient
from timers_site import Site, events_of, lateness_of, new_event_type, switch, token_of

from conftest import command
from meantime.kafka.settings import Storage
from meantime.stack.services.postgres import last_report
from meantime.timers.dispatching.consumers import RequestConsumer
from meantime.timers.future import encode
from meantime.timers.model import Future
from meantime.timers.topics import DONE, DUE, OSCILLATOR, REJECTED, REQUEST

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


def test_an_event_type_that_is_deleted_before_a_timer_fires_is_named_as_the_reason(site):
    name, second = new_event_type(site), int(time.time()) + 8
    event = {"metadata": {"eid": str(uuid4()), "occurred_at": "2026-05-01T09:00:00Z"}}
    timer = {"at": second, "callback_topic": f"event-type:{name}", "callback": event, "token": name}
    assert site.http.post("/timers", json=timer).status_code == 202
    assert site.http.delete(f"/event-types/{name}").status_code == 200
    reason = f"event type {name!r} does not exist"
    assert _rejected(site, name)["reason"] == reason
    code, shown = command(site.stack.places, "timers", "show", name, "--url", site.stack.urls[0])
    assert (code, f"rejected ({reason})" in shown) == (0, True), shown


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


DEEP = 20_000
GARBAGE = [
    b"[" * DEEP,
    b"[" * DEEP + b"]" * DEEP,
    b'{"metadata":' * DEEP + b"1" + b"}" * DEEP,
    b"\x91" * DEEP,
    b"9" * DEEP,
    b'{"id":5,"stream_id":[],"switch":{},"metadata":[],"workers":3}',
    b'{"metadata":{"timer_token":[],"timer_due":{}}}',
    b"\xff\xfe",
    b"{",
    b"",
    b" " * 300_000,
]
PROCESSES = ("node-1", "oscillator-1", "oscillator-2", "dispatcher-1", "ledger-1", "futures")


def test_garbage_in_every_topic_and_every_node_of_zookeeper_stops_nobody(site):
    """Deep, huge, broken and wrong JSON wherever somebody reads; and callbacks that are no events among good ones."""
    name, topic = new_event_type(site), site.new_topic()
    subscribed = site.http.post("/subscriptions", json={"owning_application": "tests", "event_types": [name]})
    before = {process: site.stack.pid(process) for process in PROCESSES}
    for where in (REQUEST, DUE, DONE, OSCILLATOR, REJECTED):
        _write_garbage(site.kafka, where)
    with _garbage_in_zookeeper(site.stack.places.zookeeper, subscribed.json()["id"]):
        soon, far = int(time.time()) + 12, int(time.time()) + 12 + NEAR_S
        for number in range(40):
            site.request((soon, far)[number % 2], topic, f"{topic}-{number}")
        good, bad = _request_events(site, name, soon)
        assert site.producer.flush(30) == 0
        fired = Counter(map(token_of, site.all_of(topic, 40, within=200)))
        assert fired == Counter(f"{topic}-{number}" for number in range(40))
        events = [event for event in events_of(site, name, len(good), within=120) if "timer_token" in str(event)]
    known = [event["metadata"]["timer_token"] for event in events if isinstance(event["metadata"].get("timer_token"), str)]
    assert Counter(known) == Counter(good)
    for token in bad:
        assert _rejected(site, token)["reason"].startswith("the callback is not a JSON object, or is nested deeper")
    assert site.http.get("/apps").status_code == 200
    switch(site, name)
    assert {process: site.stack.pid(process) for process in PROCESSES} == before


def _write_garbage(kafka: str, topic: str) -> None:
    producer = Producer({"bootstrap.servers": kafka})
    for partition in range(len(producer.list_topics(topic, timeout=20).topics[topic].partitions)):
        for number, garbage in enumerate(GARBAGE):
            short = garbage[:20_000]
            for turn, key in enumerate((b"5", short, b"99999999999")):
                given = (
                    [("token", short)],
                    [("token", short), ("requested", short)],
                    [("cancel", short)],
                    [("requested", b"5")],
                )
                producer.produce(topic, garbage, key, partition, headers=given[(number + turn) % 4])
        assert producer.flush(60) == 0
    _write_unreadable_header(kafka, topic)


def _write_unreadable_header(kafka: str, topic: str) -> None:
    """A name that is not UTF-8, which Python's client would not write."""
    library = ctypes.CDLL(str(next(Path(confluent_kafka.__file__).parents[1].glob("confluent_kafka.libs/librdkafka*"))))
    pointer, text, size, error = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t, ctypes.create_string_buffer(512)
    library.rd_kafka_conf_new.restype = library.rd_kafka_new.restype = library.rd_kafka_headers_new.restype = pointer
    settings = pointer(library.rd_kafka_conf_new())
    library.rd_kafka_conf_set(settings, b"bootstrap.servers", kafka.encode(), error, size(512))
    producer = pointer(library.rd_kafka_new(0, settings, error, size(512)))
    headers = pointer(library.rd_kafka_headers_new(size(1)))
    library.rd_kafka_header_add(headers, b"\xff\xfe", ctypes.c_ssize_t(2), b"v", ctypes.c_ssize_t(1))
    kind_topic, kind_value, kind_key, kind_headers = 1, 4, 5, 10
    sent = library.rd_kafka_producev(
        *(producer, kind_topic, text(topic.encode()), kind_value, text(b"value"), size(5)),
        *(kind_key, text(b"1700000000"), size(10), kind_headers, headers, 0),
    )
    assert sent == 0
    assert library.rd_kafka_flush(producer, 20_000) == 0
    library.rd_kafka_destroy(producer)


@contextmanager
def _garbage_in_zookeeper(address: str, subscription: str) -> Iterator[None]:
    """The version stays as it is for good; what would be somebody's lock or vote is taken away afterwards."""
    hosts, _, root = address.partition("/")
    client = KazooClient(hosts)
    client.start()
    try:
        made = []
        for number, garbage in enumerate(GARBAGE):
            for place in ("members", "timelines/nodes", "timelines/locked_et", "elections/oscillator", "apps"):
                made.append(client.create(f"/{root}/{place}/garbage-{number}", garbage[:500_000], makepath=True))
            for place in ("sessions", "owners"):
                path = f"/{root}/subscriptions/{subscription}/{place}/garbage-{number}"
                made.append(client.create(path, garbage[:500_000], makepath=True))
            client.set(f"/{root}/timelines/version", garbage[:500_000])
            time.sleep(0.1)
        yield
        for path in made:
            client.delete(path)
    finally:
        client.stop()
        client.close()


def _request_events(site: Site, name: str, second: int) -> tuple[list[str], list[str]]:
    """Callbacks of one second into an event type, as a Kafka client writes them: the good ones and the bad ones."""
    good, bad = [f"{name}-good-{number}" for number in range(20)], [f"{name}-bad-{number}" for number in range(4)]
    deep = [b'{"a":' * depth + b"1" + b"}" * depth for depth in (201, 400, 900, DEEP)]
    fine = [
        b'{"n":%d,"metadata":{"eid":"%b","occurred_at":"2026-05-01T09:00:00Z"}}' % (number, str(uuid4()).encode())
        for number in range(20)
    ]
    for token, callback in zip([*good, *bad], [*fine, *deep], strict=True):
        value = encode(Future(f"event-type:{name}", "", callback))
        site.producer.produce(REQUEST, value, str(second), headers=[("token", token.encode())])
    return good, bad


def _rejected(site: Site, token: str) -> dict:
    for _ in range(300):
        answer = site.http.get(f"/timers/{token}")
        if answer.status_code == 200 and answer.json()["state"] == "rejected":
            return answer.json()
        time.sleep(0.2)
    raise AssertionError(f"{token} is not rejected")
