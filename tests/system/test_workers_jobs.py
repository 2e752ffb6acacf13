"""Jobs in real worker processes: order, positions, failures, time limits, and being told what to do."""

import json
import signal
import socket
import time
from datetime import UTC, datetime

import pytest
from workshop import Workshop, orders

from conftest import RunningStack
from meantime.workers.rules import instant_of

pytestmark = pytest.mark.takes(seconds=90)


@pytest.fixture
def shop(cluster: RunningStack, folder):
    workshop = Workshop(folder, cluster.urls, cluster.places.zookeeper)
    yield workshop
    workshop.close()


SIMPLE = """
    app = App("$app")

    @app.job("orders-$id")
    async def handle(message, context):
        note(message)
"""


def test_every_message_is_done_once_and_in_order_and_positions_are_kept(shop):
    shop.write(SIMPLE)
    shop.create("orders", partitions=4)
    shop.publish("orders", 100)
    worker = shop.start()
    records = shop.wait_for(100)
    shop.publish("orders", 20, start=100)
    records = shop.wait_for(120)
    assert sorted(shop.numbers()) == list(range(120))
    assert all(cursors == sorted(cursors) for cursors in orders(records).values())
    assert worker.stop() == 0
    queues = shop.queues()
    assert [queue["lag"] for queue in queues] == [0, 0, 0, 0]
    for queue in queues:
        mine = [record for record in records if record["partition"] == queue["partition"]]
        assert queue["cursor"] == mine[-1]["cursor"]
        assert instant_of(queue["last"]) == round(mine[-1]["written_at"] * 1000)
    assert shop.holdings() == {}


def test_the_next_worker_goes_on_exactly_after_the_last_recorded_message(shop):
    shop.write(SIMPLE)
    shop.create("orders", partitions=2)
    shop.publish("orders", 30)
    first = shop.start()
    shop.wait_for(10)
    assert first.stop() == 0
    done = len(shop.records())
    shop.publish("orders", 10, start=30)
    second = shop.start()
    records = shop.wait_for(40)
    assert second.stop() == 0
    assert sorted(shop.numbers()) == list(range(40))
    assert {record["pid"] for record in records[done:]} == {second.pid}


def test_a_new_application_begins_where_its_jobs_say_and_tells_how_much_that_is(shop):
    for event_type in ("orders", "users", "items", "later"):
        shop.create(event_type, partitions=2)
        shop.publish(event_type, 5)
    time.sleep(0.1)  # what has been written so far is older than the instant, by the clock of whoever has written it
    since = datetime.fromtimestamp(shop.client.now(), UTC).isoformat()
    time.sleep(0.1)
    shop.publish("users", 3, start=5)
    code = """
        app = App("$app")

        async def handle(message, context):
            note(message)

        app.job("orders-$id", start="end")(handle)
        app.job("users-$id", start="$since")(handle)
        app.job("items-$id")(handle)
        app.job("later-$id", start="2999-01-01T00:00:00Z")(handle)
        app.job("fresh-$id", start="end")(handle)
    """.replace("$since", since)
    shop.write(code)
    worker = shop.start()
    started = {shop.name(name): start for name, start in (("orders", "end"), ("users", since), ("items", "begin"))}
    shop.wait_until(lambda: len(first_starts(worker)) == 4)
    told = first_starts(worker)
    assert [told[name]["messages"] for name in started] == [0, 3, 5]
    assert [told[name]["level"] for name in started] == ["info", "info", "warning"]
    assert 'start="end"' in told[shop.name("items")]["hint"]
    shop.publish("orders", 2, start=5)
    shop.publish("later", 2, start=5)
    shop.create("fresh")
    shop.publish("fresh", 1)
    shop.wait_for(3 + 5 + 2 + 1)
    assert worker.stop() == 0
    assert done(shop) == {"orders": [5, 6], "users": [5, 6, 7], "items": [0, 1, 2, 3, 4], "fresh": [0]}

    shop.write(code.replace('start="end"', 'start="begin"').replace(since, "2020-01-01T00:00:00Z"))
    shop.publish("orders", 1, start=7)
    second = shop.start()
    shop.wait_for(12)
    assert second.stop() == 0
    assert done(shop)["orders"] == [5, 6, 7]
    assert first_starts(second) == {}


