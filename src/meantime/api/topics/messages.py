"""`/topics/{topic}/messages`: what producers do. The group that asks is in `X-Producer-Group`."""

from typing import Annotated, Any

import msgspec

from meantime.api.bodies import Takes, form
from meantime.api.call import Answer, HttpCall
from meantime.api.rights import producer_group
from meantime.api.topics.forms import ONE_INSTANT, ConsumerQuery, MoveForm, bounds, read_drafts, read_ids
from meantime.api.topics.views import (
    CreatedView,
    DeletedView,
    DeletionsView,
    MessagesView,
    MessageView,
    MovedView,
    message_view,
)
from meantime.errors import Forbidden, Invalid, Unauthenticated
from meantime.names import check_identifier, is_identifier
from meantime.topics.holders import holder_of
from meantime.topics.model import Outcome
from meantime.topics.rules import NOT_FOUND

MOST_LISTED = 1_000

MOVE = Takes(Annotated[MoveForm, ONE_INSTANT], form(MoveForm).read)


CREATED = {201: CreatedView, 207: CreatedView}


class ListQuery(msgspec.Struct, forbid_unknown_fields=True):
    after: Annotated[str, msgspec.Meta(description="The id after which the list begins.")] = ""
    limit: Annotated[int, bounds(1, MOST_LISTED)] = 100
    producer_group: Annotated[str, msgspec.Meta(description="That of the header; 403 for any other.")] | None = None


class VersionQuery(msgspec.Struct, forbid_unknown_fields=True):
    version: int | None = None


async def create(call: HttpCall[bytes, None]) -> Answer:
    """Create messages

    `{"messages": [{id?, at_ms | after_ms, body | body_b64}]}`. 201 when all were created, else 207; one result per message,
    in their order. An id that exists is not created again.
    """
    group = producer_group(call)
    results = await call.services.topics.producing.create(call.names["topic"], group, read_drafts(call.form))
    all_created = all(result.status == "created" for result in results)
    return Answer(201 if all_created else 207, CreatedView(results))


async def list_messages(call: HttpCall[None, ListQuery]) -> MessagesView:
    """The messages of a producer group

    Ordered by id, from the one after `after`; `next` continues the list. A group sees its own only.
    """
    group, query, topics = producer_group(call), call.query, call.services.topics
    if query.producer_group not in (None, "", group):
        raise Forbidden("only the owner may list the messages of a producer group")
    if not 1 <= query.limit <= MOST_LISTED:
        raise Invalid(f"limit must be from 1 to {MOST_LISTED}", field="limit")
    if query.after:
        check_identifier(query.after, "message id")
    found = await topics.producing.messages(call.names["topic"], group, query.after, query.limit)
    now_ms = topics.clock.now_ms()
    following = found[-1].id if len(found) == query.limit else None
    return MessagesView([message_view(message, now_ms) for message in found], following)


async def get(call: HttpCall[None, ConsumerQuery]) -> MessageView:
    """A message, for its owner or holder

    Who asks is said by `X-Producer-Group`, by `consumer_id`, or by both.
    """
    topic, topics, consumer_id = call.names["topic"], call.services.topics, call.query.consumer_id
    group = producer_group(call) if call.header(b"x-producer-group") else None
    if not group and not consumer_id:
        raise Unauthenticated("say who you are: send X-Producer-Group or consumer_id")
    if consumer_id:
        check_identifier(consumer_id, "consumer id")
        call.identity.require("consume", topic)
    holder = holder_of(consumer_id, call.identity.key_id) if consumer_id else None
    message = await topics.producing.message(topic, call.names["message_id"], group, holder)
    return message_view(message, topics.clock.now_ms())


async def move(call: HttpCall[MoveForm, None]) -> MovedView:
    """Move a message in time

    `{at_ms | after_ms, version?}`, by its owner. 409 `leased` while a consumer has it, `stale_version` if it changed.
    """
    topic, message_id, asked = call.names["topic"], call.names["message_id"], call.form
    group, producing = producer_group(call), call.services.topics.producing
    outcome = await producing.move(topic, message_id, group, asked.at_ms, asked.after_ms, asked.version)
    assert outcome.version is not None
    assert outcome.at_ms is not None
    return MovedView(message_id, outcome.version, outcome.at_ms)


async def delete(call: HttpCall[None, VersionQuery]) -> None:
    """Delete a message

    By its owner; again is fine. 409 `leased` while a consumer has it.
    """
    producing = call.services.topics.producing
    await producing.delete(call.names["topic"], call.names["message_id"], producer_group(call), call.query.version)


async def delete_many(call: HttpCall[bytes, None]) -> DeletionsView:
    """Delete messages

    `{"ids": [...]}`, by their owner; one result per id, in their order.
    """
    group = producer_group(call)
    ids = read_ids(call.form)
    sound = [one for one in ids if one is not None and is_identifier(one)]
    outcomes = iter(await call.services.topics.producing.delete_many(call.names["topic"], group, sound))
    results = [next(outcomes) if one is not None and is_identifier(one) else Outcome(one, NOT_FOUND) for one in ids]
    return DeletionsView([_deleted(result.id, result.status) for result in results])


def _deleted(message_id: str | None, status: Any) -> DeletedView:
    return DeletedView(message_id, status)
