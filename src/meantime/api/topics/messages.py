"""`/topics/{topic}/messages`: what producers do. The group that asks is in `X-Producer-Group`."""

from typing import Annotated, Any

import msgspec

from meantime.api.bodies import Takes, form
from meantime.api.call import Answer, HttpCall
from meantime.api.rights import producer_group, sees_all, sees_bodies
from meantime.api.topics.forms import (
    ONE_INSTANT,
    DeleteManyForm,
    FilterForm,
    Identifier,
    IdEntries,
    MessageQuery,
    MoveForm,
    MoveManyForm,
    bounds,
    check_batch,
    read,
    read_drafts,
    read_ids,
)
from meantime.api.topics.views import (
    CreatedView,
    DeletedMany,
    DeletedView,
    MessagesView,
    MessageView,
    MovedView,
    message_view,
)
from meantime.errors import Forbidden, Invalid, Unauthenticated
from meantime.names import check_identifier, is_identifier
from meantime.topics.filters import STATUSES
from meantime.topics.holders import holder_of
from meantime.topics.model import BulkChange, MessageFilter, Outcome, StoredMessage
from meantime.topics.rules import NOT_FOUND
from meantime.topics.storage.messages import FIRST_MS

MOST_LISTED = 1_000
MOST_IDS_AUDITED = 20
_DIGITS = 18
"""An instant has at most so many."""

MOVE = Takes(Annotated[MoveForm, ONE_INSTANT], form(MoveForm).read)
MOVE_MANY = Takes(Annotated[MoveManyForm, ONE_INSTANT], form(MoveManyForm).read)


CREATED = {201: CreatedView, 207: CreatedView}


class ListQuery(msgspec.Struct, forbid_unknown_fields=True):
    after: Annotated[str, msgspec.Meta(description="The id after which the list begins; `next` of the page before.")] = ""
    limit: Annotated[int, bounds(1, MOST_LISTED)] = 100
    producer_group: Annotated[str, msgspec.Meta(description="That of the header; 403 for any other.")] | None = None
    all: Annotated[bool, msgspec.Meta(description="Of every group; asks for the scope of operators.")] = False
    status: Annotated[str, msgspec.Meta(extra_json_schema={"enum": list(STATUSES)})] | None = None
    from_ms: int | None = None
    to_ms: Annotated[int, msgspec.Meta(description="Exclusive.")] | None = None
    id_prefix: Identifier | None = None
    bodies: Annotated[bool, msgspec.Meta(description="Whether bodies are shown to whoever may see them.")] = True

    @property
    def filtered(self) -> bool:
        return any(one is not None for one in (self.status, self.from_ms, self.to_ms, self.id_prefix))


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
    """The messages of a producer group, or all

    Ordered by id, from the one after `after`; `next` continues the list. A group sees its own only. Without
    `X-Producer-Group`, or with `all`, those of every group are listed in the order of their instants, which asks for
    `operate:{topic}` or `look`. So are those that `status`, `from_ms` and `to_ms` choose; with `id_prefix` the order is that
    of ids. Nothing is counted: the list is as long as one reads it.
    """
    query = call.query
    group = None if sees_all(call, query.all) else producer_group(call)
    if query.producer_group not in (None, "", group):
        raise Forbidden("only the owner may list the messages of a producer group")
    if not 1 <= query.limit <= MOST_LISTED:
        raise Invalid(f"limit must be from 1 to {MOST_LISTED}", field="limit")
    return await (_of_group(call, group) if group is not None and not query.filtered else _filtered(call, group))


async def _of_group(call: HttpCall[None, ListQuery], group: str) -> MessagesView:
    query, topics = call.query, call.services.topics
    if query.after:
        check_identifier(query.after, "message id")
    found = await topics.producing.messages(call.names["topic"], group, query.after, query.limit)
    return _page(call, found, found[-1].id if found else None, bodies=query.bodies)


async def _filtered(call: HttpCall[None, ListQuery], group: str | None) -> MessagesView:
    query, topic = call.query, call.names["topic"]
    bodies = query.bodies and (group is not None or sees_bodies(call.identity, topic))
    wanted = MessageFilter(query.status, query.from_ms, query.to_ms, query.id_prefix or None, None, group)
    after = (0, query.after) if wanted.id_prefix else _place(query.after)
    found = await call.services.topics.operating.page(topic, wanted, after, query.limit, bodies=bodies)
    places = [one.id if wanted.id_prefix else f"{one.at_ms}:{one.id}" for one in found[-1:]]
    return _page(call, found, places[0] if places else None, bodies=bodies)


