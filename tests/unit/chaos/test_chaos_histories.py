"""The judge of the fault suite catches what is planted, and nothing else."""

import random

import pytest

from meantime.chaos.histories import EventMark, EventPartition, HistoryVerdict, Published, judge

TARGET = EventPartition("orders", 0)


def published(numbers: range = range(100), publisher: str = "p") -> Published:
    return Published(TARGET, publisher, acknowledged=list(numbers))


def marks(numbers: list[int] | range, publisher: str = "p") -> list[EventMark]:
    return [EventMark(publisher, number) for number in numbers]


def test_a_faithful_reader_is_believed() -> None:
    assert judge([published()], {TARGET: marks(range(100))}).good


def test_two_publishers_may_be_mixed_in_any_way() -> None:
    read = marks(range(100)) + marks(range(100), "q")
    random.Random(1).shuffle(read)
    read.sort(key=lambda mark: mark.number)
    assert judge([published(), published(publisher="q")], {TARGET: read}).good


@pytest.mark.parametrize("missing", [0, 42, 99])
def test_a_planted_loss_is_found(missing: int) -> None:
    verdict = judge([published()], {TARGET: marks([number for number in range(100) if number != missing])})
    assert verdict == HistoryVerdict(lost=((TARGET, EventMark("p", missing)),))


def test_a_partition_that_nobody_read_is_lost() -> None:
    assert len(judge([published()], {}).lost) == 100


@pytest.mark.parametrize("again", [0, 42, 99])
def test_a_planted_repetition_is_found(again: int) -> None:
    verdict = judge([published()], {TARGET: marks([*range(100), again])})
    assert verdict.twice == ((TARGET, EventMark("p", again)),)
    assert not verdict.lost


def test_a_planted_disorder_is_found() -> None:
    numbers = [*range(50), 51, 50, *range(52, 100)]
    verdict = judge([published()], {TARGET: marks(numbers)})
    assert verdict == HistoryVerdict(out_of_order=((TARGET, EventMark("p", 50)),))


def test_an_event_in_the_wrong_partition_is_both_lost_and_unheard_of() -> None:
    elsewhere = EventPartition("orders", 1)
    verdict = judge([published(range(2))], {TARGET: marks([0]), elsewhere: marks([1])})
    assert verdict.lost == ((TARGET, EventMark("p", 1)),)
    assert verdict.unheard_of == ((elsewhere, EventMark("p", 1)),)


def test_what_had_no_answer_may_be_missing_or_late_but_not_twice() -> None:
    history = Published(TARGET, "p", acknowledged=[0, 1, 4], unanswered={2, 3})
    assert judge([history], {TARGET: marks([0, 1, 4])}).good
    assert judge([history], {TARGET: marks([0, 1, 4, 2])}).good
    assert judge([history], {TARGET: marks([0, 1, 2, 3, 4, 2])}).twice == ((TARGET, EventMark("p", 2)),)
