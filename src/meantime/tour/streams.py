"""Events are published and read while their storage is switched between two Kafka clusters, five times."""

import threading
import time
from dataclasses import dataclass, field
from functools import partial

from meantime.sdk.client import Client
from meantime.tour.stage import TourStage

EVENT_TYPE = "tour.orders"
PARTITIONS = 4
SWITCHES = 5


def play(stage: TourStage) -> None:
    stage.voice.chapter("A storage is switched under load")
    with Client(stage.urls) as client:
        storages = [storage.id for storage in client.storages()]
        client.create_event_type(EVENT_TYPE, partitions=PARTITIONS)
        stage.voice.say(
            f"Storages: {', '.join(storages)}. One publisher and one reader are at work; the storage moves {SWITCHES} times."
        )
        _switch_under_load(stage, client, storages)
        _show_timelines(stage, client)


@dataclass
class TourPublisher:
    """Publishes numbered events one batch after another, and remembers what was acknowledged."""

    client: Client
    stop: threading.Event = field(default_factory=threading.Event)
    acknowledged: int = 0
    slowest: float = 0.0

    def has(self, count: int) -> bool:
        return self.acknowledged >= count

    def run(self) -> None:
        while not self.stop.is_set():
            batch = [{"number": self.acknowledged + i} for i in range(10)]
            began = time.monotonic()
            self.client.publish(EVENT_TYPE, batch)
            self.slowest = max(self.slowest, time.monotonic() - began)
            self.acknowledged += len(batch)
            self.stop.wait(0.01)


@dataclass
class TourReader:
    client: Client
    numbers: list[int] = field(default_factory=list)
    cursors: set[str] = field(default_factory=set)

    def run(self) -> None:
        for batch in self.client.events(EVENT_TYPE, "begin", batch_limit=100, batch_flush_timeout=1):
            self.numbers += [event["number"] for event in batch.events]
            self.cursors.add(batch.cursor.offset[:8])


def _switch_under_load(stage: TourStage, client: Client, storages: list[str]) -> None:
    publisher, reader = TourPublisher(Client(stage.urls[0])), TourReader(Client(stage.urls[1]))
    publishing = threading.Thread(target=publisher.run, daemon=True)
    publishing.start()
    threading.Thread(target=reader.run, daemon=True).start()
    rows = []
    for number in range(SWITCHES):
        enough = publisher.acknowledged + 50
        stage.until("events to flow", partial(publisher.has, enough))
        version, began = _version(stage), time.monotonic()
        timeline = client.switch(EVENT_TYPE, storages[(number + 1) % len(storages)])
        took = (time.monotonic() - began) * 1000
        stall = client.switches(EVENT_TYPE)[-1].stall_ms or 0.0
        rows.append(
            (timeline.order, timeline.storage_id, f"{version} → {_version(stage)}", f"{took:.0f} ms", f"{stall:.0f} ms")
        )
    publisher.stop.set()
    publishing.join(30)
    stage.voice.table(["timeline", "storage", "version, acknowledged by all", "switch", "publishers paused"], rows)
    stage.until("the reader to catch up", lambda: len(reader.numbers) >= publisher.acknowledged)
    stage.check(sorted(reader.numbers) == list(range(publisher.acknowledged)), _claim(publisher, reader))
    stage.voice.fact(
        f"the slowest publish of all took {publisher.slowest * 1000:.0f} ms; the reader's connection stayed open"
    )


def _claim(publisher: TourPublisher, reader: TourReader) -> str:
    return f"{publisher.acknowledged} events acknowledged, {len(reader.numbers)} read: none lost, none twice"


def _version(stage: TourStage) -> int:
    """What all nodes have acknowledged."""
    return min(int(node["timelines_version"]) for node in stage.nodes().values())


def _show_timelines(stage: TourStage, client: Client) -> None:
    rows = [
        (timeline.order, timeline.storage_id, timeline.topic, (timeline.latest_position or {}).get("offsets", "active"))
        for timeline in client.timelines(EVENT_TYPE)
    ]
    stage.voice.table(["order", "storage", "topic", "ends at"], rows)