def _place(after: str) -> tuple[int, str]:
    """The instant and the id of the last message of a page in the order of instants, as its `next` names them."""
    at_ms, _, message_id = after.partition(":")
    if not after:
        return FIRST_MS, ""
    digits = at_ms.removeprefix("-")
    if not (digits.isascii() and digits.isdigit() and len(digits) <= _DIGITS and is_identifier(message_id)):
        raise Invalid("in the order of instants, after must be what the page before has as next", field="after")
    return int(at_ms), message_id


def _page(call: HttpCall[None, ListQuery], found: list[StoredMessage], last: str | None, *, bodies: bool) -> MessagesView:
    now_ms, whole = call.services.topics.clock.now_ms(), len(found) == call.query.limit
    views = [message_view(message, now_ms, body=bodies) for message in found]
    return MessagesView(views, last if whole else None)


async def get(call: HttpCall[None, MessageQuery]) -> MessageView:
    """A message, for its owner, holder or an operator

    Who asks is said by `X-Producer-Group`, by `consumer_id`, or by both; or by `all`, which asks for `operate:{topic}` or
    `look`. Only `look:bodies` shows onlookers the body.
    """
    topic, topics, consumer_id = call.names["topic"], call.services.topics, call.query.consumer_id
    if call.query.all:
        sees_all(call, True)
        found = await topics.producing.any_message(topic, call.names["message_id"])
        return message_view(found, topics.clock.now_ms(), body=sees_bodies(call.identity, topic))
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


async def move_many(call: HttpCall[MoveManyForm, None]) -> BulkChange:
    """Move all messages that a filter holds

    `{filter: {status?, from_ms?, to_ms?, id_prefix?, ids?}, at_ms | after_ms, expect?}`. `expect` is how many they are: 409
    with `count` when that differs, and nothing has changed; `dry_run` only says how many. Those that a consumer holds are
    not touched. With `X-Producer-Group` one's own, without it those of every group, which asks for `operate:{topic}`.
    """
    asked = call.form
    wanted = _filter(call, asked.filter, asked)
    operating = call.services.topics.operating
    if asked.dry_run:
        return BulkChange(await _tried(call, wanted))
    done = await operating.move(call.names["topic"], wanted, asked.at_ms, asked.after_ms, asked.expect)
    call.act.count = done.count
    call.act.detail |= {name: at for name, at in (("at_ms", asked.at_ms), ("after_ms", asked.after_ms)) if at is not None}
    return done


async def delete_many(call: HttpCall[bytes, None]) -> DeletedMany:
    """Delete messages

    `{"ids": [...]}`, by their owner; one result per id, in their order. Or `{filter, expect?}`: all that the filter holds,
    as in `move`.
    """
    entries = read(call.form, IdEntries)
    if entries.ids is None and bytes(entries.filter) not in (b"", b"null"):
        asked = read(call.form, DeleteManyForm)
        wanted = _filter(call, asked.filter or FilterForm(), asked)
        if asked.dry_run:
            return DeletedMany(count=await _tried(call, wanted), skipped=0)
        done = await call.services.topics.operating.delete(call.names["topic"], wanted, asked.expect)
        call.act.count = done.count
        return DeletedMany(count=done.count, skipped=done.skipped)
    call.act.done = False  # what a producer does with its own, one by one
    group = producer_group(call)
    ids = read_ids(call.form)
    sound = [one for one in ids if one is not None and is_identifier(one)]
    outcomes = iter(await call.services.topics.producing.delete_many(call.names["topic"], group, sound))
    results = [next(outcomes) if one is not None and is_identifier(one) else Outcome(one, NOT_FOUND) for one in ids]
    return DeletedMany([_deleted(result.id, result.status) for result in results])


async def _tried(call: HttpCall[Any, None], wanted: MessageFilter) -> int:
    """How many would be changed; nobody has acted."""
    call.act.done = False
    return await call.services.topics.operating.count(call.names["topic"], wanted)


def _filter(call: HttpCall[Any, None], asked: FilterForm, change: MoveManyForm | DeleteManyForm) -> MessageFilter:
    """Whose messages: those of the group that asks, or for operators all."""
    group = producer_group(call) if call.header(b"x-producer-group") else None
    if group is None:
        call.identity.require("operate", call.names["topic"])
    ids = None if asked.ids is None else tuple(check_batch(asked.ids, "ids"))
    wanted = MessageFilter(asked.status, asked.from_ms, asked.to_ms, asked.id_prefix or None, ids)
    if wanted == MessageFilter() and change.expect is None and not change.dry_run:
        raise Invalid("a filter without a condition holds all messages of the topic: say how many by expect", field="expect")
    wanted = msgspec.structs.replace(wanted, producer_group=group)
    shown = {name: value for name, value in msgspec.structs.asdict(wanted).items() if value is not None}
    call.act.detail["filter"] = shown | ({"ids": list(ids[:MOST_IDS_AUDITED])} if ids else {})
    return wanted


def _deleted(message_id: str | None, status: Any) -> DeletedView:
    return DeletedView(message_id, status)
