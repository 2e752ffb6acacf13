"""Timers against the seed's own design in Kafka Streams: how late callbacks are, and how fast requests are taken in.

    python bench/timers.py                              short: 2,000 fires/s for 20 s, 100,000 far requests
    python bench/timers.py --rate 10000 --for 60        the full lateness run
    python bench/timers.py --only ours --rate 30000 --for 20 --burst 2000000 --bucket 200000
    python bench/timers.py --only ours --rate 0 --bucket 0 --burst 0 --pending 5000000 --for 180
    python bench/timers.py --only ours --rate 0 --bucket 0 --burst 0 --faults 100

Each side runs alone on a stack of its own, and fires for 40 s before it counts: Java is slow at what it has not done often.
*Late* is the callback record's own time minus its second, where that time is Kafka's own (`LogAppendTime`), so that nobody's
word has to be taken for it; *seen* is when a reader of committed records had it. A burst of far requests is written while
timers fire, once or `--bursts` times, of which the fastest counts; *absorbed* is from the first of them until the join holds
all: by the places of the last finished micro-batch here, by the changelog of its store there. With `--pending` timers fire
while 50,000 others wait for a second of the coming day, and again while that many do. All of a second leave together, so p99
of a minute is its worst second: `--for` some minutes tells more of the difference than of that second.
With `--faults` so many timers a second fire while the dispatcher is killed, and the Spark job stands still or is killed.
Absolute numbers depend on the machine and on what else runs on it; compare the two sides. A machine that shares its
processors with others loses some of their time to them: *spared* are the seconds in which it lost less than a hundredth.
"""

import argparse
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

from _timers_faults import NEAR_S, WINDOW_S, Window, faults, inflict, table_of, windows
from _timers_peer import CHANGELOG, REQUESTS, TICKS, Missing, peer
from _timers_scale import Report, Upkeep, Watch, settle
from _timers_theft import Theft
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from rich.console import Console
from rich.table import Table

from meantime.stack.services.postgres import last_report
from meantime.stack.session import running
from meantime.timers.future import encode
from meantime.timers.model import Future
from meantime.timers.topics import REQUEST

AHEAD_S = 15
WARM_UP_S = 40
ABSORBED_WITHIN = 300
PARTITIONS = 4
SOME = 1000
FEW = 50_000
DAY_S = 86_400
console = Console(width=120)
THEFT = Theft()


@dataclass
class Result:
    """One run. Lateness in milliseconds."""

    fired: int = 0
    doubled: int = 0
    missing: int = 0
    by_second: dict[int, list[int]] = field(default_factory=lambda: defaultdict(list))
    """How late callbacks were."""
    seen: list[float] = field(default_factory=list)

    @property
    def late(self) -> list[int]:
        return [late for of_second in self.by_second.values() for late in of_second]

    @property
    def spared(self) -> dict[int, list[int]]:
        """The same for seconds that the machine kept for itself."""
        return {second: late for second, late in self.by_second.items() if THEFT.spared(second)}

    def lateness(self, *parts: float) -> list[str]:
        """Of all; how many seconds were spared; of those."""
        spared = [late for of_second in self.spared.values() for late in of_second]
        return [
            *(f"{self.part(self.late, part):.0f}" for part in parts),
            f"{len(self.spared)}/{len(self.by_second)} s",
            *(f"{self.part(spared, part):.0f}" for part in parts),
        ]

    @classmethod
    def together(cls, results: "list[Result]") -> "Result":
        """As one run; their seconds differ."""
        of_all = cls(*(sum(getattr(one, name) for one in results) for name in ("fired", "doubled", "missing")))
        for one in results:
            of_all.by_second.update(one.by_second)
            of_all.seen += one.seen
        return of_all

    def part(self, values: list, part: float) -> float:
        ordered = sorted(values)
        return ordered[min(len(ordered) - 1, int(len(ordered) * part))] if ordered else float("nan")


@dataclass(frozen=True, slots=True)
class Intake:
    """Requests a second, and the share of the processors' time that was stolen meanwhile."""

    speed: float
    stolen: float

    def __str__(self) -> str:
        return f"{self.speed:,.0f} a second ({self.stolen:.1%} stolen)"


