"""The topics of a node: the objects that decide, and how they are put together."""

import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial

from meantime.clock import Clock
from meantime.database.statements import open_statements
from meantime.supervision import Duty, on_duty
from meantime.topics.catalog import TopicCatalog
from meantime.topics.duties.dead_letters import DeadLetters
from meantime.topics.duties.overload import OverloadForecast, Rates
from meantime.topics.duties.purge import Purge
from meantime.topics.duties.sending_back import SendingBack
from meantime.topics.holding import Effects, Holding
from meantime.topics.instants import Instants
from meantime.topics.leasing.consumers import HEARTBEAT_EVERY, Consumers
from meantime.topics.leasing.dispatcher import LeaseDispatcher
from meantime.topics.leasing.dispatchers import LOOK_EVERY, LeaseDispatchers
from meantime.topics.leasing.leasing import Leasing
from meantime.topics.meters import DUTY_FAILURES, METERS
from meantime.topics.operating import Operating
from meantime.topics.producing import OnArrival, Producing
from meantime.topics.storage.counts import MessageCounts
from meantime.topics.storage.depths import Depths
from meantime.topics.storage.directory import ConsumerRegistry, NodeSession, TopicStore
from meantime.topics.storage.filtered import FilteredMessages
from meantime.topics.storage.messages import MessageStore
from meantime.topics.storage.notifications import NotificationListener, Notifications
from meantime.topics.storage.rates import RateStore


@dataclass(frozen=True, slots=True)
class TopicsOptions:
    pool_size: int = 12
    remember_deleted_ms: int = 24 * 3_600_000
    """How long a message that its owner deleted is known as deleted."""
    dead_letters_every: float = 0.2
    purge_every: float = 1.0
    forecast_every: float = 10.0


@dataclass(frozen=True, slots=True)
class Topics:
    """Everything that can be done with topics. Who may ask is checked outside; who owns or holds a message, here."""

    catalog: TopicCatalog
    producing: Producing
    operating: Operating
    leasing: Leasing
    holding: Holding
    counts: MessageCounts
    dead_letters: DeadLetters
    sending_back: SendingBack
    clock: Clock
    messages: MessageStore
    consumers: Consumers
    depths: Depths
    arrived: OnArrival
    """To be told of messages that somebody else has put into a topic."""
    overload: OverloadForecast

    async def measure(self) -> None:
        """Look how deep the topics are, for the metrics."""
        depths = await self.depths.look()
        METERS.measured(depths, self.clock.now_ms())


@asynccontextmanager
async def open_topics(
    uri: str,
    listener: NotificationListener,
    clock: Clock,
    require_healthy: Callable[[], None],
    node_id: str,
    options: TopicsOptions | None = None,
) -> AsyncIterator[Topics]:
    """The topics of one node. `uri` is the database's; `listener` brings the notifications of other nodes;
    `require_healthy` raises `Degraded` while this node may issue no lease and make no relative instant."""
    options = options or TopicsOptions()
    session = NodeSession(node_id, uuid.uuid4().hex)
    async with open_statements(uri, size=options.pool_size) as statements:
        notifications = Notifications(statements, listener, session.session_id)
        topic_store, registry = TopicStore(statements), ConsumerRegistry(statements, session)
        catalog = TopicCatalog(topic_store, clock, notifications)
        messages = MessageStore(statements, options.remember_deleted_ms)
        consumers = Consumers(registry, clock, notifications, node_id)
        counts, rates, instants = MessageCounts(statements, clock), Rates(), Instants(clock, require_healthy)
        dispatcher = partial(
            LeaseDispatcher, catalog=catalog, messages=messages, clock=clock, require_healthy=require_healthy
        )
        dispatchers = LeaseDispatchers(dispatcher, consumers, messages, counts, notifications, clock, node_id)
        dead_letters = DeadLetters(statements, catalog, clock, dispatchers.arrived, require_healthy)
        move_dead_letters = partial(dead_letters.run_once, patient=True)
        effects = Effects(dispatchers.arrived, dispatchers.leases_changed, rates.finished, move_dead_letters)
        topics = Topics(
            catalog=catalog,
            producing=Producing(catalog, messages, clock, instants, dispatchers.arrived),
            operating=Operating(catalog, FilteredMessages(statements), messages, clock, instants, dispatchers.arrived),
            leasing=Leasing(catalog, messages, consumers, dispatchers, counts, clock),
            holding=Holding(messages, clock, instants, effects),
            counts=counts,
            dead_letters=dead_letters,
            sending_back=SendingBack(statements, clock, dispatchers.arrived),
            clock=clock,
            messages=messages,
            consumers=consumers,
            depths=Depths(statements, clock),
            arrived=dispatchers.arrived,
            overload=OverloadForecast(catalog, counts, rates, RateStore(statements, node_id), clock, options.forecast_every),
        )
        purge = Purge(statements, topic_store, registry, clock, require_healthy)
        duties = [*_duties(topics, purge, options), *_duties_of_leasing(dispatchers)]
        async with on_duty(duties, lambda name: DUTY_FAILURES.labels(name).inc()):
            try:
                yield topics
            finally:
                await dispatchers.stop()
                await consumers.leave()


def _duties_of_leasing(dispatchers: LeaseDispatchers) -> list[Duty]:
    return [
        Duty("idle-topics", dispatchers.look_for_idle, LOOK_EVERY),
        Duty("full-streams", dispatchers.check_full_streams, 1.0),
    ]


def _duties(topics: Topics, purge: Purge, options: TopicsOptions) -> list[Duty]:
    return [
        Duty("consumers", topics.consumers.run_once, HEARTBEAT_EVERY),
        Duty("consumers-changed", topics.consumers.refresh_if_outdated, 0.1),
        Duty("dead-letters", topics.dead_letters.run_once, options.dead_letters_every),
        Duty("purge", purge.run_once, options.purge_every, topics.catalog.deletion),
        Duty("overload", topics.overload.run_once, options.forecast_every),
    ]
