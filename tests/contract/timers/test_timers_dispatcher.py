"""Dispatchers on a real Kafka: on the second, once, not when cancelled, and nobody held up."""

import asyncio
import os
import time
from collections import Counter
from contextlib import asynccontextmanager
from uuid import uuid4

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import NewTopic, OffsetSpec
from timers_world import SHARES, Kafka, kafka_with_topics, lateness_of, new_database, token_of

from meantime.clock import SystemClock
from meantime.database.pool import open_database
from meantime.tasks import running
from meantime.timers.dispatching.background_work import BackgroundWork, PublishResult
from meantime.timers.dispatching.dispatcher import DispatcherOptions
from meantime.timers.dispatching.supervisor import DispatcherSetup, DispatcherSupervisor
from meantime.timers.future import encode
from meantime.timers.ledger.account import LedgerWriter
from meantime.timers.ledger.reader import LedgerOptions, LedgerReader
from meantime.timers.ledger.store import LedgerStore
from meantime.timers.model import Future, TimerId, TimerLimits, TimerState, read_outcomes
from meantime.timers.reports import FuturesReport
from meantime.timers.rules import OWNED_TOPIC, RESERVED_TOPIC, share_of
from meantime.timers.topics import DONE, DUE, REJECTED, REQUEST

pytestmark = pytest.mark.takes(seconds=170)


@pytest.fixture(scope="module")
def kafka(services):
    with kafka_with_topics(services.kafka[0]) as kafka:
        yield kafka


@pytest.fixture(scope="module")
def calls(kafka):
    return kafka.new_topic()


@pytest.fixture
async def store(services):
    with new_database(services.postgres) as uri:
        async with open_database(uri, size=4) as database:
            yield LedgerStore(database)


@pytest.fixture
def mark() -> str:
    return uuid4().hex[:6]


class Events:
    """Event types whose publishing does as it is told; `sent` are the tokens that were written, `looked` those that were
    looked for."""

    def __init__(self, refuse: str | None = "no event types here", may_go_on: asyncio.Event | None = None) -> None:
        self.refuse = refuse
        self.may_go_on = may_go_on
        self.begun = asyncio.Event()
        self.sent: list[str] = []
        self.looked: list[str] = []

    async def publish(self, timers, require) -> PublishResult:
        self.begun.set()
        if self.may_go_on is not None:
            await self.may_go_on.wait()
        require()
        refused = (
            {} if self.refuse is None else {n: self.refuse for n, held in enumerate(timers) if "good" not in held.token}
        )
        self.sent += [held.token for number, held in enumerate(timers) if number not in refused]
        return PublishResult(refused)

    async def published(self, timers) -> set[int]:
        self.looked += [held.token for held in timers]
        return {number for number, held in enumerate(timers) if held.token in self.sent}


@asynccontextmanager
async def dispatcher(kafka: Kafka, store: LedgerStore, name: str = "one", events: Events | None = None, **options):
    background = BackgroundWork(store, events or Events(), SystemClock(), remember_ms=86_400_000)
    setup = DispatcherSetup(name, kafka.storage, SystemClock(), DispatcherOptions(SHARES, **options))
    supervisor = DispatcherSupervisor(setup, background)
    reader = LedgerReader(kafka.storage, LedgerWriter(store), store, LedgerOptions(TimerLimits()))
    try:
        async with running(reader.run(), name="ledger"), running(supervisor.run(), name="dispatcher"):
            for _ in range(600):
                if supervisor._dispatcher is not None and supervisor._dispatcher.report.shares:
                    break
                await asyncio.sleep(0.05)
            yield supervisor
    finally:  # also after a test that has failed: the next one would find a dispatcher that has its share
        reader.close()
        for _ in range(3000):
            if not supervisor.running:
                break
            await asyncio.sleep(0.02)


def due(kafka: Kafka, second: int, topic: str, token: str, callback: bytes = b"hi", requested_ms: int | None = None) -> None:
    """As the Spark job puts it."""
    requested = str(requested_ms if requested_ms is not None else int(time.time() * 1000))
    value = encode(Future(topic, "k", callback))
    kafka.send(DUE, second, value, partition=share_of(token, SHARES), token=token, requested=requested)


def ends_of(kafka: Kafka, topic: str) -> dict[int, int]:
    """As far as a Spark job has come that has read everything."""
    wanted = {TopicPartition(topic, partition): OffsetSpec.latest() for partition in range(2)}
    return {place.partition: future.result().offset for place, future in kafka.admin.list_offsets(wanted).items()}


