"""`/topics`: their settings, what is ahead in them, who takes from them. Messages and leases have modules of their own."""

from typing import Annotated, Any

import msgspec

from meantime.api.call import Answer, HttpCall
from meantime.api.rights import require_dead_letters
from meantime.api.topics.forms import SettingsForm
from meantime.api.topics.views import (
    ConsumersView,
    CountedTopicView,
    CountView,
    LoadView,
    TopicsView,
    TopicView,
    counted_topic_view,
    topic_view,
)
from meantime.errors import Invalid
from meantime.topics.rules import AVAILABLE, DEAD, PROCESSING, WAITING

STATUSES = [WAITING, PROCESSING, AVAILABLE, DEAD]

MADE = {201: TopicView, 200: TopicView}


class LoadQuery(msgspec.Struct, forbid_unknown_fields=True):
    from_ms: int
    to_ms: Annotated[int, msgspec.Meta(description="After from_ms.")]
    step_ms: Annotated[int, msgspec.Meta(extra_json_schema={"minimum": 1})]


class CountQuery(msgspec.Struct, forbid_unknown_fields=True):
    status: Annotated[str, msgspec.Meta(extra_json_schema={"enum": STATUSES})] | None = None
    from_ms: int | None = None
    to_ms: int | None = None


async def put_topic(call: HttpCall[SettingsForm, None]) -> Answer:
    """Make a topic, or change its settings

    All settings are optional; an omitted one keeps its value. `bucket_count` cannot change.
    """
    require_dead_letters(call.identity, call.form.dead_letter_topic)
    made, new, call.act.done = await call.services.topics.catalog.put(call.names["topic"], call.form)
    call.act.action = "create" if new else "update"
    call.act.detail = {name: value for name, value in msgspec.to_builtins(call.form).items() if value is not None}
    return Answer(201 if new else 200, topic_view(made))


async def list_topics(call: HttpCall[None, None]) -> TopicsView:
    """All topics"""
    return TopicsView([topic_view(topic) for topic in await call.services.topics.catalog.all()])


async def get_topic(call: HttpCall[None, None]) -> CountedTopicView:
    """A topic's settings, and how many messages it has"""
    topics = call.services.topics
    found = await topics.catalog.get(call.names["topic"])
    return counted_topic_view(found, await topics.counts.counts(found))


async def delete_topic(call: HttpCall[None, None]) -> dict[str, Any]:
    """Delete a topic with all its messages

    It does not exist any more from now on; its name is free when all is removed.
    """
    await call.services.topics.catalog.delete(call.names["topic"])
    return {}


async def load(call: HttpCall[None, LoadQuery]) -> LoadView:
    """What is ahead, slot by slot

    Half-open slots from `from_ms`, at most 10,000; every slot is listed. `planned` are firings of schedules that are no
    messages yet: those beyond the next minute.
    """
    topics, asked = call.services.topics, call.query
    found = await topics.catalog.get(call.names["topic"])
    slots = await topics.counts.load(found, asked.from_ms, asked.to_ms, asked.step_ms)
    planned = await call.services.schedules.forecast.of_topic(found.name, asked.from_ms, asked.to_ms, asked.step_ms)
    if planned:
        slots = [msgspec.structs.replace(slot, planned=planned[place]) for place, slot in enumerate(slots)]
    capacity = await topics.overload.capacity(found.topic_id)
    return LoadView(slots, None if capacity is None else round(capacity, 1))


async def count(call: HttpCall[None, CountQuery]) -> CountView:
    """How many messages there are, by status and range"""
    topics, asked = call.services.topics, call.query
    counts = await topics.counts.counts(await topics.catalog.get(call.names["topic"]), asked.from_ms, asked.to_ms)
    by_status = dict(zip(STATUSES, (counts.waiting, counts.processing, counts.available, counts.dead), strict=True))
    if asked.status is not None and asked.status not in by_status:
        raise Invalid(f"status must be one of {', '.join(STATUSES)}, not {asked.status!r}", field="status")
    return CountView(by_status[asked.status] if asked.status is not None else sum(by_status.values()))


async def consumers(call: HttpCall[None, None]) -> ConsumersView:
    """The connected consumers, their nodes and buckets"""
    return ConsumersView(await call.services.topics.leasing.consumers(call.names["topic"]))
