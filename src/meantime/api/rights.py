"""Rights that say more than a verb and a name in the path."""

from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

from meantime.access.authorization import ADMINS, OF_EVENT_TYPES, READERS, WRITERS, is_listed, require_listed
from meantime.access.scopes import Identity
from meantime.api.call import HttpCall
from meantime.api.http.exchange import HttpExchange
from meantime.api.routing import Names, Scope, scope
from meantime.errors import NotFound, Unauthenticated
from meantime.names import check_identifier
from meantime.schedules.model import ScheduleTarget
from meantime.topics.rules import application_of, check_producer


def looked_at(right: Scope) -> Scope:
    """The same right, or that of onlookers: for what is shown to operators and has no bodies in it."""

    def require(identity: Identity, names: Names, exchange: HttpExchange) -> None:
        if not identity.may("look"):
            right.require(identity, names, exchange)

    async def also(call: HttpCall[Any, Any]) -> None:
        if right.also is not None and not call.identity.may("look"):
            await right.also(call)

    return Scope(f"{right.text}, or look", require, also if right.also is not None else None)


def known(text: str) -> Scope:
    """Any key. What else is needed depends on what is found, and the handler asks for it; `text` says what that is."""
    return Scope(text, lambda identity, names, exchange: None)


KNOWN = known("any key")


# --- topics ---


def producer_group(call: HttpCall[Any, Any]) -> str:
    """The group that the caller acts as; it must be allowed to produce as that group."""
    return _producer_group(call.identity, call.exchange)


def _producer_group(identity: Identity, exchange: HttpExchange) -> str:
    group = exchange.headers.get(b"x-producer-group", b"").decode("latin-1")
    if not group:
        raise Unauthenticated("say which producer group you are: send the header X-Producer-Group")
    check_identifier(group, "producer group")
    identity.require("produce", group)
    return group


def _produce(identity: Identity, names: Names, exchange: HttpExchange) -> None:
    _producer_group(identity, exchange)


def _make_topic(identity: Identity, names: Names, exchange: HttpExchange) -> None:
    """An application makes the topics that belong to it; all others are for admins."""
    application = application_of(names["topic"])
    if application is None or not identity.may("produce", application):
        identity.require("admin")


def require_dead_letters(identity: Identity, topic: str | None) -> None:
    """Dead letters arrive without being produced, so they need the right to produce to a topic that is not for everybody."""
    application = application_of(topic or "")
    if application is not None:
        identity.require("produce", application)


def _look(identity: Identity, names: Names, exchange: HttpExchange) -> None:
    """Producers and consumers may see what is ahead in a topic, not only operators."""
    topic = names.get("topic")
    of_any_name = ("produce:",) if topic else ("produce:", "consume:", "operate:")
    if any(scope.startswith(of_any_name) for scope in identity.scopes) or (topic and identity.may("operate", topic)):
        return
    identity.require("consume", topic)


def sees_all(call: HttpCall[Any, Any], asked: bool) -> bool:
    """Whether the caller is shown the messages of every group: because that is `asked` for, which takes a right, or because
    no group is named and the right is there."""
    identity, topic = call.identity, call.names["topic"]
    if asked and not identity.may("look"):
        identity.require("operate", topic)
    return asked or (not call.header(b"x-producer-group") and (identity.may("operate", topic) or identity.may("look")))


def sees_bodies(identity: Identity, topic: str) -> bool:
    """Whether whoever is shown the messages of every group is shown their bodies, too."""
    return identity.may("operate", topic) or identity.sees_bodies


PRODUCER = Scope("produce:{X-Producer-Group}", _produce)
TOPIC_MAKER = Scope("admin, or produce:<application> for <application>.retry, .dead and .periodic", _make_topic)
TOPICS_VIEWER = looked_at(Scope("any produce:…, consume:… or operate:…", _look))
TOPIC_VIEWER = looked_at(Scope("consume:{topic}, operate:{topic}, any produce:…", _look))
MESSAGE_READER = known("produce:{X-Producer-Group} or consume:{topic}; with all operate:{topic} or look")
"""The owner or the holder of its lease; both if both are named."""
MESSAGES_READER = known("produce:{X-Producer-Group}; for all operate:{topic} or look")
MESSAGES_CHANGER = known("produce:{X-Producer-Group}; for all operate:{topic}")


