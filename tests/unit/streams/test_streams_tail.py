"""The tail of a partition: whoever follows it gets everything from where it joined, once and in order, or is told to read
for itself."""

from hypothesis import given
from hypothesis import strategies as st

from meantime.kafka.consumer import Mark, Run
from meantime.streams.reading.tail_partition import MOST_WAITING, TailFollower, TailPartition, size_of

PLACE = ("topic", 0)


def run(first: int, count: int, size: int = 1) -> Run:
    return Run(*PLACE, first, [b"%0*d" % (size, offset) for offset in range(first, first + count)])


class Stream:
    """What a stream makes of what it is given: it skips what it has had."""

    def __init__(self, reached: int) -> None:
        self.reached = reached
        self.seen: list[int] = []
        self.told = 0
        self.follower = TailFollower(("orders", 0), 1, PLACE, self._notified)

    def _notified(self, _: TailFollower) -> None:
        self.told += 1

    def look(self) -> None:
        for found in self.follower.take():
            for offset, value in enumerate(found.values, found.first):
                if offset > self.reached:
                    assert int(value[-9:]) == offset
                    self.seen.append(offset)
            self.reached = max(self.reached, found.end - 1)


def live(first: int) -> TailPartition:
    partition = TailPartition(first)
    partition.live = True
    return partition


def put(partition: TailPartition, found: Run) -> None:
    if partition.is_new(found):
        partition.accept(found, size_of(found))


@given(
    lengths=st.lists(st.tuples(st.integers(0, 3), st.integers(0, 5)), min_size=1, max_size=30),
    joins=st.lists(st.tuples(st.integers(0, 30), st.integers(0, 120)), max_size=8),
    looks=st.sets(st.integers(0, 30)),
    forgotten=st.sets(st.integers(0, 30)),
    first=st.integers(0, 10),
)
def test_whoever_follows_gets_everything_once_and_in_order(
    lengths: list[tuple[int, int]], joins: list[tuple[int, int]], looks: set[int], forgotten: set[int], first: int
) -> None:
    partition, written, following = live(first), [], []
    end = first
    for step, (gap, count) in enumerate(lengths):
        for _, after in (join for join in joins if join[0] == step):
            stream = Stream(after - 1)
            if partition.join(stream.follower, after):
                following.append((after, stream))
            else:
                assert after < partition.since
        end += gap
        put(partition, run(end, count) if count else Run(*PLACE, end, [], Mark.END))
        written += range(end, end + count)
        end += count
        if step in forgotten and partition.recent:
            partition.forget_oldest()
        if step in looks:
            for _, stream in following:
                stream.look()
    for after, stream in following:
        stream.look()
        assert stream.seen == [offset for offset in written if offset >= after]


def test_what_is_remembered_bridges_a_moment_and_not_more() -> None:
    partition = live(0)
    for first in range(0, 40, 10):
        put(partition, run(first, 10))
    partition.forget_oldest()
    late, early = Stream(9), Stream(5)
    assert partition.join(late.follower, 10)
    assert not partition.join(early.follower, 6)
    late.look()
    assert late.seen == list(range(10, 40))
    assert early.told == 0


def test_before_the_consumer_has_the_partition_anyone_can_join_and_nothing_is_taken_for_it() -> None:
    partition, earlier, later = TailPartition(20), Stream(4), Stream(19)
    assert partition.join(later.follower, 20)
    assert partition.join(earlier.follower, 5)
    assert partition.next == 5
    assert not partition.is_new(run(30, 1))
    partition.live = True
    put(partition, run(5, 20))
    for stream, wanted in ((earlier, range(5, 25)), (later, range(20, 25))):
        stream.look()
        assert stream.seen == list(wanted)


def test_the_same_records_again_bring_nothing() -> None:
    partition, stream = live(0), Stream(-1)
    partition.join(stream.follower, 0)
    put(partition, run(0, 10))
    put(partition, run(0, 10))
    put(partition, Run(*PLACE, 10, [], Mark.END))
    assert len(stream.follower.take()) == 1


def test_a_follower_is_told_once_for_all_that_waits_and_those_who_take_nothing_are_named() -> None:
    partition, slow, quick = live(0), Stream(-1), Stream(-1)
    for stream in (slow, quick):
        partition.join(stream.follower, 0)
    for first in range(10):
        found = run(first, 1, MOST_WAITING // 8)
        late = partition.accept(found, size_of(found))
        assert late == ([slow.follower] if first else [])
        assert slow.told == 1
        quick.look()
    assert slow.follower.full
    slow.follower.fall()
    assert (slow.follower.fallen, slow.follower.waiting_bytes, slow.follower.take(), slow.told) == (True, 0, [], 2)
    assert quick.seen == list(range(10))
