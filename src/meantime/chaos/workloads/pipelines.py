"""A pipeline in use: records that a buffer delays by some seconds, from one Kafka topic to another."""

import asyncio
import random
import subprocess
import sys
import time
from contextlib import suppress
from uuid import uuid4

from confluent_kafka import Consumer, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from meantime.chaos.checks.model import controls
from meantime.chaos.checks.records import PIPELINES, RECORDS, Delivered, RecordHistory
from meantime.chaos.workloads.model import SETTLE_WITHIN, Progress, Site, WorkloadVerdict, pause, until
from meantime.tasks import end

DELAY_S = 5
SEND_EVERY = 0.25
BEGINS_WITHIN = 240.0


class PipelinesWorkload:
    name = PIPELINES

    def __init__(self, site: Site) -> None:
        self._site = site
        self.progress = Progress()
        self.source, self.target = f"{site.name}.source", f"{site.name}.target"
        self._sent: dict[str, int] = {}
        self._delivered: list[Delivered] = []
        self._restarts = 0

    async def prepare(self) -> None:
        await asyncio.to_thread(self._make_topics)

    def _make_topics(self) -> None:
        admin = AdminClient({"bootstrap.servers": self._site.places.kafka[0], "log_level": 2})
        for made in admin.create_topics([NewTopic(name, 1) for name in (self.source, self.target)]).values():
            made.result(60)

    async def run(self, stop: asyncio.Event) -> None:
        over = asyncio.Event()
        keeping = asyncio.create_task(self._keep(over))
        threads = [asyncio.create_task(asyncio.to_thread(work, over)) for work in (self._read,)]
        try:
            await asyncio.to_thread(self._send, stop)
            await until(lambda: not self._missing(), SETTLE_WITHIN + BEGINS_WITHIN)
            await asyncio.sleep(2.0)
        finally:
            over.set()
            await keeping
            await end(*threads)

    def _missing(self) -> set[str]:
        return self._sent.keys() - {one.key for one in self._delivered}

    def _send(self, stop: asyncio.Event) -> None:
        producer = Producer(
            {"bootstrap.servers": self._site.places.kafka[0], "log_level": 2, "acks": "all", "enable.idempotence": True}
        )

        def heard(error: object, message: Message) -> None:
            key = message.key()
            if error is None and isinstance(key, bytes):
                self._sent[key.decode()] = message.timestamp()[1] + DELAY_S * 1000

        while not stop.is_set():
            producer.produce(self.source, b"{}", uuid4().hex, on_delivery=heard)
            producer.poll(SEND_EVERY)
            time.sleep(SEND_EVERY)
        producer.flush(60)

    def _read(self, over: asyncio.Event) -> None:
        settings = {
            "bootstrap.servers": self._site.places.kafka[0],
            "group.id": self.target,
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "log_level": 0,
        }
        consumer = Consumer(settings)
        consumer.assign([TopicPartition(self.target, 0, 0)])
        while not over.is_set():
            with suppress(KafkaException):
                for message in consumer.consume(500, 0.2):
                    key = message.key()
                    if message.error() is None and isinstance(key, bytes):
                        self._delivered.append(Delivered(key.decode(), message.timestamp()[1]))
                        self.progress.note()
        consumer.close()

    # The pipeline itself, begun again by the same command whenever it ends

    async def _keep(self, over: asyncio.Event) -> None:
        command = [sys.executable, "-m", "meantime", "pipeline", "buffer", "--from", self.source, "--to", self.target]
        while not over.is_set():
            with (self._site.scratch / "buffer.log").open("ab") as log:
                process = await asyncio.create_subprocess_exec(
                    *command,
                    *("--delay", f"{DELAY_S}s", "--data", str(self._site.data)),
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    cwd=self._site.scratch,
                    start_new_session=True,
                )
            ended, stopped = asyncio.create_task(process.wait()), asyncio.create_task(over.wait())
            await asyncio.wait({ended, stopped}, return_when=asyncio.FIRST_COMPLETED)
            if process.returncode is None:
                process.terminate()
                with suppress(TimeoutError):
                    await asyncio.wait_for(process.wait(), 30)
                if process.returncode is None:
                    process.kill()
            await end(ended, stopped)
            self._restarts += 1
            await pause(over, 1.0)

    async def settle(self) -> None:
        """All has been waited for already."""

    def verdict(self, rng: random.Random) -> WorkloadVerdict:
        history = RecordHistory(dict(self._sent), tuple(self._delivered))
        counts = {"sent": len(self._sent), "delivered": len(self._delivered), "starts": self._restarts}
        return WorkloadVerdict(tuple(RECORDS.check(history)), tuple(controls(RECORDS, history, rng)), counts)
