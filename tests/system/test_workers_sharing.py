"""Queues shared out among real processes that come, go, die and freeze: nothing lost, one owner each."""

import signal
import threading
import time
from collections import Counter
from contextlib import suppress

import pytest
from kazoo.client import KazooClient
from workshop import Workshop, orders

from meantime.errors import MeantimeError
from meantime.workers.model import WorkerRecord, decode

pytestmark = [pytest.mark.lane("nodes"), pytest.mark.takes(seconds=50)]

SESSION = 4.0
SETTLE = 1.0
TYPES, PARTITIONS = ("orders", "users"), 30
QUEUES = len(TYPES) * PARTITIONS
OPTIONS = ("--session-timeout", str(SESSION), "--settle", str(SETTLE))

JOBS = """
    app = App("$app")

    @app.job("orders-$id")
    async def handle_order(message, context):
        note(message)
        await asyncio.sleep(0.02)

    @app.job("users-$id")
    async def handle_user(message, context):
        note(message)
        await asyncio.sleep(0.02)
"""


@pytest.fixture(scope="module")
def stack(breakable):
    return breakable


@pytest.fixture
def shop(stack, folder):
    assert stack.until_whole()
    workshop = Workshop(folder, stack.urls[:2], stack.places.zookeeper)
    workshop.write(JOBS)
    for event_type in TYPES:
        workshop.create(event_type, PARTITIONS)
    yield workshop
    workshop.close()


class Traffic:
    """Publishes until it is stopped; every event has a number of its own."""

    def __init__(self, shop, per_second=150):
        self.shop, self.sent, self._over = shop, 0, threading.Event()
        self._every = 30 / per_second
        self._thread = threading.Thread(target=self._run)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._over.set()
        self._thread.join()

    def _run(self):
        while not self._over.wait(self._every):
            for event_type in TYPES:
                with suppress(MeantimeError):  # perhaps written all the same; sent again, it has other cursors
                    self.shop.publish(event_type, 15, start=self.sent)
                    self.sent += 15


class Witness:
    """Looks at the workers' nodes in ZooKeeper whenever one changes, and remembers every queue that two of them named."""

    def __init__(self, shop):
        hosts, _, root = shop.zookeeper.partition("/")
        self._path = f"/{root}/apps/{shop.app}/workers"
        self._client = KazooClient(hosts)
        self._over = threading.Event()
        self._changed = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.looks, self.double = 0, []

    def __enter__(self):
        self._client.start()
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._over.set()
        self._thread.join()
        self._client.stop()
        self._client.close()

    def _run(self):
        while not self._over.is_set():
            self._changed.wait(0.1)
            self._changed.clear()
            with suppress(Exception):
                self._look()

    def _wake(self, _event):
        self._changed.set()

    def _look(self):
        """A queue may move between two readings; only what stands in both nodes at once counts, so look at both again."""
        held = Counter(queue for name in self._client.get_children(self._path, self._wake) for queue in self._queues(name))
        self.looks += 1
        for queue in [queue for queue, owners in held.items() if owners > 1]:
            names = [name for name in self._client.get_children(self._path, self._wake) if queue in self._queues(name)]
            if len(names) > 1:
                self.double.append((queue, names))

    def _queues(self, name):
        path = f"{self._path}/{name}"
        return decode(WorkerRecord, path, self._client.get(path, self._wake)[0]).queues


def repeated(records):
    """How many messages of each queue were begun more than once."""
    begun = Counter((record["event_type"], record["partition"], record["cursor"]) for record in records)
    return Counter((event_type, partition) for (event_type, partition, _), times in begun.items() if times > 1)


def assert_nothing_lost(shop, traffic):
    everything = shop.wait(lambda records: len({_number(record) for record in records}) >= traffic.sent)
    assert {_number(record) for record in everything} == set(range(traffic.sent))
    return everything


def _number(record):
    return record["event"]["n"]


def owners_take_turns(records):
    """In each queue, whoever came second has begun nothing before the first one's last message."""
    for cursors in orders(records).values():
        once = list(dict.fromkeys(cursors))
        assert once == sorted(once)


