"""What a stream of a subscription may send, and what counts as committed."""

import json
from uuid import UUID, uuid4

from hypothesis import given
from hypothesis import strategies as st

from meantime.streams.cursors import Cursor
from meantime.streams.reading.limits import StreamLimits
from meantime.streams.subscriptions.uncommitted import HeldPartition, SubscriptionBatcher, next_overdue_at, overdue


def stream(partitions: int = 1, max_uncommitted: int = 10, **limits: float) -> SubscriptionBatcher:
    batcher = SubscriptionBatcher(uuid4(), StreamLimits(**limits), max_uncommitted)  # type: ignore[arg-type]
    for partition in range(partitions):
        batcher.partitions["orders", partition] = HeldPartition(("orders", partition), Cursor(1, -1), Cursor(1, -1), now=0.0)
    return batcher


def fill(batcher: SubscriptionBatcher, count: int, partition: int = 0, first: int = 0, order: int = 1) -> None:
    batcher.partitions["orders", partition].buffer.append(order, first, [b"%d" % n for n in range(first, first + count)])


def sent(lines: list[bytes]) -> list[list[int] | None]:
    return [json.loads(line).get("events") for line in lines]


def test_lines_carry_what_a_client_needs_to_commit() -> None:
    batcher = stream()
    fill(batcher, 1)
    cursor = json.loads(batcher.lines(now=0.0)[0])["cursor"]
    token = UUID(cursor.pop("cursor_token"))
    assert str(token)[:24] == str(batcher.stream_id)[:24]
    assert cursor == {"partition": "0", "offset": "001-0001-000000000000000000", "event_type": "orders"}


def test_a_stream_pauses_when_so_many_events_are_not_committed() -> None:
    batcher = stream(max_uncommitted=3)
    fill(batcher, 5)
    assert sent(batcher.lines(now=0.0)) == [[0], [1], [2]]
    assert batcher.full
    assert batcher.lines(now=0.0) == []
    batcher.partitions["orders", 0].commit(Cursor(1, 0), now=1.0)
    assert sent(batcher.lines(now=1.0)) == [[3]]


def test_a_batch_is_no_larger_than_what_may_go_out() -> None:
    batcher = stream(max_uncommitted=4, batch_limit=3)
    fill(batcher, 5)
    assert sent(batcher.lines(now=0.0)) == [[0, 1, 2], [3]]


def test_the_pause_is_for_all_partitions_together() -> None:
    batcher = stream(partitions=2, max_uncommitted=2)
    fill(batcher, 2)
    fill(batcher, 2, partition=1)
    assert len(batcher.lines(now=0.0)) == 2
    assert batcher.allowed == 0


def test_a_paused_stream_is_kept_alive_at_its_place() -> None:
    batcher = stream(max_uncommitted=1, flush_for=5.0)
    fill(batcher, 2)
    batcher.lines(now=0.0)
    [keep_alive] = batcher.lines(now=5.0)
    assert json.loads(keep_alive)["cursor"]["offset"] == str(Cursor(1, 0))
    assert sent([keep_alive]) == [None]


def test_a_commit_covers_every_batch_before_it_and_parts_of_one() -> None:
    batcher = stream(batch_limit=4, max_uncommitted=100)
    fill(batcher, 8)
    batcher.lines(now=0.0)
    held = batcher.partitions["orders", 0]
    assert held.uncommitted == 8
    held.commit(Cursor(1, 5), now=0.0)
    assert held.uncommitted == 2
    held.commit(Cursor(1, 3), now=0.0)
    assert (held.uncommitted, held.committed) == (2, Cursor(1, 5))
    held.commit(Cursor(1, 7), now=0.0)
    assert held.uncommitted == 0


def test_a_commit_at_the_border_covers_the_timeline_before_it() -> None:
    batcher = stream(max_uncommitted=100)
    fill(batcher, 2)
    fill(batcher, 2, order=2)
    batcher.lines(now=0.0)
    held = batcher.partitions["orders", 0]
    held.commit(Cursor(2, -1), now=0.0)
    assert held.uncommitted == 2
    held.commit(Cursor(2, 1), now=0.0)
    assert held.uncommitted == 0


@given(st.lists(st.integers(1, 5), min_size=1, max_size=8), st.lists(st.integers(0, 40), max_size=8))
def test_what_is_not_committed_is_what_lies_after_the_highest_commit(sizes: list[int], commits: list[int]) -> None:
    batcher = stream(batch_limit=5, max_uncommitted=1000, flush_for=0.0)
    total = 0
    for size in sizes:
        fill(batcher, size, first=total)
        batcher.lines(now=0.0)
        total += size
    held = batcher.partitions["orders", 0]
    highest = 0
    for count in [count for count in commits if count <= total]:
        highest = max(highest, count)
        held.commit(Cursor(1, count - 1), now=0.0)
        assert held.uncommitted == total - highest


def test_a_client_has_so_long_to_commit_from_the_first_event_or_its_last_commit() -> None:
    batcher = stream(max_uncommitted=100)
    held = batcher.partitions["orders", 0]
    assert next_overdue_at(batcher.partitions, 60.0) is None
    fill(batcher, 1)
    batcher.lines(now=10.0)
    fill(batcher, 1, first=1)
    batcher.lines(now=20.0)
    assert next_overdue_at(batcher.partitions, 60.0) == 70.0
    held.commit(Cursor(1, 0), now=30.0)
    assert next_overdue_at(batcher.partitions, 60.0) == 90.0
    assert overdue(batcher.partitions, 60.0, now=89.0) == []
    assert overdue(batcher.partitions, 60.0, now=90.0) == [held]


def test_a_partition_that_is_leaving_sends_nothing() -> None:
    batcher = stream(partitions=2)
    fill(batcher, 1)
    fill(batcher, 1, partition=1)
    batcher.partitions["orders", 0].leaving = True
    assert [json.loads(text)["cursor"]["partition"] for text in batcher.lines(now=0.0)] == ["1"]


def test_a_stream_ends_after_its_limit_of_events_or_of_keep_alives() -> None:
    limited = stream(stream_limit=3, max_uncommitted=100, batch_limit=2)
    fill(limited, 9)
    assert sent(limited.lines(now=0.0)) == [[0, 1], [2]]
    assert limited.finished
    idle = stream(flush_for=1.0, keep_alive_limit=2)
    idle.lines(now=1.0)
    assert not idle.finished
    idle.lines(now=2.0)
    assert idle.finished


def test_only_what_was_sent_can_be_committed() -> None:
    batcher = stream(max_uncommitted=100)
    fill(batcher, 2)
    batcher.lines(now=0.0)
    held = batcher.partitions["orders", 0]
    assert held.reached == Cursor(1, 1)


def test_a_line_about_the_stream_has_its_place_and_no_events() -> None:
    batcher = stream()
    fill(batcher, 1)
    batcher.lines(now=0.0)
    told = json.loads(batcher.debug_line(batcher.partitions["orders", 0], "Commit timeout reached"))
    assert told["info"] == {"debug": "Commit timeout reached"}
    assert told["cursor"]["offset"] == str(Cursor(1, 0))
    assert "events" not in told
