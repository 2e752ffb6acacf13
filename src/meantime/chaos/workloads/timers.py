"""Timers in use: some for the next seconds, some for the next minute, some cancelled; and a reader of all callbacks."""

import asyncio
import random
import time
from contextlib import suppress
from uuid import uuid4

from confluent_kafka import Consumer, KafkaException, Message, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from meantime.chaos.checks.model import controls
from meantime.chaos.checks.timers import CALLBACKS, TIMERS, AskedTimer, Callback, CancelledTimer, TimerHistory
from meantime.chaos.workloads.calls import Caller, odd
from meantime.chaos.workloads.model import SETTLE_WITHIN, Progress, Site, WorkloadVerdict, pause, together, until
from meantime.tasks import end

ASK_EVERY = 0.25
PARTITIONS = 2
READY_WITHIN = 240.0


class TimersWorkload:
    name = TIMERS

    def __init__(self, site: Site, ahead: tuple[int, int] = (2, 45)) -> None:
        self._site = site
        self._ahead = ahead
        self.progress = Progress()
        self.topic = f"{site.name}.callbacks"
        self._seconds: dict[str, int] = {}
        self._cancelled: dict[str, CancelledTimer] = {}
        self._fired: list[Callback] = []
        self._surprises: list[str] = []
        self._wishes: list[tuple[float, str]] = []

    async def prepare(self) -> None:
        await asyncio.to_thread(self._make_topic)
        async with Caller(self._site.urls, self._site.rng("ready"), self._site.headers) as caller:

            async def spark_turns() -> bool:
                answer = await caller.call("GET", "/timers/status")
                found = answer.json() if answer is not None and answer.status_code == 200 else {}
                return (found.get("futures") or {}).get("batch_ms") is not None

            await until(spark_turns, READY_WITHIN, every=1.0)

    def _make_topic(self) -> None:
        admin = AdminClient({"bootstrap.servers": self._site.places.kafka[0], "log_level": 2})
        asked = NewTopic(self.topic, PARTITIONS)
        admin.create_topics([asked])[self.topic].result(60)

    async def run(self, stop: asyncio.Event) -> None:
        over = asyncio.Event()
        reading = asyncio.create_task(asyncio.to_thread(self._read, over))
        try:
            await together(stop, [self._ask, self._change_mind])
            last = max(self._seconds.values(), default=0) - time.time()
            await until(lambda: not self._pending(), max(last, 0) + SETTLE_WITHIN)
            await asyncio.sleep(3.0)
        finally:
            over.set()
            await end(reading)

    def _pending(self) -> set[str]:
        return self._seconds.keys() - self._cancelled.keys() - {callback.token for callback in self._fired}

    async def _ask(self, stop: asyncio.Event) -> None:
        rng = self._site.rng("timers")
        async with Caller(self._site.urls, rng, self._site.headers) as caller:
            while not stop.is_set():
                await self._ask_one(caller, rng)
                await pause(stop, ASK_EVERY)

    async def _ask_one(self, caller: Caller, rng: random.Random) -> None:
        """Again with the same token when there was no answer: it is the same timer."""
        near, far = self._ahead
        token = uuid4().hex
        # Most come soon, so that there is something due in every second.
        ahead = rng.randint(near, near + 6) if rng.random() < 0.7 else rng.randint(near, far)
        second = int(time.time()) + ahead
        asked = {"at": second, "callback_topic": self.topic, "callback_key": token, "callback": token, "token": token}
        for _ in range(3):
            answer = await caller.call("POST", "/timers", asked)
            if answer is not None and answer.status_code == 202:
                self._seconds[token] = second
                if rng.random() < 0.1:
                    self._wishes.append((time.time() + rng.random() * (second - time.time()), token))
                return
            if answer is not None and answer.status_code != 503:
                self._surprises.append(odd("timer", answer))
                return
            await asyncio.sleep(0.2)

    async def _change_mind(self, stop: asyncio.Event) -> None:
        async with Caller(self._site.urls, self._site.rng("cancels"), self._site.headers) as caller:
            while not stop.is_set():
                for wish in [wish for wish in self._wishes if wish[0] <= time.time()]:
                    self._wishes.remove(wish)
                    await self._cancel(caller, wish[1])
                await pause(stop, 0.2)

    async def _cancel(self, caller: Caller, token: str) -> None:
        answer = await caller.call("DELETE", f"/timers/{token}?at={self._seconds[token]}")
        status = 0 if answer is None else answer.status_code
        # A cancel without an answer may count or not; one that was refused leaves the timer as it was.
        if status in (0, 202, 409):
            self._cancelled[token] = CancelledTimer(token, status, time.time() * 1000)
        elif status == 503:
            self._cancelled[token] = CancelledTimer(token, 0, time.time() * 1000)
        elif answer is not None:
            self._surprises.append(odd("cancel", answer))

    # Callbacks, in a thread of their own

    def _read(self, over: asyncio.Event) -> None:
        settings = {
            "bootstrap.servers": self._site.places.kafka[0],
            "group.id": self.topic,
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "log_level": 0,
        }
        consumer = Consumer(settings)
        consumer.assign([TopicPartition(self.topic, number, 0) for number in range(PARTITIONS)])
        while not over.is_set():
            with suppress(KafkaException):
                for message in consumer.consume(500, 0.2):
                    if message.error() is None:
                        self._note(message)
        consumer.close()

    def _note(self, message: Message) -> None:
        seen, key = time.time(), message.key()
        token = key.decode() if isinstance(key, bytes) else str(key)
        self._fired.append(Callback(token, message.timestamp()[1], seen * 1000))
        self.progress.at.append(seen)
        if token in self._seconds:
            self.progress.late.append((seen, seen - self._seconds[token]))

    async def settle(self) -> None:
        """All has been waited for already."""

    def verdict(self, rng: random.Random) -> WorkloadVerdict:
        history = TimerHistory(
            tuple(AskedTimer(token, second) for token, second in self._seconds.items()),
            tuple(self._cancelled.values()),
            tuple(self._fired),
            tuple(self._surprises),
        )
        counts = {"asked": len(self._seconds), "cancelled": len(self._cancelled), "fired": len(self._fired)}
        return WorkloadVerdict(tuple(CALLBACKS.check(history)), tuple(controls(CALLBACKS, history, rng)), counts)