# --- streams and subscriptions ---


async def _authorization(call: HttpCall[Any, Any], event_type: str) -> Any:
    """That of an event type, as this node knows it: it is notified of changes."""
    entry = await call.services.streams.catalog.for_publishing(event_type)
    return entry.event_type.document.get("authorization")


async def require_in_lists(call: HttpCall[Any, Any], event_type: str, *lists: str) -> None:
    """The authorization of an event type, if it has one, lists the caller in one of these lists."""
    if not call.identity.may("admin"):
        require_listed(call.identity, await _authorization(call, event_type), f"event type {event_type!r}", *lists)


def in_lists(*lists: str) -> Callable[[HttpCall[Any, Any]], Awaitable[None]]:
    """The same of the event type in the path."""
    return lambda call: require_in_lists(call, call.names["name"], *lists)


async def _require_event_type_admin(call: HttpCall[Any, Any]) -> None:
    if not call.identity.may("admin") and not is_listed(
        call.identity, await _authorization(call, call.names["name"]), ADMINS
    ):
        call.identity.require("admin")


def _read_or_publish(identity: Identity, names: Names, exchange: HttpExchange) -> None:
    if not identity.may("publish", names["name"]):
        identity.require("read", names["name"])


def _read_events(identity: Identity, names: Names, exchange: HttpExchange) -> None:
    if not identity.sees_bodies:
        identity.require("read", names["name"])


READ = scope("read", of="name", also=in_lists(READERS))
READ_EVENTS = Scope("read:{name}, or look:bodies", _read_events, in_lists(READERS))
READ_PLACES = looked_at(READ)
"""Where events lie, and how many: nothing of what is in them."""
PUBLISH = scope("publish", of="name", also=in_lists(WRITERS))
READER_OR_PUBLISHER = looked_at(Scope("read:{name} or publish:{name}", _read_or_publish, in_lists(*OF_EVENT_TYPES)))
EVENT_TYPE_ADMIN = Scope("admin", lambda identity, names, exchange: None, _require_event_type_admin)
"""Or one of the admins of its authorization."""
READ_ALL = known("read:<each event type>")
"""Of a subscription, which has to be found first or stands in the body; and its authorization."""
READ_ALL_PLACES = known("read:<each event type>, or look")


# --- schedules ---


def _schedules(identity: Identity, names: Names, exchange: HttpExchange) -> None:
    """Which of them is decided one by one."""
    if not any(scope.startswith("schedules:") for scope in identity.scopes):
        identity.require("schedules", "*")


async def require_target(call: HttpCall[Any, Any], schedule_id: str, target: ScheduleTarget) -> None:
    """Whoever makes a schedule fire writes into its target, and needs the right to do that without it."""
    identity = call.identity
    identity.require("schedules", schedule_id)
    if target.topic is not None:
        identity.require("produce", target.group or "")
        check_producer(target.topic, target.group or "")
    elif target.event_type is not None:
        identity.require("publish", target.event_type)
        with suppress(NotFound):  # which is said later
            await require_in_lists(call, target.event_type, WRITERS)
    else:
        identity.require("timers")
        identity.require("callback", target.kafka_topic)


SCHEDULES_VIEWER = looked_at(Scope("any schedules:…", _schedules))
SCHEDULE_VIEWER = looked_at(scope("schedules", of="id"))
"""Onlookers see the body with `look:bodies` only."""
SCHEDULE_CHANGER = Scope(
    "schedules:{id}, with produce:<group>, publish:<event type>, or timers and callback:<Kafka topic> for its target",
    lambda identity, names, exchange: identity.require("schedules", names["id"]),
)
"""What the target is stands in the body, or is found with the schedule."""
SCHEDULES_CHANGER = Scope("schedules:<each>, with what the target of each needs", _schedules)


# --- timers ---

TIMER_SETTER = Scope(
    "timers, with publish:<event type> or callback:<Kafka topic> for each callback",
    lambda identity, names, exchange: identity.require("timers"),
)
"""What is called back stands in the body."""
