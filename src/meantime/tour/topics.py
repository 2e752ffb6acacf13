"""Messages in time: notifications on a scale of a second a day, a worker that dies, a message postponed, one cancelled."""

import threading
import time
from dataclasses import dataclass, field

from meantime.sdk.client import Client
from meantime.tour.stage import TourStage

TOPIC = "tour.notifications"
DAYS = (1, 3, 7)
USERS = ("ada", "grace", "edsger")
SECONDS_PER_DAY = 0.7


def play(stage: TourStage) -> None:
    stage.voice.chapter("Messages that must happen later")
    with Client(stage.urls[0], producer_group="tour") as client:
        client.create_topic(TOPIC)
        _notifications(stage, client)
        _a_worker_dies(stage, client)


@dataclass
class Arrivals:
    """What a consumer got, and how long after its instant."""

    late_ms: dict[str, float] = field(default_factory=dict)
    postponed: set[str] = field(default_factory=set)


def _consume(url: str, arrivals: Arrivals, expected: set[str]) -> None:
    with Client(url) as client:
        for lease in client.consume(TOPIC, "tour-consumer", buffer=10):
            if lease.id == "postponed" and lease.id not in arrivals.postponed:
                arrivals.postponed.add(lease.id)
                lease.release(after=1.0)
                continue
            arrivals.late_ms[lease.id] = client.now() * 1000 - (lease.message.created_for_ms or 0)
            lease.delete()
            if set(arrivals.late_ms) >= expected:
                return


def _notifications(stage: TourStage, client: Client) -> None:
    for user in USERS:
        for day in DAYS:
            client.schedule(TOPIC, {"user": user, "day": day}, after=day * SECONDS_PER_DAY, id=f"{user}-{day}")
    client.schedule(TOPIC, {"say": "not now"}, after=0.5, id="postponed")
    again = client.schedule(TOPIC, {"user": "ada", "day": 7}, after=60.0, id="ada-7")
    stage.check(again.status == "exists", "scheduling the same id again changes nothing: creating is repeatable")
    client.delete_message(TOPIC, "grace-7")
    stage.voice.say(
        f"{len(USERS)} users are notified after 1, 3 and 7 days of {SECONDS_PER_DAY} s each. grace cancels her last one."
    )
    expected = {f"{user}-{day}" for user in USERS for day in DAYS} - {"grace-7"} | {"postponed"}
    arrivals = Arrivals()
    consuming = threading.Thread(target=_consume, args=(stage.urls[1], arrivals, expected), daemon=True)
    consuming.start()
    with stage.voice.waiting("all of them to arrive"):
        consuming.join(60)
    on_time = {id: late for id, late in arrivals.late_ms.items() if id != "postponed"}
    stage.check(set(arrivals.late_ms) == expected, f"{len(expected)} arrived, the cancelled one did not")
    stage.check(min(on_time.values()) >= -1, f"none early; the latest came {max(on_time.values()):.0f} ms after its instant")
    stage.check("postponed" in arrivals.postponed, "one was released by its consumer for a second, and came back")


def _a_worker_dies(stage: TourStage, client: Client) -> None:
    stage.voice.say("A worker leases a message for 1 s and dies.")
    client.schedule(TOPIC, {"job": "important"}, after=0, id="job")
    with Client(stage.urls[2]) as doomed:
        leases, _ = stage.until(
            "it to be leased", lambda: doomed.lease(TOPIC, "doomed-worker", limit=1, lease_for=1.0, wait_for=5.0)
        )
    began = time.monotonic()
    with Client(stage.urls[1]) as survivor:
        leases, _ = stage.until("another worker to get it", lambda: survivor.lease(TOPIC, "survivor", limit=1, wait_for=5.0))
        stage.check(
            leases[0].id == "job" and leases[0].attempts == 2,
            f"another worker has it after {time.monotonic() - began:.1f} s, as attempt {leases[0].attempts}",
        )
        survivor.delete_leases(TOPIC, "survivor", leases)
    stage.check(client.count(TOPIC) == 0, "done and deleted; the topic is empty")