class Side:
    """One of the two. `joined` tells how many requests its join has taken in since it began."""

    def __init__(self, name: str, kafka: str, requests: str, joined: Callable[[], int], report: Report, home: Path) -> None:
        self.name = name
        self.report = report
        self.home = home
        self.pending = 0
        self.kafka = kafka
        self.requests = requests
        self.joined = joined
        self.topic = ""

    def new_topic(self) -> None:
        """Every measurement has callbacks of its own."""
        self.topic = f"calls-{uuid4().hex[:8]}"
        admin = AdminClient({"bootstrap.servers": self.kafka})
        by_kafka = {"message.timestamp.type": "LogAppendTime"}
        admin.create_topics([NewTopic(self.topic, PARTITIONS, 1, config=by_kafka)])[self.topic].result()

    def write(self, seconds: Iterator[int]) -> int:
        """Requests for these seconds; how many. Their token is their key, for the peer has no tokens. One message is encoded
        for all of them: whoever takes them in should have to wait for as little as possible."""
        settings = {"linger.ms": 20, "compression.type": "lz4", "queue.buffering.max.messages": 500_000}
        producer = Producer({"bootstrap.servers": self.kafka, "partitioner": "murmur2_random", **settings})
        written, mark = 0, uuid4().hex[:6]
        before, after = encode(Future(self.topic, f"{mark}-{written:010}", bytes(100))).split(
            f"{mark}-{written:010}".encode()
        )
        for second in seconds:
            token = b"%b-%010d" % (mark.encode(), written)
            while True:
                try:
                    producer.produce(self.requests, before + token + after, b"%d" % second, headers=[("token", token)])
                    break
                except BufferError:
                    producer.poll(0.05)
            written += 1
        producer.flush()
        return written

    def read(self, count: int, until: float) -> Result:
        settings = {"group.id": uuid4().hex, "isolation.level": "read_committed", "enable.auto.commit": False}
        consumer = Consumer({"bootstrap.servers": self.kafka, "fetch.wait.max.ms": 20, **settings})
        consumer.assign([TopicPartition(self.topic, partition, 0) for partition in range(PARTITIONS)])
        result, tokens = Result(), Counter[bytes]()
        while time.time() < until and len(tokens) < count:
            messages = consumer.consume(10_000, 0.02)
            now_ms = time.time() * 1000
            for message in messages:
                headers = dict(message.headers() or ())
                due_ms = int(headers["timer-due"]) * 1000
                tokens[headers["timer-token"]] += 1
                result.by_second[due_ms // 1000].append(message.timestamp()[1] - due_ms)
                result.seen.append(now_ms - due_ms)
        consumer.close()
        result.fired = len(tokens)
        result.doubled = sum(seen > 1 for seen in tokens.values())
        result.missing = count - len(tokens)
        return result

    def fires(self, rate: int, for_s: int) -> Result:
        self.new_topic()
        start = int(time.time()) + AHEAD_S + rate * for_s // 40_000
        count = self.write(start + offset for offset in range(for_s) for _ in range(rate))
        return self.read(count, start + for_s + 60)

    def one_bucket(self, size: int) -> Result:
        self.new_topic()
        second = int(time.time()) + AHEAD_S + size // 20_000
        self.write(second for _ in range(size))
        return self.read(size, second + 60)

    def absorbed(self, burst: int) -> tuple[Intake, Result]:
        """How fast far requests are taken in, and how late timers are meanwhile."""
        self.new_topic()
        start = int(time.time()) + AHEAD_S
        small = self.write(start + offset for offset in range(20) for _ in range(200))
        self._join(written(self.kafka, self.requests))
        time.sleep(max(0.0, start - 2 - time.time()))
        began = time.time()
        far = int(began) + 7000
        self.write(far + number % 80_000 for number in range(burst))
        self._join(written(self.kafka, self.requests))
        ended = time.time()
        meanwhile = self.read(small, start + 80)
        # They were read after the burst, so when they were seen says nothing.
        meanwhile.seen.clear()
        return Intake(burst / (ended - began), THEFT.share(int(began), int(ended))), meanwhile

    def with_pending(self, pending: int, for_s: int) -> tuple[Upkeep, Result]:
        """1,000 fires a second while so many wait for a second of the coming day."""
        start, step = int(time.time()) + 3600, 7919
        self.write(start + number * step % DAY_S for number in range(pending - self.pending))
        self.pending = pending
        self._join(written(self.kafka, self.requests))
        settle(self.report)
        watch = Watch(self.report, self.home)
        result = self.fires(SOME, for_s)
        return watch.upkeep(), result

    def with_faults(self, rate: int) -> list[Window]:
        """So many fires a second while processes are killed or stand still."""
        self.new_topic()
        planned = faults(self.home.parent)
        start = int(time.time()) + NEAR_S + AHEAD_S
        count = self.write(start + offset for offset in range(len(planned) * WINDOW_S) for _ in range(rate))
        inflict(start, planned)
        result = self.read(count, time.time() + 2 * WINDOW_S + 60)
        console.print(f"doubled {result.doubled}, missing {result.missing}")
        return list(windows(start, list(planned), result.by_second))

    def _join(self, count: int) -> None:
        deadline = time.monotonic() + ABSORBED_WITHIN
        while self.joined() < count:
            if time.monotonic() > deadline:
                raise TimeoutError(f"{self.name} has taken in {self.joined():,} of {count:,} requests")
            time.sleep(0.2)


def written(kafka: str, topic: str) -> int:
    """How many records were ever written to a topic."""
    consumer = Consumer({"bootstrap.servers": kafka, "group.id": uuid4().hex})
    try:
        found = consumer.list_topics(topic, timeout=20).topics[topic].partitions
        return sum(consumer.get_watermark_offsets(TopicPartition(topic, number), timeout=20)[1] for number in found)
    finally:
        consumer.close()


@contextmanager
def ours(folder: Path, **node_env: str) -> Iterator[Side]:
    with running(folder / "ours", nodes=1, timers=True, node_env=node_env) as places:

        def report(kind: str) -> dict[str, Any] | None:
            return last_report(places.postgres, kind, {"futures": "futures", "ledger": "ledger-1"}[kind], 0)

        def joined() -> int:
            found = report("futures")
            return sum(found["places"].values()) if found else 0

        yield Side("meantime", places.kafka[0], REQUEST, joined, report, folder / "ours" / "futures")


@contextmanager
def theirs(folder: Path) -> Iterator[Side]:
    with running(folder / "peer", nodes=0) as places:
        admin = AdminClient({"bootstrap.servers": places.kafka[0]})
        for future in admin.create_topics([NewTopic(name, 2, 1) for name in (REQUESTS, TICKS)]).values():
            future.result()
        with peer(places.kafka[0], folder / "state"):
            time.sleep(3)
            joined = partial(written, places.kafka[0], CHANGELOG)
            yield Side("Kafka Streams", places.kafka[0], REQUESTS, joined, lambda _: None, folder / "state")


def show(title: str, results: dict[str, Result]) -> None:
    if not results:
        return
    table = Table(title=title, box=None, title_justify="left")
    late = ("late p50", "p99", "max", "spared", "p50", "p99", "max")
    for column in ("", "fired", "doubled", "missing", "early", *late, "seen p50", "p99"):
        table.add_column(column, justify="right" if column else "left")
    for name, result in results.items():
        counts = map(str, (result.fired, result.doubled, result.missing, sum(value < 0 for value in result.late)))
        seen = [f"{result.part(result.seen, part):.0f}" for part in (0.5, 0.99)]
        table.add_row(name, *counts, *result.lateness(0.5, 0.99, 1), *seen)
    console.print(table)


def show_pending(found: dict[int, tuple[Upkeep, Result]]) -> None:
    table = Table(title="1,000 fires a second while others are pending", box=None, title_justify="left")
    upkeep = ("batches", "median ms", "rows", "checkpoint MB", "Spark's JVM MB")
    for column in ("pending", *upkeep, "late p50", "p99", "spared", "p50", "p99"):
        table.add_column(column, justify="right")
    for pending, (kept, result) in found.items():
        sizes = [f"{kept.rows:,}", f"{kept.disk:,.0f}", f"{kept.memory:,.0f}"]
        table.add_row(f"{pending:,}", str(kept.batches), f"{kept.batch_ms:,.0f}", *sizes, *result.lateness(0.5, 0.99))
    console.print(table)
    (few, early), (many, late) = found.values()
    ratios = [_ratio(*pair) for pair in zip(late.lateness(0.5, 0.99), early.lateness(0.5, 0.99), strict=True)]
    console.print(
        f"many ÷ few: batch {many.batch_ms / few.batch_ms:.2f}, late p50 {ratios[0]}, p99 {ratios[1]}, in spared seconds "
        f"p50 {ratios[3]}, p99 {ratios[4]} (target ≤ 1.2)"
    )


def _ratio(one: str, other: str) -> str:
    try:
        return f"{float(one) / float(other):.2f}"
    except ValueError:
        return "–"


@dataclass
class Measured:
    """What was measured of each side, by its name; shown as it comes."""

    fires: dict[str, Result] = field(default_factory=dict)
    buckets: dict[str, Result] = field(default_factory=dict)
    bursts: dict[str, Result] = field(default_factory=dict)
    intakes: dict[str, Intake] = field(default_factory=dict)

    def run(self, side: Side, asked: argparse.Namespace) -> None:
        side.fires(asked.rate or SOME, WARM_UP_S)
        if asked.rate:
            self.fires[side.name] = side.fires(asked.rate, asked.for_s)
            show(f"{asked.rate:,} fires a second for {asked.for_s} s (milliseconds)", self.fires)
        if asked.bucket:
            self.buckets[side.name] = side.one_bucket(asked.bucket)
            show(f"{asked.bucket:,} timers on one second (milliseconds)", self.buckets)
        if asked.pending and side.name == "meantime":
            seconds = max(60, asked.for_s)
            show_pending({pending: side.with_pending(pending, seconds) for pending in (FEW, asked.pending)})
        if asked.faults and side.name == "meantime":
            console.print(table_of(asked.faults, side.with_faults(asked.faults)))
        if asked.burst:
            bursts = [side.absorbed(asked.burst) for _ in range(asked.bursts)]
            console.print(f"{side.name} absorbed:", ", ".join(str(intake) for intake, _ in bursts))
            self.intakes[side.name] = max((intake for intake, _ in bursts), key=lambda intake: intake.speed)
            self.bursts[side.name] = Result.together([result for _, result in bursts])
            show(f"200 fires a second while {asked.burst:,} far requests are absorbed (milliseconds)", self.bursts)
            console.print("absorbed:", ", ".join(f"{name} {intake}" for name, intake in self.intakes.items()))

    def compare(self) -> None:
        """Ours ÷ the peer's, of what both have been measured at."""
        for title, results, target in (
            ("late p99 of fires", self.fires, " (target ≤ 0.5)"),
            ("late p99 of one second", self.buckets, ""),
            ("late p99 during the burst", self.bursts, ""),
        ):
            if len(results) == 2:
                mine, other = (result.part(result.late, 0.99) for result in results.values())
                console.print(f"{title}, meantime ÷ Kafka Streams: {mine / max(other, 1):.2f}{target}")
        if len(self.intakes) == 2:
            mine, other = self.intakes.values()
            had = mine.speed / (1 - mine.stolen) / (other.speed / (1 - other.stolen))
            console.print(
                f"absorbed, meantime ÷ Kafka Streams: {mine.speed / other.speed:.2f}, by the processors' time that each had "
                f"{had:.2f} (target ≥ 1)"
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rate", type=int, default=2000)
    parser.add_argument("--for", dest="for_s", type=int, default=20)
    parser.add_argument("--burst", type=int, default=100_000)
    parser.add_argument("--bursts", type=int, default=1, help="how often; the fastest counts, lateness counts in all")
    parser.add_argument("--bucket", type=int, default=20_000)
    parser.add_argument("--pending", type=int, default=0)
    parser.add_argument("--faults", type=int, default=0, help="timers a second while processes fail; none if 0")
    parser.add_argument("--only", choices=("ours", "peer"))
    asked = parser.parse_args()
    measured = Measured()
    with tempfile.TemporaryDirectory(prefix="meantime-bench-") as name:
        if asked.only != "peer":
            # Those who would be near enough for the dispatcher alone would not show that the Spark job is missing.
            near = {"MEANTIME_TIMERS_NEAR": str(NEAR_S)} if asked.faults else {}
            with ours(Path(name), **near) as side:
                measured.run(side, asked)
        if asked.only != "ours":
            try:
                with theirs(Path(name)) as side:
                    measured.run(side, asked)
            except Missing as error:
                console.print(f"the peer is missing: {error}")
    measured.compare()


if __name__ == "__main__":
    main()
