"""The gate of publishers, and what may be sent again after a refusal."""

import asyncio
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meantime.errors import StorageUnavailable, Unavailable
from meantime.kafka.batch import RecordOutcome
from meantime.streams.publishing.gate import PublishGate
from meantime.streams.publishing.refusals import resendable
from meantime.streams.switching.acknowledged import AcknowledgedOffsets, StoragePartition

SOON = 0.01


def later(seconds: float = 5.0) -> float:
    return time.monotonic() + seconds


async def test_an_open_gate_keeps_nobody() -> None:
    gate = PublishGate()
    await gate.wait_open("orders", later())
    gate.leave(gate.enter("orders"))
    assert gate.inside("orders") == 0


async def test_who_waits_goes_on_when_the_gate_opens() -> None:
    gate = PublishGate()
    gate.close("orders")
    waiting = asyncio.create_task(gate.wait_open("orders", later()))
    await asyncio.sleep(0)
    assert not waiting.done()
    gate.open("orders")
    await waiting


async def test_a_deadline_ends_the_wait_with_a_hint_when_to_retry() -> None:
    gate = PublishGate()
    gate.close("orders")
    with pytest.raises(Unavailable) as error:
        await gate.wait_open("orders", later(SOON))
    assert error.value.retryable
    assert error.value.extras["retry_after"] >= 1


async def test_gates_of_other_event_types_stay_open() -> None:
    gate = PublishGate()
    gate.close("orders")
    await gate.wait_open("payments", later(SOON))
    assert gate.closed == {"orders"}


async def test_a_gate_is_drained_when_the_last_one_has_left() -> None:
    gate = PublishGate()
    first, second = gate.enter("orders"), gate.enter("orders")
    gate.close("orders")
    draining = asyncio.create_task(gate.drained("orders", 5.0))
    await asyncio.sleep(0)
    gate.leave(first)
    await asyncio.sleep(0)
    assert not draining.done()
    gate.leave(second)
    assert await draining


async def test_the_wait_for_one_event_type_is_bounded_and_concerns_no_other() -> None:
    gate = PublishGate()
    gate.enter("orders")
    assert not await gate.drained("orders", SOON)
    assert await gate.drained("payments", SOON)


async def test_abandoning_lets_those_inside_go() -> None:
    gate, abandoned = PublishGate(), []

    class Batch:
        def abandon(self) -> None:
            abandoned.append(self)

    gate.enter("orders").batch = Batch()
    gate.enter("payments").batch = Batch()
    assert gate.abandon("orders") == 1
    assert len(abandoned) == 1


async def test_closing_and_opening_twice_is_like_once() -> None:
    gate = PublishGate()
    gate.close("orders")
    gate.close("orders")
    gate.open("orders")
    gate.open("orders")
    await gate.wait_open("orders", later(SOON))


# What may be sent again

W, R, F, M = RecordOutcome.WRITTEN, RecordOutcome.REFUSED, RecordOutcome.FAILED, RecordOutcome.MISSING


def test_what_a_seal_refused_behind_what_was_written_is_sent_again_in_order() -> None:
    assert resendable([W, W, R, R], [0, 0, 0, 0]) == [2, 3]


def test_what_was_overtaken_is_not_sent_again() -> None:
    assert resendable([R, W, R], [0, 0, 0]) == [2]
    assert resendable([R, F, R], [0, 0, 0]) == [2]


def test_partitions_do_not_disturb_each_other() -> None:
    assert resendable([R, W, R], [0, 1, 1]) == [0, 2]


def test_an_unknown_fate_is_never_sent_again() -> None:
    assert resendable([F, F], [0, 0]) == []


outcomes = st.lists(st.tuples(st.sampled_from([W, R, F, M]), st.integers(0, 2)), max_size=12)


@given(outcomes)
def test_sending_again_never_changes_the_order_of_a_partition(batch: list[tuple[RecordOutcome, int]]) -> None:
    again = resendable([outcome for outcome, _ in batch], [partition for _, partition in batch])
    for partition in range(3):
        written = [index for index, (outcome, place) in enumerate(batch) if place == partition and outcome in (W, F)]
        assert written == sorted(written)
        assert all(index > max(written, default=-1) for index in again if batch[index][1] == partition)
        assert again == sorted(again)


# Acknowledged offsets


class Ledger:
    def __init__(self) -> None:
        self.down = False
        self.rows: dict[StoragePartition, int] = {}

    async def raise_acknowledged(self, offsets: dict[StoragePartition, int]) -> None:
        if self.down:
            raise StorageUnavailable()
        self.rows |= offsets


async def test_the_highest_acknowledged_offset_is_written_down() -> None:
    ledger = Ledger()
    acknowledged = AcknowledgedOffsets(ledger)
    acknowledged.note("default", "t", {0: 5, 1: 2})
    acknowledged.note("default", "t", {0: 3})
    await acknowledged.write()
    assert ledger.rows == {StoragePartition("default", "t", 0): 5, StoragePartition("default", "t", 1): 2}


async def test_what_could_not_be_written_down_is_written_later() -> None:
    ledger = Ledger()
    acknowledged = AcknowledgedOffsets(ledger)
    acknowledged.note("default", "t", {0: 5})
    ledger.down = True
    with pytest.raises(StorageUnavailable):
        await acknowledged.write()
    acknowledged.note("default", "t", {0: 4})
    ledger.down = False
    await acknowledged.write()
    assert ledger.rows == {StoragePartition("default", "t", 0): 5}


async def test_only_those_who_outlast_the_wait_are_late() -> None:
    gate = PublishGate()
    flights = [gate.enter("orders"), gate.enter("orders"), gate.enter("bills")]
    gate.leave(flights[0])
    assert gate.wait_no_longer("orders") == 1
    assert gate.wait_no_longer("nothing") == 0
    assert [flight.late for flight in flights] == [False, True, False]
    assert not gate.enter("orders").late
