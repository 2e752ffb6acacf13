"""A schedule of every two seconds; the node that leads schedules is killed; each instant has come once all the same."""

import threading
from dataclasses import dataclass, field

from meantime.sdk.client import Client
from meantime.tour.stage import TourStage

TOPIC = "tour.chimes"
SCHEDULE = "tour.chime"
GROUP = "tour"
EVERY_MS = 2000
AFTER_THE_KILL = 5
LEADING = "meantime_schedules_leading 1"


@dataclass
class Chimes:
    """The instants that came, in the order in which they came, and how late the latest was."""

    client: Client
    stop: threading.Event = field(default_factory=threading.Event)
    instants: list[int] = field(default_factory=list)
    latest_ms: float = 0.0

    def run(self) -> None:
        for lease in self.client.consume(TOPIC, "tour-chimes"):
            origin = lease.message.schedule
            if origin is not None:
                self.latest_ms = max(self.latest_ms, self.client.now() * 1000 - origin.at_ms)
                self.instants.append(origin.at_ms)
            lease.delete()
            if self.stop.is_set():
                return


def play(stage: TourStage) -> None:
    stage.voice.chapter("What recurs, once per instant")
    leader, _ = stage.until("a node to lead schedules", lambda: _leader(stage))
    others = [node.url for node in stage.places.nodes if node.id != leader]
    with Client(others, producer_group=GROUP) as client:
        client.create_topic(TOPIC)
        client.schedules.put(SCHEDULE, every=EVERY_MS / 1000, target={"topic": TOPIC, "group": GROUP})
        _show_calendar(stage, client)
        _kill_the_leader(stage, client, leader)
        client.schedules.delete(SCHEDULE)


def _show_calendar(stage: TourStage, client: Client) -> None:
    calendar = {"cron": "30 2 * * *", "time_zone": "Europe/Berlin", "start": "2027-03-27T00:00:00Z"}
    firings = client.schedules.preview(count=3, **calendar)  # type: ignore[arg-type]
    stage.voice.say("Every night at 02:30 in Berlin, around the night in which that time does not exist:")
    stage.voice.table(["local", "UTC", "note"], [(one.local, f"{one.at:%a %H:%M}", one.note or "") for one in firings])


def _kill_the_leader(stage: TourStage, client: Client, leader: str) -> None:
    stage.voice.say(
        f"A schedule of every two seconds; {leader} leads and sets its firings a minute ahead. kill -9 {leader}."
    )
    chimes = Chimes(client)
    threading.Thread(target=chimes.run, daemon=True).start()
    stage.until("the first instants", lambda: len(chimes.instants) >= 2)
    stage.kill(leader)
    successor, after = stage.until("another node to lead", lambda: _other_leader(stage, leader), within=60)
    stage.voice.fact(f"{successor} leads after {after:.1f} s")
    enough = len(chimes.instants) + AFTER_THE_KILL
    stage.until("more instants", lambda: len(chimes.instants) >= enough)
    chimes.stop.set()
    seen = list(chimes.instants)
    expected = list(range(seen[0], seen[0] + EVERY_MS * len(seen), EVERY_MS))
    claim = f"{len(seen)} instants, each once and in order, the latest {chimes.latest_ms:.0f} ms after it was due"
    stage.check(seen == expected, claim)
    stage.until("the killed node to be back", lambda: _is_back(stage), within=60)


def _leader(stage: TourStage) -> str | None:
    for node in stage.places.nodes:
        if LEADING in stage.http.get(f"{node.url}/metrics").text:
            return node.id
    return None


def _other_leader(stage: TourStage, former: str) -> str | None:
    for node in stage.places.nodes:
        if node.id != former and LEADING in stage.http.get(f"{node.url}/metrics").text:
            return node.id
    return None


def _is_back(stage: TourStage) -> bool:
    states = [node["state"] for node in stage.nodes().values()]
    return len(states) == len(stage.places.nodes) and set(states) == {"healthy"}
