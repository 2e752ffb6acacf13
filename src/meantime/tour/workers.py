"""Three workers share the partitions of an event type, a fourth joins, one is killed; every message is done."""

import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from meantime.sdk.client import Client
from meantime.stack.services.nodes import environment
from meantime.tour.stage import TourStage

EVENT_TYPE = "tour.jobs"
APP = "tour"
PARTITIONS = 12
MESSAGES = 600

PROGRAM = """
from meantime import App

app = App("tour")

@app.job("tour.jobs")
def note(message, context):
    with open("done.txt", "a") as done:
        done.write(f"{message.event['number']}\\n")
"""


def play(stage: TourStage) -> None:
    stage.voice.chapter("Workers that share the work")
    folder = stage.data / "tour-workers"
    folder.mkdir()
    (folder / "tour_jobs.py").write_text(PROGRAM)
    with Client(stage.urls) as client, _crew() as crew:
        client.create_event_type(EVENT_TYPE, partitions=PARTITIONS)
        crew += [_worker(stage, folder) for _ in range(3)]
        _show(stage, "three workers to share the queues", 3)
        _publish(client, range(MESSAGES // 2))
        crew.append(_worker(stage, folder))
        _show(stage, "a fourth to get its share", 4)
        os.kill(crew[0].pid, signal.SIGKILL)
        stage.voice.say("kill -9 of a worker; its session has to run out.")
        _publish(client, range(MESSAGES // 2, MESSAGES))
        _show(stage, "the others to take over", 3)
        stage.until("all messages to be done", lambda: len(_done(folder)) == MESSAGES, within=60)
    repeated = sum(_done(folder).values()) - MESSAGES
    stage.check(
        repeated <= PARTITIONS,
        f"{MESSAGES} messages published, {MESSAGES} done, {repeated} of them twice by the one that was killed",
    )


@contextmanager
def _crew() -> Iterator[list[subprocess.Popen[bytes]]]:
    crew: list[subprocess.Popen[bytes]] = []
    try:
        yield crew
    finally:
        for worker in crew:
            worker.terminate()
        for worker in crew:
            worker.wait(timeout=30)


def _worker(stage: TourStage, folder: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "meantime", "worker", "run", "tour_jobs:app"]
    env = os.environ | environment(stage.places) | {"MEANTIME_URL": ",".join(stage.urls)}
    with (stage.data / "logs" / "tour-workers.log").open("ab") as log:
        return subprocess.Popen(command, cwd=folder, env=env, stdout=log, stderr=log)


def _publish(client: Client, numbers: range) -> None:
    for number in numbers:
        client.publish(EVENT_TYPE, {"number": number})


def _done(folder: Path) -> Counter[str]:
    done = folder / "done.txt"
    return Counter(done.read_text().splitlines()) if done.exists() else Counter()


def _show(stage: TourStage, what: str, workers: int) -> None:
    shares, after = stage.until(what, lambda: _balanced(stage, workers), within=60)
    stage.voice.table(["worker", "queues"], [(worker, "▇" * len(queues)) for worker, queues in shares.items()])
    stage.voice.fact(f"balanced after {after:.1f} s: each of {PARTITIONS} queues has one owner")


def _balanced(stage: TourStage, workers: int) -> dict[str, list[str]] | None:
    answer = stage.http.get(f"{stage.urls[0]}/apps/{APP}/workers").json()
    shares = {entry["worker"]: entry["queues"] for entry in answer["workers"]}
    owned = [queue for queues in shares.values() for queue in queues]
    sizes = {len(queues) for queues in shares.values()}
    fair = len(shares) == workers and max(sizes) - min(sizes) <= 1
    return shares if fair and len(owned) == len(set(owned)) == PARTITIONS else None