def first_starts(worker):
    """What a worker has said of its first start, by event type."""
    lines = map(json.loads, filter(lambda line: "first_start" in line, worker.log.read_text().splitlines()))
    return {line["event_type"]: line for line in lines}


def done(shop):
    numbers = {}
    for record in shop.records():
        numbers.setdefault(record["event_type"].rpartition("-")[0], []).append(record["event"]["n"])
    return {name: sorted(found) for name, found in numbers.items()}


def test_workers_say_on_which_host_and_as_which_process_they_run(shop):
    shop.write(SIMPLE)
    shop.create("orders", partitions=2)
    first, second = shop.start(), shop.start()
    shop.wait_until(lambda: shop.balanced(2, 2))
    workers = shop.get("workers")["workers"]
    assert {(worker["host"], worker["pid"]) for worker in workers} == {
        (socket.gethostname(), first.pid),
        (socket.gethostname(), second.pid),
    }
    code, out, _ = shop.meantime("apps", "show", shop.app)
    assert code == 0
    assert f"{workers[0]['worker']}\t{socket.gethostname()}\t{workers[0]['pid']}\t1" in out
    _, out, _ = shop.meantime("apps", "show", shop.app, "--json")
    assert json.loads(out)["workers"] == workers
    assert first.stop() == 0
    second.kill()
    shop.wait_until(lambda: shop.get("workers")["workers"] == [])
    assert f"{shop.app}\t0\t2\tno workers" in shop.meantime("apps")[1]
    assert shop.meantime("apps", "forget", shop.app, "--yes")[0] == 0
    assert shop.meantime("apps", "show", shop.app)[0] == 5


def test_plain_functions_of_many_queues_run_side_by_side(shop):
    shop.write("""
        app = App("$app")

        begun, all_at_once = set(), threading.Barrier(8)

        @app.job("orders-$id")
        def handle(message, context):
            if message.partition not in begun:
                begun.add(message.partition)
                all_at_once.wait(60)
            note(message)
    """)
    shop.create("orders", partitions=8)
    shop.publish("orders", 200)  # at random: enough that every partition gets some
    shop.start()
    shop.wait(lambda records: len({record["partition"] for record in records}) == 8)


def test_a_failing_job_comes_back_later_while_its_queue_goes_on(shop):
    shop.write("""
        app = App("$app")

        @app.job("orders-$id", retry=Retry(attempts=5, delay=0.3, factor=2.0, jitter=0.0))
        async def handle(message, context):
            note(message)
            if message.event["n"] == 0 and message.attempt < 3:
                raise ValueError("not yet")
    """)
    shop.create("orders")
    shop.publish("orders", 5)
    worker = shop.start()
    records = shop.wait_for(7)
    mine = [record for record in records if record["event"]["n"] == 0]
    assert [record["attempt"] for record in mine] == [1, 2, 3]
    assert mine[1]["at"] - mine[0]["at"] >= 0.3
    assert mine[2]["at"] - mine[1]["at"] >= 0.6
    assert mine[2]["cursor"] == mine[0]["cursor"]
    assert [record["event"]["n"] for record in records if record["event"]["n"]] == [1, 2, 3, 4]
    assert records.index(mine[1]) > 1, "the queue did not wait"
    assert worker.stop() == 0
    assert shop.client.count(f"{shop.app}.retry") == 0


