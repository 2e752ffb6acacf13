"""Topics as the rest of a node sees them, and how they are put together."""

import asyncio
import uuid
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass

from meantime.clock import Clock
from meantime.database.statements import open_statements
from meantime.errors import Forbidden, MessageLeased, NotFound, StaleVersion
from meantime.names import is_identifier
from meantime.tasks import Duty, on_duty
from meantime.topics import rules
from meantime.topics.catalog import Catalogue
from meantime.topics.drafts import relative
from meantime.topics.duties.dead_letters import Burial
from meantime.topics.duties.overload import Rates, Spikes
from meantime.topics.duties.purge import Purge
from meantime.topics.health import Health
from meantime.topics.holding import Holding
from meantime.topics.leasing.consumers import BEAT_EVERY, Consumers
from meantime.topics.leasing.dispatcher import Dispatcher
from meantime.topics.leasing.dispatchers import Dispatchers
from meantime.topics.leasing.leasing import Leasing
from meantime.topics.leasing.receivers import Stream
from meantime.topics.meters import CREATED, DELETED, DUTY_FAILURES
from meantime.topics.model import (
    Claim,
    ConsumerReport,
    Counts,
    Created,
    Draft,
    Lease,
    Message,
    Outcome,
    Redriven,
    Refused,
    Slot,
    Stage,
    Topic,
)
from meantime.topics.producing import Producing
from meantime.topics.settings import Wish
from meantime.topics.storage.counts import Counting
from meantime.topics.storage.directory import Directory, Life, Register
from meantime.topics.storage.messages import Messages
from meantime.topics.storage.notifications import Listening, Wakeups


@dataclass(frozen=True, slots=True)
class Options:
    pool_size: int = 12
    remember_deleted_ms: int = 24 * 3_600_000
    """How long a message that its owner deleted is known as deleted."""
    bury_every: float = 0.2
    purge_every: float = 1.0
    forecast_every: float = 10.0


@dataclass(frozen=True, slots=True)
class Topics:
    """Everything that can be done with topics. Who may ask is checked outside; who owns or holds a message, here."""

    catalogue: Catalogue
    producing: Producing
    leasing: Leasing
    holding: Holding
    messages: Messages
    counting: Counting
    consumers: Consumers
    burial: Burial
    clock: Clock
    health: Health
    rates: Rates
    purge_soon: asyncio.Event

    async def put(self, name: str, wish: Wish) -> tuple[Topic, bool]:
        return await self.catalogue.put(name, wish)

    async def get(self, name: str) -> Topic:
        return await self.catalogue.get(name)

    async def all(self) -> list[Topic]:
        return await self.catalogue.all()

    async def delete_topic(self, name: str) -> None:
        await self.catalogue.condemn(name)
        self.purge_soon.set()

    async def create(self, name: str, group: str, drafts: Sequence[Draft | Refused]) -> list[Created]:
        if relative(drafts):
            self.health.require_healthy()
        results = await self.producing.create(name, group, drafts)
        CREATED.inc(sum(result.status == "created" for result in results))
        return results

    async def message(self, name: str, message_id: str, group: str | None, consumer_id: str | None) -> Message:
        """For its owner and for whoever holds its lease now."""
        topic = await self.catalogue.get(name)
        message = await self.messages.message(topic, message_id) if is_identifier(message_id) else None
        if message is None or message.stage == Stage.GONE:
            raise _no_message(message_id, topic)
        if not rules.may_read(message, group, consumer_id, self.clock.now_ms()):
            raise Forbidden("a message is read by its owner and by the holder of its lease")
        return message

    async def of_group(self, name: str, group: str, after: str, limit: int) -> list[Message]:
        return await self.messages.of_group(await self.catalogue.get(name), group, after, limit, self.clock.now_ms())

    async def move(
        self, name: str, message_id: str, group: str, at_ms: int | None, after_ms: int | None, version: int | None
    ) -> Outcome:
        topic = await self.catalogue.get(name)
        if after_ms is not None:
            self.health.require_healthy()
        wished = rules.position(at_ms, after_ms, topic.settings, self.clock.now_ms())
        _check_id(message_id, topic)
        outcome = await self.producing.move(topic, group, message_id, wished, version)
        return _or_raise(outcome, message_id, topic)

    async def delete(self, name: str, message_id: str, group: str, version: int | None) -> None:
        topic = await self.catalogue.get(name)
        _check_id(message_id, topic)
        (outcome,) = await self.producing.delete(topic, group, [message_id], version)
        _or_raise(outcome, message_id, topic)

    async def delete_many(self, name: str, group: str, ids: Sequence[str]) -> list[Outcome]:
        return await self.producing.delete(await self.catalogue.get(name), group, ids)

    async def pull(self, name: str, consumer_id: str, limit: int, lease_ms: int, wait_ms: int) -> list[Lease]:
        return await self.leasing.pull(await self.catalogue.get(name), consumer_id, limit, lease_ms, wait_ms)

    async def stream(self, name: str, consumer_id: str, buffer: int, lease_ms: int) -> AbstractAsyncContextManager[Stream]:
        return self.leasing.stream(await self.catalogue.get(name), consumer_id, buffer, lease_ms)

    async def extend(self, topic: Topic, consumer_id: str, claims: Sequence[Claim]) -> list[Outcome]:
        return await self.holding.extend(topic, consumer_id, claims)

    async def release(self, topic: Topic, consumer_id: str, claims: Sequence[Claim]) -> list[Outcome]:
        return await self.holding.release(topic, consumer_id, claims)

    async def finish(self, topic: Topic, consumer_id: str, claims: Sequence[Claim]) -> list[Outcome]:
        outcomes = await self.holding.delete(topic, consumer_id, claims)
        done = sum(outcome.status == rules.OK for outcome in outcomes)
        DELETED.inc(done)
        self.rates.finished(topic.topic_id, done)
        return outcomes

    async def load(self, name: str, from_ms: int, to_ms: int, step_ms: int) -> list[Slot]:
        return await self.counting.load(await self.catalogue.get(name), from_ms, to_ms, step_ms, self.clock.now_ms())

    async def counts(self, name: str, from_ms: int | None = None, to_ms: int | None = None) -> Counts:
        return await self.counting.counts(await self.catalogue.get(name), from_ms, to_ms, self.clock.now_ms())

    async def consumers_of(self, name: str) -> list[ConsumerReport]:
        topic = await self.catalogue.get(name)
        consumers = self.consumers.of_topic(topic.topic_id)
        streams = [one.consumer_id for one in consumers if one.mode == "push"]
        slices = rules.deal(topic.settings.bucket_count, streams or [one.consumer_id for one in consumers])
        held = await self.counting.outstanding(topic, [one.consumer_id for one in consumers], self.clock.now_ms())
        return [
            ConsumerReport(
                one.consumer_id,
                one.node_id,
                one.mode,
                [slices[one.consumer_id]] if one.consumer_id in slices and (one.mode == "push" or not streams) else [],
                one.buffer,
                held.get(one.consumer_id, 0),
            )
            for one in consumers
        ]

    async def redrive(self, name: str, to: str | None, limit: int) -> Redriven:
        topic = await self.catalogue.get(name)
        if to is not None:
            await self.catalogue.get(to)
        return await self.burial.redrive(topic, to, limit)


