"""Sharing out queues on a real ZooKeeper."""

import asyncio
import json
import re

import pytest
from workers_crew import open_crew, znode
from zookeeper_tools import eventually, expire

from meantime.coordination.session import open_session
from meantime.errors import CoordinationLost, NotFound, VersionMoved
from meantime.workers.layout import app_layout
from meantime.workers.model import QueueRecord, QueueSource, WorkerRecord, encode
from meantime.workers.rules import last_of
from meantime.workers.store import AppStore


@pytest.fixture
async def crew(services):
    async with open_crew(services.zookeeper) as crew:
        yield crew


async def test_the_layout_is_that_of_the_seed(crew):
    (queue,) = await crew.make_queues(1)
    (hand,) = await crew.join()
    await crew.shared_out([queue], workers=1)
    assert re.fullmatch(r"worker-\d{10}", hand.name)
    assert await znode(crew.watcher, crew.store.layout.worker(hand.name)) == {"queues": [queue]}
    record = await znode(crew.watcher, crew.store.layout.queue(queue))
    assert record["last"] == ""
    assert (record["event_type"], record["partition"]) == ("orders", "0")


async def test_a_lone_worker_takes_everything(crew):
    queues = await crew.make_queues(7)
    await crew.join()
    await crew.shared_out(queues, workers=1)


async def test_who_joins_gets_a_fair_share_and_nothing_else_moves(crew):
    queues = await crew.make_queues(60)
    await crew.join(3)
    before = await crew.shared_out(queues, workers=3)
    (newcomer,) = await crew.join()
    after = await crew.shared_out(queues, workers=4)
    moved = [queue for name, held in before.items() for queue in held if queue not in after[name]]
    assert sorted(moved) == sorted(after[newcomer.name])
    assert len(moved) == 15


async def test_who_stops_hands_over_at_once_and_leaves_nothing(crew):
    queues = await crew.make_queues(10)
    first, _second = await crew.join(2)
    await crew.shared_out(queues, workers=2)
    first.stop.set()
    await crew.shared_out(queues, workers=1)


async def test_a_job_that_takes_its_time_holds_up_only_its_own_queue(crew):
    queues = await crew.make_queues(4)
    first, second = await crew.join(2)
    await crew.shared_out(queues, workers=2)
    slow = next(iter(first.works.values()))
    slow.busy = True
    first.stop.set()
    await eventually(lambda: len(second.held) == 3)
    assert (await crew.listed())[first.name] == [slow.claim.queue]
    slow.rest()
    await eventually(lambda: len(second.held) == 4)


async def test_at_every_instant_a_queue_has_one_owner(crew):
    """ZooKeeper's own history: every change of a worker's list, in the order in which it was made."""
    queues = await crew.make_queues(24)
    await crew.join(2)
    await crew.shared_out(queues, workers=2)
    claimed, seen_twice, over = {}, [], asyncio.Event()

    async def look():
        while not over.is_set():
            lists = await crew.listed()
            every = [queue for held in lists.values() for queue in held]
            seen_twice.extend(queue for queue in set(every) if every.count(queue) > 1)
            for name, held in lists.items():
                claimed.setdefault(name, set()).update(held)

    looking = asyncio.create_task(look())
    (third,) = await crew.join()
    await crew.shared_out(queues, workers=3)
    third.stop.set()
    await crew.shared_out(queues, workers=2)
    over.set()
    await looking
    assert seen_twice == []
    assert len(claimed) == 3


async def test_the_queues_of_a_dead_session_are_taken_at_once(crew):
    queues = await crew.make_queues(9)
    first, second, third = await crew.join(3)
    await crew.shared_out(queues, workers=3)
    lost = first.held
    name = first.name
    first.may_join.clear()
    await expire(first.session, crew.zookeeper)
    await crew.shared_out(queues, workers=2)
    assert all(first.works[queue].abandoned for queue in lost)
    assert name not in await crew.listed()
    assert len(second.held | third.held) == 9


@pytest.mark.parametrize("step", ["create", "set"], ids=["making the owner node", "writing the record"])
async def test_a_claim_whose_answer_was_lost_while_the_plan_moves_is_given_up(crew, step, monkeypatch):
    """What the session holds is known to somebody: the queues can be taken by those to whom the plan gives them."""
    queues = await crew.make_queues(8)
    (first,) = await crew.join()
    await crew.shared_out(queues, workers=1)
    more = sorted(await crew.make_queues(16))
    fresh, failed = set(more) - set(queues), set()
    real = getattr(first.session, step)

    async def answer_lost(path, *args, **options):
        answer = await real(path, *args, **options)
        if (queue := path.rpartition("/")[2]) in fresh:
            failed.add(queue)
            raise CoordinationLost("the answer is lost")
        return answer

    monkeypatch.setattr(first.session, step, answer_lost)
    await eventually(lambda: failed == fresh)
    await crew.join(2)
    held = await crew.shared_out(more, workers=3)
    for queue in more:
        owner = await crew.watcher.get(crew.store.layout.owner(queue))
        assert queue in held[owner.data.decode()]


async def test_who_loses_its_session_comes_back_as_another_worker(crew):
    queues = await crew.make_queues(6)
    first, _ = await crew.join(2)
    await crew.shared_out(queues, workers=2)
    name = first.name
    await expire(first.session, crew.zookeeper)
    await eventually(lambda: first.name not in (None, name))
    await crew.shared_out(queues, workers=2)


async def test_new_queues_are_shared_out_without_a_restart(crew):
    await crew.make_queues(2)
    await crew.join(2)
    queues = await crew.make_queues(8)
    await crew.shared_out(queues, workers=2)