def test_after_the_last_attempt_a_message_is_a_dead_letter_with_its_history(shop):
    shop.write("""
        app = App("$app")

        @app.job("orders-$id", retry=Retry(attempts=2, delay=0.1))
        def handle(message, context):
            note(message)
            raise ValueError("never")

        @app.job("users-$id")
        def forget(message, context):
            note(message)
            raise KeyError("at once")
    """)
    shop.create("orders")
    shop.create("users")
    shop.publish("orders", 1)
    shop.publish("users", 1)
    shop.start()
    shop.wait_for(3)
    dead = f"{shop.app}.dead"
    shop.wait_until(lambda: _count(shop, dead) == 2)
    letters = {lease.body["event_type"]: lease.body for lease in shop.client.lease(dead, "me", limit=10)}
    letter = letters[shop.name("orders")]
    assert letter["event"] == {"n": 0}
    assert (letter["partition"], letter["cursor"]) == ("0", "001-0001-000000000000000000")
    assert letter["error"] == "ValueError: never"
    assert letter["attempts"] == 2
    assert "Traceback" in letter["traceback"]
    assert "jobs.py" in letter["traceback"]
    assert [past["attempt"] for past in letter["history"]] == [1, 2]
    assert letters[shop.name("users")]["attempts"] == 1
    assert all(queue["lag"] == 0 for queue in shop.queues())


def test_dead_letters_of_workers_are_sent_back_to_their_job_from_the_first_attempt(shop):
    shop.write("""
        app = App("$app")

        @app.job("orders-$id")
        def handle(message, context):
            note(message)
            if not os.path.exists("mended"):
                raise ValueError("broken")

        @app.job("users-$id", retry=Retry(attempts=2, delay=0.1))
        async def greet(message, context):
            handle(message, context)
    """)
    shop.create("orders")
    shop.create("users")
    shop.publish("orders", 3)
    shop.publish("users", 1)
    worker = shop.start()
    dead = f"{shop.app}.dead"
    shop.wait_until(lambda: _count(shop, dead) == 4)
    first = {(record["event_type"], record["cursor"]): record for record in shop.records()}
    assert shop.meantime("topics", "messages", "list", dead, "--all")[1].count("ValueError: broken") == 4

    assert shop.meantime("topics", "redrive", dead, "--limit", "1")[0] == 0
    records = shop.wait(lambda records: [record["attempt"] for record in records].count(1) == 5)
    shop.wait_until(lambda: _count(shop, dead) == 4)
    letters = shop.client.lease(dead, "me", limit=10, lease_for=600)
    assert sorted(len(letter.body["history"]) for letter in letters) in ([1, 1, 2, 2], [1, 1, 1, 4])
    held, *free = letters
    shop.client.release_leases(dead, "me", free)
    shop.client.schedule(dead, {"hello": "who put this here?"}, after=0, id="stranger")

    (shop.folder / "mended").touch()
    done = len(records)
    code, out, _ = shop.meantime("topics", "redrive", dead, "--json")
    assert (code, json.loads(out)) == (
        9,
        {"moved": 3, "skipped": 2, "reasons": {"leased": 1, "not_a_dead_letter": 1}},
    )
    again = shop.wait_for(done + 3)[done:]
    assert [record["attempt"] for record in again] == [1, 1, 1]
    for record in again:
        assert record["event"] == first[record["event_type"], record["cursor"]]["event"]
        assert record["written_at"] == first[record["event_type"], record["cursor"]]["written_at"]

    shop.client.release_leases(dead, "me", [held])
    shop.client.delete_message(dead, "stranger")
    code, _, told = shop.meantime("topics", "redrive", dead)
    assert (code, told.strip()) == (0, "1 sent back")
    shop.wait_for(done + 4)
    code, _, told = shop.meantime("topics", "redrive", dead)
    assert (code, told.strip()) == (0, f"nothing to send back: {dead} has no dead messages")
    assert shop.meantime("topics", "redrive", f"{shop.app}.nothing")[0] == 5
    assert worker.stop() == 0
    assert (_count(shop, dead), _count(shop, f"{shop.app}.retry")) == (0, 0)


def _count(shop, topic):
    from meantime.errors import NotFound

    try:
        return shop.client.count(topic)
    except NotFound:
        return 0