def soon(seconds: float = 2) -> int:
    return int(time.time() + seconds) + 1


async def read(tail, count: int, within: float = 60.0):
    return await asyncio.to_thread(tail.read, count, within)


async def refusals(tail, mark: str, count: int, within: float = 60.0) -> dict[str, str]:
    """Why timers of this test were rejected, by token. A new ledger rejects again what earlier tests asked for."""
    refused: dict[str, str] = {}
    deadline = time.monotonic() + within
    while len(refused) < count and time.monotonic() < deadline:
        for message in await read(tail, 1, within=1.0):
            headers = {name: value.decode() for name, value in message.headers()}
            if headers["token"].startswith(mark):
                refused[headers["token"]] = headers["reason"]
    return refused


async def all_fired(tail, count: int, within: float = 60.0) -> list[str]:
    """The tokens of the next `count`, and of those that should not be: they would come with them, in the same volley."""
    return [token_of(message) for message in (*await read(tail, count, within), *await read(tail, 1, within=1.5))]


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


async def test_an_event_is_attempted_once_told_and_ended(kafka, store, mark):
    events = Events("it is wrong")
    rejected = kafka.tail(REJECTED)
    async with dispatcher(kafka, store, events=events):
        second = soon(1)
        due(kafka, second, "event-type:orders", f"{mark}-good")
        due(kafka, second, "event-type:orders", f"{mark}-bad")
        kafka.flush()
        refused = await refusals(rejected, mark, 1)
    assert (events.sent, events.looked) == ([f"{mark}-good"], [])
    assert refused == {f"{mark}-bad": "it is wrong"}


async def test_an_attempt_without_an_end_is_looked_up_by_the_next_dispatcher(kafka, store, mark):
    """Whichever way it went; and it is told again and again while it lasts, so that nobody forgets it."""
    silent, next_ones = Events(None, may_go_on=asyncio.Event()), Events(None)
    next_ones.sent.append(f"{mark}-there")
    done = kafka.tail(DONE)
    async with dispatcher(kafka, store, events=silent):
        for name in ("there", "gone"):
            due(kafka, soon(1), "event-type:orders", f"{mark}-{name}")
        kafka.flush()
        await asyncio.wait_for(silent.begun.wait(), 60)
        assert await attempts_of(done, f"{mark}-gone", 2) == 2
    async with dispatcher(kafka, store, events=next_ones):
        for _ in range(600):
            if f"{mark}-gone" in next_ones.sent:
                break
            await asyncio.sleep(0.1)
    assert sorted(next_ones.looked) == [f"{mark}-gone", f"{mark}-there"]
    assert sorted(next_ones.sent) == [f"{mark}-gone", f"{mark}-there"]
    assert silent.sent == []


async def attempts_of(done, token: str, count: int, within: float = 60.0) -> int:
    """How often it was told that a timer is about to be published."""
    found, deadline = 0, time.monotonic() + within
    while found < count and time.monotonic() < deadline:
        outcomes = [read_outcomes(message.value()) for message in await read(done, 1, within=1.0)]
        found += sum(
            told is not None and told.state is TimerState.ATTEMPTED and any(token in tokens for _, tokens in told.timers)
            for told in outcomes
        )
    return found


async def test_events_of_a_share_that_has_gone_elsewhere_are_published_by_its_new_dispatcher_alone(kafka, store, mark):
    """The old one waits for a storage meanwhile, which comes back when the share has gone."""
    back, names = asyncio.Event(), [f"{mark}-{number}" for number in range(20)]
    old, new = Events(None, may_go_on=back), Events(None)
    async with dispatcher(kafka, store, "one", events=old) as one:
        for name in names:
            due(kafka, soon(1), "event-type:orders", name)
        kafka.flush()
        await asyncio.wait_for(old.begun.wait(), 60)
        async with dispatcher(kafka, store, "two", events=new) as two:
            for _ in range(300):
                if len(one._dispatcher.report.shares) == len(two._dispatcher.report.shares) == 1:
                    break
                await asyncio.sleep(0.1)
            back.set()
            for _ in range(600):
                if len({*old.sent, *new.sent}) == len(names):
                    break
                await asyncio.sleep(0.1)
            await asyncio.sleep(1.0)
    assert Counter(old.sent + new.sent) == Counter(names)
    assert old.sent
    assert new.sent