async def test_a_former_owner_cannot_move_last(crew):
    (queue,) = await crew.make_queues(1)
    first, second = await crew.join(2)
    await crew.shared_out([queue], workers=2)
    owner, other = (first, second) if first.held else (second, first)
    claim = owner.works[queue].claim
    assert await claim.checkpoint(last_of(1_700_000_000_000), "001-0001-000000000000000004")
    stale = claim._version
    owner.stop.set()
    await eventually(lambda: other.held)
    with pytest.raises(VersionMoved):
        await owner.session.set(crew.store.layout.queue(queue), b"{}", stale)
    record = (await crew.store.queue(queue)).record
    assert (record.last, record.cursor) == (last_of(1_700_000_000_000), "001-0001-000000000000000004")
    assert other.works[queue].claim.record == record


async def test_a_reset_reaches_the_owner_and_its_late_checkpoint_does_not_undo_it(crew):
    (queue,) = await crew.make_queues(1)
    (hand,) = await crew.join()
    await crew.shared_out([queue], workers=1)
    work = hand.works[queue]
    assert await work.claim.checkpoint(last_of(1), "001-0001-000000000000000007")
    woken = work.woken
    await crew.store.change_queue(queue, lambda record: type(record)(**_fields(record, last="", cursor="BEGIN")))
    await eventually(lambda: work.woken > woken)
    assert work.claim.stale
    assert not await work.claim.checkpoint(last_of(2), "001-0001-000000000000000008")
    assert work.claim.record.cursor == "BEGIN"
    assert await work.claim.checkpoint(last_of(3), "001-0001-000000000000000000")


async def test_a_pause_is_seen_and_does_not_lose_a_checkpoint(crew):
    (queue,) = await crew.make_queues(1)
    (hand,) = await crew.join()
    await crew.shared_out([queue], workers=1)
    claim = hand.works[queue].claim
    await crew.store.change_queue(queue, lambda record: type(record)(**_fields(record, paused=True)))
    assert await claim.checkpoint(last_of(5), "001-0001-000000000000000005")
    record = (await crew.store.queue(queue)).record
    assert record.paused
    assert record.cursor == "001-0001-000000000000000005"


def _fields(record, **changes):
    return {field: getattr(record, field) for field in record.__struct_fields__} | changes


async def test_a_corrupt_record_is_left_alone_and_the_rest_goes_on(crew):
    queues = await crew.make_queues(3)
    path = crew.store.layout.queue(queues[1])
    await crew.watcher.set(path, b"not json")
    (hand,) = await crew.join()
    await eventually(lambda: hand.held == {queues[0], queues[2]})
    assert (await crew.watcher.get(path)).data == b"not json"
    with pytest.raises(NotFound):
        await crew.watcher.get(crew.store.layout.owner(queues[1]))
    await crew.store.replace_queue(queues[1], (await crew.store.queue(queues[0])).record)
    await crew.shared_out(queues, workers=1)


async def test_a_record_that_says_nothing_but_last_is_completed(crew):
    source = QueueSource("orders", "0")
    await crew.watcher.create(crew.store.layout.queue(source.queue), b'{"last": ""}')
    (hand,) = await crew.join()
    hand.sources[source.queue] = source
    await crew.shared_out([source.queue], workers=1)
    claim = hand.works[source.queue].claim
    assert claim.source == source
    assert await znode(crew.watcher, crew.store.layout.queue(source.queue)) == {
        "last": "",
        "event_type": "orders",
        "partition": "0",
        "cursor": "",
        "paused": False,
    }
    await claim.checkpoint(last_of(1), "001-0001-000000000000000000")
    await crew.watcher.set(crew.store.layout.queue(source.queue), b'{"last": ""}')
    assert not await claim.checkpoint(last_of(2), "001-0001-000000000000000001")
    assert (claim.source, claim.record.cursor) == (source, "")


async def test_a_worker_of_another_make_that_never_acts_does_not_stop_the_others(crew):
    """It is the first in line and writes no plan; the next in line does."""
    await crew.watcher.create(f"{crew.store.layout.workers}/worker-", encode(WorkerRecord()), ephemeral=True, sequence=True)
    queues = await crew.make_queues(4)
    (hand,) = await crew.join()
    await eventually(lambda: len(hand.held) == 2)
    assert hand.held < set(queues)


async def test_the_first_queues_of_an_event_type_are_made_together_or_not_at_all(crew):
    records = [QueueRecord(event_type="orders", partition=str(number), cursor="7") for number in range(32)]
    (present,) = await crew.make_queues(1)
    assert not await crew.store.create_together(records)
    assert await crew.store.queues() == [present]
    assert await crew.store.create_together(records[1:])
    assert len(await crew.store.queues()) == 32
    assert {(await crew.store.queue(record.source.queue)).record.cursor for record in records[1:]} == {"7"}
    assert (await crew.store.queue(present)).record.cursor == ""


async def test_applications_and_namespaces_stand_side_by_side(crew):
    namespace = f"{crew.watcher.root}/mozilla/services/qdo"
    async with open_session(crew.options) as session:
        await session.wait_connected()
        for app in ("sync", "push"):
            store = AppStore(session, app_layout(namespace, app))
            await store.ensure()
            await store.create_queues([QueueSource(app, "0")], ())
            assert await store.queues() == [QueueSource(app, "0").queue]
    queues = await crew.make_queues(2)
    await crew.join()
    await crew.shared_out(queues, workers=1)
    children = await crew.watcher.children(f"{namespace}/push/workers")
    assert children == []
    assert (
        json.loads((await crew.watcher.get(f"{namespace}/push/queues/{QueueSource('push', '0').queue}")).data)["last"] == ""
    )