def test_a_blocking_job_keeps_strict_order(shop):
    shop.write("""
        app = App("$app")

        @app.job("orders-$id", on_error="block", retry=Retry(delay=0.1, factor=1.0))
        async def handle(message, context):
            note(message)
            if message.event["n"] == 1 and message.attempt < 4:
                raise ValueError("not yet")
    """)
    shop.create("orders")
    shop.publish("orders", 4)
    shop.start()
    records = shop.wait_for(7)
    assert [(record["event"]["n"], record["attempt"]) for record in records] == [
        (0, 1),
        (1, 1),
        (1, 2),
        (1, 3),
        (1, 4),
        (2, 1),
        (3, 1),
    ]


@pytest.mark.parametrize(("kind", "wait"), [("async def", "await asyncio.sleep(30)"), ("def", "time.sleep(8)")])
def test_a_job_that_takes_too_long_has_failed(shop, kind, wait):
    shop.write(f"""
        app = App("$app")

        @app.job("orders-$id", time_limit=0.3)
        {kind} handle(message, context):
            note(message)
            if message.event["n"] == 0:
                {wait}
                note(message, late=True)
    """)
    shop.create("orders")
    shop.publish("orders", 2)
    shop.start()
    records = shop.wait_for(2)
    assert [record["event"]["n"] for record in records] == [0, 1]
    (letter,) = shop.client.lease(f"{shop.app}.dead", "me")
    assert "0.3 s" in letter.body["error"]


def test_stop_worker_ends_the_process_without_recording_the_message(shop):
    shop.write("""
        app = App("$app")

        @app.job("orders-$id")
        async def handle(message, context):
            note(message)
            if message.event["n"] == 2:
                raise StopWorker("enough")
    """)
    shop.create("orders")
    shop.publish("orders", 5)
    worker = shop.start()
    assert worker.process.wait(60) == 0
    assert shop.numbers() == [0, 1, 2]
    assert shop.queues()[0]["cursor"] == "001-0001-000000000000000001"
    assert shop.holdings() == {}


def test_sigterm_lets_the_present_message_be_finished(shop):
    shop.write("""
        app = App("$app")

        @app.job("orders-$id")
        def handle(message, context):
            note(message, done=False)
            time.sleep(1.5)
            note(message, done=True)
    """)
    shop.create("orders")
    shop.publish("orders", 3)
    worker = shop.start()
    shop.wait_for(1)
    assert worker.stop() == 0
    assert [record["done"] for record in shop.records()] == [False, True]
    assert shop.queues()[0]["cursor"] == "001-0001-000000000000000000"


def test_the_context_is_entered_once_and_left_at_the_end(shop):
    shop.write("""
        from contextlib import asynccontextmanager

        @asynccontextmanager
        async def connected():
            open("entered", "a").write("in ")
            yield {"answer": 42}
            open("entered", "a").write("out ")

        app = App("$app", context=connected())

        @app.job("orders-$id")
        async def handle(message, context):
            note(message, context=context)
    """)
    shop.create("orders", partitions=3)
    shop.publish("orders", 6)
    worker = shop.start()
    assert {record["context"]["answer"] for record in shop.wait_for(6)} == {42}
    assert worker.stop() == 0
    assert (shop.folder / "entered").read_text() == "in out "


def test_batches_are_handed_over_whole_and_recorded_once(shop):
    shop.write("""
        app = App("$app")

        @app.job("orders-$id", batch=50)
        async def handle(messages, context):
            note(messages[-1], size=len(messages), numbers=[message.event["n"] for message in messages])
            await asyncio.sleep(0.2)
    """)
    shop.create("orders")
    shop.publish("orders", 120)
    shop.start()
    records = shop.wait(lambda records: sum(record["size"] for record in records) >= 120)
    assert [number for record in records for number in record["numbers"]] == list(range(120))
    assert max(record["size"] for record in records) == 50


def test_an_unknown_event_type_is_waited_for_with_a_warning(shop):
    shop.write(SIMPLE)
    worker = shop.start()
    shop.wait_until(lambda: "event_type_unknown" in worker.log.read_text())
    shop.create("orders")
    shop.publish("orders", 1)
    shop.wait_for(1)


