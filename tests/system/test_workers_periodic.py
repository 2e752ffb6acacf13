"""Periodic jobs in real worker processes: each instant once, whoever is killed; retries, dead letters, and what an operator
does to them."""

import json
import signal
import time
from collections import Counter

import pytest
from workshop import Workshop

from conftest import RunningStack

pytestmark = pytest.mark.takes(seconds=120)

PREAMBLE = """
    app = App("$app")

    def write(message, **more):
        record = {"pid": os.getpid(), "schedule": message.schedule, "instant_ms": message.instant_ms,
                  "firing": message.firing, "attempt": message.attempt, **more}
        os.write(_file, json.dumps(record).encode() + b"\\n")
"""

EVERY_SECOND = (
    PREAMBLE
    + """
    @app.periodic(every="1s")
    async def chime(message, context):
        assert time.time() >= message.instant.timestamp()
        write(message)
"""
)


@pytest.fixture
def shop(cluster: RunningStack, folder):
    workshop = Workshop(folder, cluster.urls, cluster.places.zookeeper)
    yield workshop
    for schedule in workshop.client.schedules.list(prefix=f"{workshop.app}."):
        workshop.client.schedules.delete(schedule.id)
    workshop.close()


def instants(records):
    return [record["instant_ms"] for record in records]


def logged(worker, event):
    return [line for line in map(json.loads, worker.log.read_text().splitlines()) if line["event"] == event]


def test_each_instant_is_run_by_one_of_two_workers_also_when_one_is_killed(shop):
    shop.write(EVERY_SECOND)
    first, second = shop.start(), shop.start()
    shop.wait(lambda records: len({record["pid"] for record in records}) == 2)
    first.kill()
    killed_after = len(shop.records())
    shop.wait_for(killed_after + 5)
    third = shop.start()
    shop.wait(lambda records: third.pid in {record["pid"] for record in records})
    last_ms = round(shop.client.now() * 1000) // 1000 * 1000
    # What the killed worker held comes back when its lease ends, half a minute after it was taken.
    records = shop.wait(lambda records: complete(records, last_ms), within=90)
    assert [worker.stop() for worker in (second, third)] == [0, 0]
    done = Counter(instants(records))
    assert {instant for instant, count in done.items() if count > 1} <= last_of(records, first.pid)
    assert len({record["firing"] for record in records}) == len(done)


def complete(records, last_ms):
    """Whether every second from the first one is there."""
    seen = set(instants(records))
    return bool(seen) and all(instant in seen for instant in range(min(seen), last_ms, 1000))


def last_of(records, pid):
    """What a killed worker had in hand at its end: it may have done it and not have said so."""
    return set(instants([record for record in records if record["pid"] == pid])[-2:])


def test_a_firing_that_fails_is_retried_and_then_a_dead_letter_that_can_be_sent_back(shop):
    shop.write(
        PREAMBLE
        + """
    @app.periodic(every="1h", retry=Retry(attempts=2, delay=0.1))
    def report(message, context):
        write(message)
        if not os.path.exists("mended"):
            raise ValueError("no paper")
"""
    )
    worker = shop.start()
    shop.wait_until(lambda: logged(worker, "schedule_made"))
    fired = shop.client.schedules.fire(f"{shop.app}.report")
    shop.wait_for(2)
    shop.wait_until(lambda: dead_letters(shop) == 1)
    (letter,) = shop.client.messages(f"{shop.app}.dead")
    assert letter.body["event"]["at_ms"] == fired.at_ms[0]
    assert (letter.body["error"], letter.body["attempts"]) == ("ValueError: no paper", 2)
    (shop.folder / "mended").touch()
    assert shop.meantime("topics", "redrive", f"{shop.app}.dead")[0] == 0
    records = shop.wait_for(3)
    assert worker.stop() == 0
    assert [record["attempt"] for record in records] == [1, 2, 1]
    assert set(instants(records)) == set(fired.at_ms)


def dead_letters(shop):
    return sum(topic.name == f"{shop.app}.dead" for topic in shop.client.topics()) and shop.client.count(f"{shop.app}.dead")


def test_schedules_are_what_the_code_says_stay_paused_and_are_named_when_no_code_serves_them(shop):
    shop.write(EVERY_SECOND)
    worker = shop.start()
    shop.wait_for(1)
    chime = f"{shop.app}.chime"
    assert shop.client.schedules.get(chime).target.group == shop.app
    shop.client.schedules.pause(chime, note="too loud")
    assert worker.stop() == 0

    shop.write(EVERY_SECOND.replace('"1s"', '"2s"'))
    again = shop.start()
    shop.wait_until(lambda: logged(again, "schedule_changed"))
    changed = shop.client.schedules.get(chime)
    assert (changed.every_ms, changed.paused, changed.note) == (2000, True, "too loud")
    version = changed.version
    assert again.stop() == 0

    same = shop.start()
    shop.wait_until(lambda: logged(same, "schedule_paused"))
    assert shop.client.schedules.get(chime).version == version
    assert same.stop() == 0

    shop.write(EVERY_SECOND.replace("chime", "gong"))
    other = shop.start()
    shop.wait_until(lambda: logged(other, "schedule_without_job"))
    (unserved,) = logged(other, "schedule_without_job")
    assert (unserved["schedule"], f"meantime schedules delete {chime}" in unserved["hint"]) == (chime, True)
    assert other.stop() == 0


def test_a_paused_application_keeps_its_firings_and_stop_worker_leaves_its_own_to_others(shop):
    shop.write(
        PREAMBLE
        + """
    @app.periodic(every="1h")
    async def report(message, context):
        if not os.path.exists("resumed"):
            raise StopWorker("not now")
        write(message)
"""
    )
    worker = shop.start()
    shop.wait_until(lambda: logged(worker, "schedule_made"))
    shop.put("POST", "pause")
    shop.wait_until(lambda: logged(worker, "application_paused"))
    report = f"{shop.app}.report"
    now = shop.client.now()
    for number in range(3):
        shop.client.schedules.fire(report, at=now - 10 + number)
    time.sleep(1)
    assert shop.records() == []
    shop.put("POST", "resume")
    assert worker.process.wait(60) == 0
    (shop.folder / "resumed").touch()
    successor = shop.start()
    records = shop.wait_for(3)
    successor.send(signal.SIGTERM)
    assert successor.process.wait(60) == 0
    assert len(set(instants(records))) == len(records) == 3


def test_a_calendar_that_the_broker_refuses_ends_the_worker_with_the_reason(shop):
    shop.write(EVERY_SECOND.replace('every="1s"', '"0 0 30 2 *"'))
    worker = shop.start()
    assert worker.process.wait(60) == 4
    assert "never fires" in worker.log.read_text()
