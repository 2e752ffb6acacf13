"""Properties of the plan of shares, as workers use it; those of subscriptions are tested with their own rules."""

import random
from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from meantime.sharing import plan_shares


def names(prefix, count):
    return [f"{prefix}-{number:05d}" for number in range(count)]


def sizes(planned):
    return [len(queues) for queues in planned.values()]


def moves(held, planned):
    """How many queues change hands between two states; what had no worker before does not count."""
    before = {queue: worker for worker, queues in held.items() for queue in queues}
    after = {queue: worker for worker, queues in planned.items() for queue in queues}
    return sum(1 for queue, worker in before.items() if queue in after and after[queue] != worker)


@st.composite
def worlds(draw):
    """Workers, queues, and any holdings whatever: unbalanced, of unknown workers, of unknown queues, claimed twice."""
    workers = names("worker", draw(st.integers(1, 12)))
    queues = names("queue", draw(st.integers(0, 60)))
    owners = st.sampled_from([*workers, "worker-gone", None])
    held = {}
    for queue in [*queues, "queue-gone"]:
        for owner in draw(st.lists(owners, min_size=0, max_size=2)):
            if owner:
                held.setdefault(owner, []).append(queue)
    return workers, queues, held


@given(worlds())
def test_every_queue_has_exactly_one_worker(world):
    workers, queues, held = world
    planned = plan_shares(workers, queues, held)
    assert sorted(queue for mine in planned.values() for queue in mine) == sorted(queues)
    assert set(planned) == set(workers)


@given(worlds())
def test_sizes_differ_by_at_most_one(world):
    planned = plan_shares(*world)
    assert max(sizes(planned)) - min(sizes(planned)) <= 1


@given(worlds(), st.randoms())
def test_the_order_of_what_is_known_does_not_matter(world, chance):
    workers, queues, held = world
    shuffled = {worker: chance.sample(held[worker], len(held[worker])) for worker in chance.sample(sorted(held), len(held))}
    assert plan_shares(workers, queues, held) == plan_shares(chance.sample(workers, len(workers)), set(queues), shuffled)


@given(worlds())
def test_a_plan_that_is_carried_out_stays_as_it_is(world):
    workers, queues, held = world
    planned = plan_shares(workers, queues, held)
    assert plan_shares(workers, queues, planned) == planned


@given(worlds())
def test_only_what_is_over_the_share_moves(world):
    """No plan with sizes that differ by at most one could leave more in place."""
    workers, queues, held = world
    owned = {}
    for worker in workers:
        for queue in held.get(worker, ()):
            if queue in queues:
                owned.setdefault(queue, worker)
    counts = Counter(owned.values())
    least, rest = divmod(len(queues), len(workers))
    ranked = sorted((counts[worker] for worker in workers), reverse=True)
    fewest = sum(max(0, count - least - (place < rest)) for place, count in enumerate(ranked))
    clean = {worker: [queue for queue, owner in owned.items() if owner == worker] for worker in workers}
    assert moves(clean, plan_shares(workers, queues, held)) == fewest


@settings(max_examples=12, deadline=None)
@given(st.integers(2, 199), st.integers(1, 2000))
def test_a_joining_worker_moves_one_share_and_no_more(count, queue_count):
    workers, queues = names("worker", count), names("queue", queue_count)
    before = plan_shares(workers, queues, {})
    joined = plan_shares([*workers, "worker-99999"], queues, before)
    assert moves(before, joined) == len(joined["worker-99999"]) <= queue_count // (count + 1) + 1


@settings(max_examples=12, deadline=None)
@given(st.integers(2, 200), st.integers(1, 2000), st.randoms())
def test_when_workers_die_only_their_queues_move(count, queue_count, chance):
    workers, queues = names("worker", count), names("queue", queue_count)
    before = plan_shares(workers, queues, {})
    left = sorted(chance.sample(workers, chance.randint(1, count - 1)))
    after = plan_shares(left, queues, before)
    survivors = {worker: before[worker] for worker in left}
    assert moves(survivors, after) == 0
    assert max(sizes(after)) - min(sizes(after)) <= 1


def test_it_stays_balanced_and_calm_through_a_long_life():
    chance = random.Random(7)
    workers, queues, held, following = names("worker", 5), names("queue", 300), {}, 5
    for _ in range(100):
        joins = chance.random() < 0.5 or len(workers) < 2
        if joins:
            workers.append(f"worker-{following:05d}")
            following += 1
        else:
            workers.remove(chance.choice(workers))
        planned = plan_shares(workers, queues, held)
        share = len(queues) // len(workers) + 1
        assert moves({worker: held.get(worker, []) for worker in workers}, planned) <= (share if joins else 0)
        held = planned


def test_without_workers_there_is_no_plan_shares():
    assert plan_shares([], ["a"], {"gone": ["a"]}) == {}
