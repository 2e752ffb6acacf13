"""The oscillator and its dial on a real Kafka."""

import asyncio
from functools import partial

import pytest
from confluent_kafka import OFFSET_END, Consumer, KafkaError, KafkaException, TopicPartition
from timers_world import Kafka, kafka_with_topics, until

from meantime.clock import ManualClock
from meantime.errors import CoordinationLost
from meantime.timers.oscillator import Oscillator, Tick
from meantime.timers.oscillator_topic import open_oscillator_topic
from meantime.timers.topics import OSCILLATOR

FAR = 2_000_000_000


@pytest.fixture(scope="module")
def kafka(services):
    """With nothing on the dial, whatever other tests have left there."""
    with kafka_with_topics(services.kafka[1]) as kafka:
        until(lambda: emptied(kafka))
        yield kafka


def emptied(kafka: Kafka) -> bool:
    """Not yet while the broker does not know that it leads a topic that was made a moment ago."""
    everything = TopicPartition(OSCILLATOR, 0, OFFSET_END)
    try:
        kafka.admin.delete_records([everything])[everything].result()
    except KafkaException as error:
        if error.args[0].code() != KafkaError.NOT_LEADER_FOR_PARTITION:
            raise
        return False
    return True


def seconds_on(kafka: Kafka) -> list[int]:
    """Everything on the dial, as a reader of committed records sees it."""
    settings = {"group.id": "dial-test", "isolation.level": "read_committed", "enable.partition.eof": True}
    consumer = Consumer({"bootstrap.servers": kafka.address, "auto.offset.reset": "earliest", **settings})
    consumer.assign([TopicPartition(OSCILLATOR, 0, 0)])
    found = []
    while True:
        message = consumer.poll(20)
        assert message is not None
        if message.error() is not None:
            assert message.error().code() == KafkaError._PARTITION_EOF
            consumer.close()
            return found
        assert message.value() == b"1"
        found.append(int(message.key()))


async def turn(kafka: Kafka, clock: ManualClock, times: int, last: int | None = None) -> list[Tick]:
    told = []

    async def last_known(_: int) -> int | None:
        return last

    async for tick in Oscillator(partial(open_oscillator_topic, kafka.storage), clock, 5, last_known).ticks():
        told.append(tick)
        clock.advance(1000)
        if len(told) == times:
            return told
    return told


async def test_the_dial_goes_on_where_it_stood_and_leaves_no_gap(kafka):
    clock = ManualClock()
    first = await turn(kafka, clock, 2)
    assert [tick.last for tick in first] == [1_700_000_005, 1_700_000_006]
    clock.advance(60_000)
    second = await turn(kafka, clock, 1)
    assert second[0].last == 1_700_000_067
    assert seconds_on(kafka) == list(range(1_700_000_000, 1_700_000_068))


async def test_a_dial_whose_ticks_kafka_has_deleted_goes_on_where_they_ended(kafka):
    clock = ManualClock(1_700_001_000_000)
    until(lambda: emptied(kafka))
    for garbage in (b"99999999999", b"[" * 20_000, b"", None, b"9" * 5000):
        kafka.producer.produce(OSCILLATOR, b"1", garbage)
    kafka.flush()
    assert (await turn(kafka, clock, 1, last=1_700_000_900))[0].last == 1_700_001_005
    until(lambda: emptied(kafka))
    assert (await turn(kafka, ManualClock(1_700_002_000_000), 1))[0].last == 1_700_002_005
    assert seconds_on(kafka) == list(range(1_700_002_000, 1_700_002_006)), "without anything to go on from it is new"


async def test_whoever_opens_the_dial_ends_the_writing_of_everybody_before(kafka):
    async with open_oscillator_topic(kafka.storage) as old:
        last = await old.last(FAR) or 0
        await old.write(range(last + 1, last + 2))
        async with open_oscillator_topic(kafka.storage) as new:
            assert await new.last(FAR) == last + 1
            with pytest.raises(CoordinationLost):
                await old.write(range(last + 2, last + 3))
            await new.write(range(last + 2, last + 3))
            assert await new.last(FAR) == last + 2
    assert seconds_on(kafka)[-2:] == [last + 1, last + 2]


async def test_what_a_fenced_writer_began_is_not_on_the_dial(kafka):
    async with open_oscillator_topic(kafka.storage) as dead:
        last = await dead.last(FAR) or 0
        dead._producer.begin_transaction()
        dead._producer.produce(OSCILLATOR, b"1", str(last + 1), partition=0)
        await asyncio.to_thread(dead._producer.flush, 10)
        async with open_oscillator_topic(kafka.storage) as heir:
            assert await heir.last(FAR) == last
            await heir.write(range(last + 1, last + 2))
    assert seconds_on(kafka)[-2:] == [last, last + 1]
