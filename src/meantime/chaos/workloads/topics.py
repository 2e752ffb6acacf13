"""Topics in use: messages for the next seconds, consumers that do with leases all that can be done, and an owner who changes
its mind."""

import asyncio
import random
import time
from typing import Any
from uuid import uuid4

from meantime.chaos.checks.messages import MESSAGES, OWNER, TOPICS, MessageEvent, MessageHistory
from meantime.chaos.checks.model import controls
from meantime.chaos.workloads.calls import Caller, odd
from meantime.chaos.workloads.model import SETTLE_WITHIN, Progress, Site, WorkloadVerdict, pause, together, until
from meantime.tasks import end

GROUP = {"X-Producer-Group": "chaos"}
CREATE_EVERY = 0.15
LEASE_MS = 3000
CONSUMERS = 3


def now_ms() -> float:
    return time.time_ns() / 1e6


class TopicsWorkload:
    name = TOPICS

    def __init__(self, site: Site) -> None:
        self._site = site
        self.progress = Progress()
        self.topic = f"{site.name}.messages"
        self._events: list[MessageEvent] = []
        self._surprises: list[str] = []
        self._created: set[str] = set()
        self._gone: set[str] = set()
        self._left: frozenset[str] = frozenset()
        self._wishes: list[tuple[float, str]] = []

    def _caller(self, who: str) -> Caller:
        return Caller(self._site.urls, self._site.rng(who), {**self._site.headers, **GROUP})

    async def prepare(self) -> None:
        async with self._caller("topic") as caller:
            answer = await caller.insist("PUT", f"/topics/{self.topic}", {})
            if answer.status_code not in (200, 201):
                raise RuntimeError(odd("topic", answer))

    async def run(self, stop: asyncio.Event) -> None:
        over = asyncio.Event()
        consuming = [asyncio.create_task(self._consume(f"c{number}", over)) for number in range(CONSUMERS)]
        try:
            await together(stop, [self._produce, self._produce, self._change_mind])
            await until(self._empty, SETTLE_WITHIN)
            over.set()
            await asyncio.wait(consuming, timeout=30.0)
        finally:
            await end(*consuming)

    # Producers and owner

    async def _produce(self, stop: asyncio.Event) -> None:
        rng = self._site.rng(f"producer {uuid4().hex}")
        async with self._caller("producer") as caller:
            while not stop.is_set():
                await self._create(caller, rng)
                await pause(stop, CREATE_EVERY)

    async def _create(self, caller: Caller, rng: random.Random) -> None:
        """Three at a time; the ids are natural, so that what had no answer is asked again as it was."""
        messages = [
            {"id": uuid4().hex, "at_ms": int(now_ms()) + rng.choice((0, rng.randrange(3000))), "body": 1} for _ in range(3)
        ]
        for _ in range(3):
            answer = await caller.call("POST", f"/topics/{self.topic}/messages", {"messages": messages})
            if answer is None or answer.status_code == 503:
                await asyncio.sleep(0.2)
                continue
            if answer.status_code not in (201, 207):
                self._surprises.append(odd("create", answer))
                return
            self._note_created(messages, answer.json()["results"], rng)
            return

    def _note_created(self, messages: list[dict[str, Any]], results: list[dict[str, Any]], rng: random.Random) -> None:
        for message, result in zip(messages, results, strict=True):
            if result["status"] in ("created", "exists"):
                self._created.add(message["id"])
                self._write("created", message["id"], 1, "", at_ms=message["at_ms"])
                if rng.random() < 0.1:
                    self._wishes.append((time.time() + rng.random() * 2, message["id"]))

    async def _change_mind(self, stop: asyncio.Event) -> None:
        rng = self._site.rng("owner")
        async with self._caller("owner") as caller:
            while not stop.is_set():
                due = [wish for wish in self._wishes if wish[0] <= time.time()]
                for wish in due:
                    self._wishes.remove(wish)
                    await (self._delete if rng.random() < 0.5 else self._move)(caller, wish[1])
                await pause(stop, 0.2)

    async def _delete(self, caller: Caller, message_id: str) -> None:
        self._write("asked", message_id, 0, OWNER, operation="delete")
        answer = await caller.call("DELETE", f"/topics/{self.topic}/messages/{message_id}")
        if answer is None or answer.status_code == 503:
            return
        # Deleting again is `ok` as well, and a message that is gone is not known any more.
        status = {204: "ok", 404: "not_found", 409: "leased"}.get(answer.status_code)
        if status is None:
            self._surprises.append(odd("delete", answer))
            return
        if status == "ok":
            self._gone.add(message_id)
        self._write("answered", message_id, 0, OWNER, operation="delete", status=status)

    async def _move(self, caller: Caller, message_id: str) -> None:
        at_ms = int(now_ms()) + 1500
        self._write("asked", message_id, 0, OWNER, operation="move", at_ms=at_ms)
        answer = await caller.call("PATCH", f"/topics/{self.topic}/messages/{message_id}", {"at_ms": at_ms})
        if answer is None or answer.status_code in (404, 409, 503):
            return
        if answer.status_code != 200:
            self._surprises.append(odd("move", answer))
            return
        told = answer.json()
        self._write("answered", message_id, told["version"], OWNER, operation="move", status="ok", at_ms=told["at_ms"])

    # Consumers

    async def _consume(self, who: str, over: asyncio.Event) -> None:
        rng = self._site.rng(who)
        async with self._caller(who) as caller, asyncio.TaskGroup() as group:
            while not over.is_set():
                asked = {"consumer_id": who, "limit": 10, "lease_ms": LEASE_MS, "wait_ms": 300}
                answer = await caller.call("POST", f"/topics/{self.topic}/leases", asked)
                if answer is None or answer.status_code == 503:
                    await asyncio.sleep(0.1)
                    continue
                if answer.status_code != 200:
                    self._surprises.append(odd("lease", answer))
                    await asyncio.sleep(0.5)
                    continue
                leases = answer.json()["leases"]
                for lease in leases:
                    more = {"at_ms": lease["at_ms"], "created_for_ms": lease["created_for_ms"], "lease_ms": LEASE_MS}
                    self._write("leased", lease["id"], lease["version"], who, **more)
                    group.create_task(self._work(caller, who, lease, rng))
                if leases:
                    self.progress.note()

    async def _work(self, caller: Caller, who: str, lease: dict[str, Any], rng: random.Random) -> None:
        chance = rng.random()
        if chance < 0.02:
            return  # forgotten: its lease will run out
        if chance < 0.04:
            await asyncio.sleep(LEASE_MS / 1000 + 0.2)  # too late on purpose
        elif chance < 0.10:
            await self._operate(caller, who, "release", lease, int(now_ms()) + rng.randint(50, 500))
            return
        elif chance < 0.20:
            at_ms = int(now_ms()) + rng.randint(200, 2000)
            result = await self._operate(caller, who, "extend", lease, at_ms)
            lease = lease | {"version": result.get("version", lease["version"])}
        await self._operate(caller, who, "delete", lease)

    async def _operate(
        self, caller: Caller, who: str, operation: str, lease: dict[str, Any], at_ms: int = 0
    ) -> dict[str, Any]:
        """The result; nothing when nobody answered."""
        self._write("asked", lease["id"], lease["version"], who, operation=operation, at_ms=at_ms)
        claim = {"id": lease["id"], "version": lease["version"], **({"at_ms": at_ms} if at_ms else {})}
        body = {"consumer_id": who, "leases": [claim]}
        answer = await caller.call("POST", f"/topics/{self.topic}/leases/{operation}", body)
        if answer is None or answer.status_code == 503:
            return {}
        if answer.status_code != 200:
            self._surprises.append(odd(operation, answer))
            return {}
        result: dict[str, Any] = answer.json()["results"][0]
        status, until_ms = result["status"], result.get("at_ms", 0)
        self._write("answered", lease["id"], lease["version"], who, operation=operation, status=status, at_ms=until_ms)
        if operation == "delete" and status == "ok":
            self._gone.add(lease["id"])
        return result

    def _write(self, kind: Any, message_id: str, version: int, who: str, **fields: Any) -> None:
        self._events.append(MessageEvent(kind, message_id, now_ms(), who, version, **fields))

    # The end

    async def _empty(self) -> bool:
        async with self._caller("count") as caller:
            answer = await caller.call("GET", f"/topics/{self.topic}/count")
        return answer is not None and answer.status_code == 200 and answer.json()["count"] == 0

    async def settle(self) -> None:
        """Look for each message that nobody was told to be gone, and for some of the others."""
        rng = self._site.rng("looks")
        told = rng.sample(sorted(self._gone), min(200, len(self._gone)))
        left: set[str] = set()
        async with self._caller("looks") as caller:
            for message_id in [*sorted(self._created - self._gone), *told]:
                answer = await caller.insist("GET", f"/topics/{self.topic}/messages/{message_id}")
                if answer.status_code != 404:
                    left.add(message_id)
        self._left = frozenset(left)

    def verdict(self, rng: random.Random) -> WorkloadVerdict:
        history = MessageHistory(tuple(self._events), self._left, tuple(self._surprises))
        counts = {
            "created": len(self._created),
            "leases": sum(event.kind == "leased" for event in self._events),
            "deleted": len(self._gone),
            "left": len(self._left),
        }
        return WorkloadVerdict(tuple(MESSAGES.check(history)), tuple(controls(MESSAGES, history, rng)), counts)