def test_a_paused_queue_rests_and_goes_on_where_it_was(shop):
    shop.write(SIMPLE)
    shop.create("orders")
    shop.publish("orders", 2)
    shop.start()
    shop.wait_for(2)
    queue = shop.queues()[0]["queue"]
    assert shop.put("POST", "queues", queue, "pause")["paused"] is True
    time.sleep(3.0)  # nobody says that the worker has heard of it
    shop.publish("orders", 2, start=2)
    time.sleep(0.5)
    assert len(shop.records()) == 2
    assert shop.queues()[0]["lag"] == 2
    assert shop.put("POST", "queues", queue, "resume")["paused"] is False
    shop.wait_for(4)
    assert shop.numbers() == [0, 1, 2, 3]


def test_a_paused_application_rests_and_goes_on(shop):
    shop.write(SIMPLE)
    shop.create("orders", partitions=2)
    worker = shop.start()
    shop.wait_until(lambda: shop.balanced(2, 1))
    assert shop.put("POST", "pause")["paused"] is True
    shop.wait_until(lambda: "application_paused" in worker.log.read_text())
    shop.publish("orders", 6)
    time.sleep(0.5)
    assert shop.records() == []
    shop.put("POST", "resume")
    shop.wait_for(6)


def test_a_reset_takes_effect_at_once_in_a_running_owner(shop):
    shop.write(SIMPLE)
    shop.create("orders")
    shop.publish("orders", 5)
    shop.start()
    shop.wait_for(5)
    queue = shop.queues()[0]["queue"]
    shop.put("PUT", "queues", queue, "last", cursor="001-0001-000000000000000002")
    shop.wait_for(7)
    assert shop.numbers() == [0, 1, 2, 3, 4, 3, 4]
    shop.put("PUT", "queues", queue, "last", cursor="BEGIN")
    shop.wait_for(12)
    assert shop.numbers()[7:] == [0, 1, 2, 3, 4]
    shop.wait_until(lambda: shop.queues()[0]["lag"] == 0)


def test_work_goes_on_over_a_switch_of_the_storage(shop):
    shop.write(SIMPLE)
    shop.create("orders", partitions=2)
    shop.publish("orders", 10)
    shop.start()
    shop.wait_for(10)
    storage = shop.client.storages()[-1].id
    for start in (10, 20):
        shop.client.switch(shop.name("orders"), storage)
        shop.publish("orders", 10, start=start)
    records = shop.wait_for(30)
    assert sorted(shop.numbers()) == list(range(30))
    assert all(cursors == sorted(cursors) for cursors in orders(records).values())
    shop.wait_until(lambda: [queue["lag"] for queue in shop.queues()] == [0, 0])
    assert {queue["cursor"][:8] for queue in shop.queues()} == {"001-0003"}


@pytest.mark.parametrize("target", ["nosuchmodule:app", "jobs:nope", "jobs:note"])
def test_a_wrong_target_is_named_without_a_traceback(shop, target):
    shop.write(SIMPLE)
    worker = shop.start(target=target)
    assert worker.process.wait(60) not in (0, None)
    told = worker.log.read_text()
    assert target in told
    assert "Traceback" not in told


def test_a_job_with_the_wrong_signature_is_named_without_a_traceback(shop):
    shop.write("""
        app = App("$app")

        @app.job("orders-$id")
        def wrong(message):
            note(message)
    """)
    worker = shop.start()
    assert worker.process.wait(60) != 0
    assert "wrong(message, context)" in worker.log.read_text()
    assert "Traceback" not in worker.log.read_text()


def test_metrics_tell_of_jobs_and_lag(shop):
    import urllib.request

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    shop.write(SIMPLE)
    shop.create("orders")
    shop.publish("orders", 3)
    worker = shop.start("--metrics-port", str(port))
    shop.wait_for(3)

    def page():
        return urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics").read().decode()

    assert f'meantime_job_messages_total{{event_type="{shop.name("orders")}"}} 3.0' in page()
    queue = f'app="{shop.app}",event_type="{shop.name("orders")}",partition="0"'
    shop.wait_until(lambda: f"meantime_queue_lag{{{queue}}} 0.0" in page())
    worker.send(signal.SIGTERM)