def test_through_kill_and_join_every_queue_has_one_owner_and_nothing_is_lost(shop):
    for _ in range(3):
        shop.start(*OPTIONS)
    shop.wait_until(lambda: shop.balanced(QUEUES, 3))
    with Witness(shop) as witness, Traffic(shop) as traffic:
        shop.wait_for(100)
        victim = shop.workers[0]
        victim.kill()
        killed_at = time.time()
        shop.wait_until(lambda: shop.balanced(QUEUES, 2))
        before_join = len(shop.records())
        shop.start(*OPTIONS)
        shop.wait_until(lambda: len(shop.holdings()) == 3)
        shop.wait_until(lambda: shop.balanced(QUEUES, 3))
        time.sleep(1.0)
    records = assert_nothing_lost(shop, traffic)
    assert witness.looks > 50
    assert witness.double == []
    owners_take_turns(records)
    twice = repeated(records)
    assert all(times == 1 for times in twice.values()), twice
    in_work = [record for record in records if record["pid"] == victim.pid and record["at"] > killed_at - 0.5]
    assert set(twice) <= {(record["event_type"], record["partition"]) for record in in_work}
    joined = [(r["event_type"], r["partition"], r["cursor"]) for r in records[before_join:]]
    assert len(joined) == len(set(joined)), "joining repeated a message"
    assert all(worker.stop() == 0 for worker in shop.workers[1:])


def test_a_worker_that_was_frozen_past_its_session_does_no_harm(shop):
    frozen, _other = shop.start(*OPTIONS), shop.start(*OPTIONS)
    shop.wait_until(lambda: shop.balanced(QUEUES, 2))
    with Traffic(shop) as traffic:
        shop.wait_for(100)
        frozen.send(signal.SIGSTOP)
        frozen_at = time.time()
        shop.wait_until(lambda: shop.balanced(QUEUES, 1))
        time.sleep(1.0)
        positions = {queue["queue"]: queue["cursor"] for queue in shop.queues()}
        frozen.send(signal.SIGCONT)
        thawed_at = time.time()
        shop.wait_until(lambda: shop.balanced(QUEUES, 2))
    records = assert_nothing_lost(shop, traffic)
    assert all(queue["cursor"] >= positions[queue["queue"]] for queue in shop.queues())
    others = {(r["event_type"], r["partition"], r["cursor"]) for r in records if r["pid"] != frozen.pid}
    again = [
        r
        for r in records
        if r["pid"] == frozen.pid and r["at"] > thawed_at and (r["event_type"], r["partition"], r["cursor"]) in others
    ]
    # Of each queue it may have had one in hand when it was frozen; no check can stand between that and the job.
    assert all(r["written_at"] < frozen_at for r in again), "the thawed worker took messages that others had done"
    in_hand = Counter((r["event_type"], r["partition"]) for r in again)
    assert all(count == 1 for count in in_hand.values()), "the thawed worker went on with messages that others had done"
    twice = repeated(records)
    assert all(times == 1 for times in twice.values()), twice
    assert frozen_at < thawed_at


def test_processing_goes_on_after_zookeeper_was_restarted(shop, stack):
    for _ in range(2):
        shop.start(*OPTIONS)
    shop.wait_until(lambda: shop.balanced(QUEUES, 2))
    with Traffic(shop) as traffic:
        shop.wait_for(100)
        stack.send("zookeeper")
        done = len(shop.records())
        shop.wait_for(done + 300)
    records = assert_nothing_lost(shop, traffic)
    assert all(times == 1 for times in repeated(records).values())
    assert all(worker.stop() == 0 for worker in shop.workers)


def test_work_goes_on_when_a_node_dies(shop, stack):
    shop.start(*OPTIONS)
    shop.wait_until(lambda: shop.balanced(QUEUES, 1))
    with Traffic(shop) as traffic:
        for node in ("node-1", "node-2"):
            done = len(shop.records())
            shop.wait_for(done + 100)
            stack.send(node)
            shop.wait_for(done + 300)
            shop.wait_until(lambda node=node: _is_up(stack, node))
    records = assert_nothing_lost(shop, traffic)
    assert repeated(records) == {}


def _is_up(stack, name):
    return next(process.state for process in stack.status().processes if process.name == name) == "ready"
