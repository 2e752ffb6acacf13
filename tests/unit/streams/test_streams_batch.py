"""Which event a report is about, and what it means."""

import asyncio
from typing import Any

from confluent_kafka import KafkaError
from msgspec.structs import replace

from meantime.kafka.batch import PartitionReports, RecordBatch, RecordOutcome, Records

W, R, F, M = RecordOutcome.WRITTEN, RecordOutcome.REFUSED, RecordOutcome.FAILED, RecordOutcome.MISSING


class Carrier:
    def __init__(self) -> None:
        self.disturbances = 0
        self.released = 0

    def release(self, size: int) -> None:
        self.released += size


class Report:
    """The part of a Kafka message that reports are read by."""

    def __init__(self, value: bytes, offset: int = 0) -> None:
        self._value = value
        self._offset = offset

    def value(self) -> bytes:
        return self._value

    def offset(self) -> int:
        return self._offset


def batch(*partitions: int, values: list[bytes] | None = None) -> tuple[Carrier, RecordBatch, dict[int, PartitionReports]]:
    carrier = Carrier()
    records = Records.of(values or [b"%d" % index for index in range(len(partitions))], partitions)
    made = RecordBatch(carrier, replace(records, size=10), asyncio.get_running_loop().create_future())
    return carrier, made, dict(made.groups)


def hear(group: PartitionReports, value: bytes, code: int | None = None, offset: int = 0) -> None:
    report: Any = Report(value, offset)
    group.on_delivery(None if code is None else KafkaError(code), report)


async def test_a_batch_is_clean_when_every_event_is_written() -> None:
    carrier, made, groups = batch(0, 1, 0)
    hear(groups[0], b"0", offset=7)
    hear(groups[1], b"1", offset=3)
    assert not made.done.done()
    hear(groups[0], b"2", offset=8)
    assert made.done.done()
    assert made.clean
    assert made.offsets == {0: 8, 1: 3}
    assert made.results() == ([W, W, W], {})
    assert carrier.released == 10


async def test_what_a_seal_refuses_is_known_by_its_bytes() -> None:
    _, made, groups = batch(0, 0, 0)
    hear(groups[0], b"0", offset=5)
    hear(groups[0], b"1", KafkaError.MSG_SIZE_TOO_LARGE)
    hear(groups[0], b"2", KafkaError.MSG_SIZE_TOO_LARGE)
    outcomes, details = made.results()
    assert outcomes == [W, R, R]
    assert set(details) == {1, 2}
    assert made.offsets == {0: 5}
    assert not made.clean


async def test_of_equal_events_the_last_are_taken_to_have_failed() -> None:
    _, made, groups = batch(0, 0, 0, values=[b"a", b"a", b"b"])
    hear(groups[0], b"a")
    hear(groups[0], b"a", KafkaError.MSG_SIZE_TOO_LARGE)
    hear(groups[0], b"b", KafkaError.MSG_SIZE_TOO_LARGE)
    assert made.results()[0] == [W, R, R]


async def test_the_last_offset_counts_even_when_reports_of_failures_come_first() -> None:
    _, made, groups = batch(0, 0, 0)
    hear(groups[0], b"2", KafkaError._MSG_TIMED_OUT)
    hear(groups[0], b"0", offset=5)
    hear(groups[0], b"1", offset=6)
    assert made.offsets == {0: 6}
    assert made.results()[0] == [W, W, F]


async def test_a_refusal_after_trouble_with_the_connection_may_answer_a_repetition() -> None:
    carrier, made, groups = batch(0)
    carrier.disturbances += 1
    hear(groups[0], b"0", KafkaError.MSG_SIZE_TOO_LARGE)
    assert made.results()[0] == [F]


async def test_a_topic_that_is_gone_has_nothing() -> None:
    _, made, groups = batch(0)
    hear(groups[0], b"0", KafkaError.UNKNOWN_TOPIC_OR_PART)
    assert made.results()[0] == [M]


async def test_an_abandoned_batch_never_claims_to_be_written() -> None:
    carrier, made, groups = batch(0, 1)
    hear(groups[0], b"0")
    made.abandon()
    await asyncio.wait_for(made.done, 60)
    hear(groups[1], b"1")
    assert not made.clean
    assert made.offsets == {}
    assert made.results()[0] == [F, F]
    assert carrier.released == 10


async def test_what_was_written_beyond_the_end_of_a_timeline_is_disowned() -> None:
    _, made, groups = batch(0, 0)
    hear(groups[0], b"0")
    hear(groups[0], b"1")
    made.disown("left behind")
    assert not made.clean
    assert made.results() == ([F, F], {0: "left behind", 1: "left behind"})


async def test_what_the_client_did_not_take_is_reported_with_what_it_took() -> None:
    carrier, made, groups = batch(0, 1, 0, 1)
    hear(groups[0], b"0", offset=4)
    made.refuse_from(1, KafkaError(KafkaError._QUEUE_FULL))
    assert made.done.done()
    assert made.offsets == {0: 4}
    assert made.results()[0] == [W, F, F, F]
    assert carrier.released == 10


async def test_an_acknowledgement_without_an_offset_proves_nothing() -> None:
    _, made, groups = batch(0, 0)
    hear(groups[0], b"0", offset=-1001)
    hear(groups[0], b"1", offset=0)
    assert not made.clean
    outcomes, details = made.results()
    assert outcomes == [F, W]
    assert "without an offset" in details[0]