def _check_id(message_id: str, topic: Topic) -> None:
    """What cannot be an id is the id of no message."""
    if not is_identifier(message_id):
        raise _no_message(message_id, topic)


def _no_message(message_id: str, topic: Topic) -> NotFound:
    return NotFound(f"topic {topic.name!r} has no message {message_id!r}")


def _or_raise(outcome: Outcome, message_id: str, topic: Topic) -> Outcome:
    match outcome.status:
        case rules.OK:
            return outcome
        case rules.FORBIDDEN:
            raise Forbidden(f"message {message_id!r} belongs to another producer group")
        case rules.STALE_VERSION:
            raise StaleVersion(f"message {message_id!r} has another version by now")
        case rules.LEASED:
            raise MessageLeased(f"message {message_id!r} is leased by a consumer")
        case _:
            raise _no_message(message_id, topic)


@asynccontextmanager
async def open_topics(
    uri: str, listener: Listening, clock: Clock, health: Health, node_id: str, options: Options | None = None
) -> AsyncIterator[Topics]:
    """The topics of one node. `uri` is the database's; `listener` brings the news of other nodes."""
    options = options or Options()
    life = Life(node_id, uuid.uuid4().hex)
    async with open_statements(uri, size=options.pool_size) as statements:
        wakeups = Wakeups(statements, listener, life.session_id)
        directory, register = Directory(statements), Register(statements, life)
        catalogue = Catalogue(directory, clock, wakeups)
        messages = Messages(statements, options.remember_deleted_ms)
        consumers = Consumers(register, clock, wakeups, node_id)
        counting, rates = Counting(statements), Rates()

        def make(name: str) -> Dispatcher:
            return Dispatcher(name, catalogue, messages, clock, health)

        dispatchers = Dispatchers(make, catalogue, consumers, wakeups, clock, node_id)
        burial = Burial(statements, catalogue, clock, dispatchers.arrived)
        purge = Purge(statements, directory, register, clock, health)
        spikes = Spikes(catalogue, counting, rates, clock, options.forecast_every)
        topics = Topics(
            catalogue=catalogue,
            producing=Producing(catalogue, messages, clock, dispatchers.arrived),
            leasing=Leasing(catalogue, messages, consumers, dispatchers, clock, health),
            holding=Holding(messages, clock, dispatchers.arrived, dispatchers.leases_changed, burial),
            messages=messages,
            counting=counting,
            consumers=consumers,
            burial=burial,
            clock=clock,
            health=health,
            rates=rates,
            purge_soon=asyncio.Event(),
        )
        duties = [
            Duty("consumers", consumers.run_once, BEAT_EVERY),
            Duty("consumers-news", consumers.refresh_if_outdated, 0.1),
            Duty("burial", burial.run_once, options.bury_every),
            Duty("purge", purge.run_once, options.purge_every, topics.purge_soon),
            Duty("spikes", spikes.run_once, options.forecast_every),
        ]
        async with on_duty(duties, lambda name: DUTY_FAILURES.labels(name).inc()):
            try:
                yield topics
            finally:
                await dispatchers.stop()
                await consumers.leave()
