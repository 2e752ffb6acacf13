"""Calls of topics, as producers and operators make them."""

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from meantime.errors import Invalid
from meantime.sdk.calls.call import JSON, Call, Response, body, fields, nothing, path, reading
from meantime.sdk.instants import Duration, Instant, milliseconds, unix_ms, when
from meantime.sdk.messages import (
    Consumer,
    Message,
    MessagePage,
    Moved,
    NewMessage,
    Outcome,
    Redriven,
    RetryPolicy,
    Scheduled,
    Slot,
    Topic,
)

read_results = reading(list[Scheduled], "results")
read_outcomes = reading(list[Outcome], "results")


@dataclass(frozen=True, slots=True)
class Draft:
    """A message for `schedule_many`: a body, when, and an id if it has a natural one."""

    body: Any
    at: Instant | None = None
    after: Duration | None = None
    id: str | None = None


def topics() -> Call[list[Topic]]:
    """All topics."""
    return Call("GET", path("topics"), reading(list[Topic], "topics"))


def topic(name: str) -> Call[Topic]:
    """One topic with its settings and counts."""
    return Call("GET", path("topics", name), reading(Topic))


def create_topic(
    name: str,
    *,
    bucket_count: int | None = None,
    max_future: Duration | None = None,
    max_lease: Duration | None = None,
    max_body_bytes: int | None = None,
    max_attempts: int | None = None,
    dead_letter_topic: str | None = None,
    dedupe: Duration | None = None,
    retry: RetryPolicy | Mapping[str, float] | None = None,
) -> Call[None]:
    """Make a topic or change its settings; what is not given keeps its value.

    >>> client.create_topic("reminders", max_attempts=5, dead_letter_topic="reminders.dead",
    ...                     retry={"delay_ms": 5000, "factor": 3})
    """
    document = fields(
        bucket_count=bucket_count,
        max_future_ms=_optional_ms(max_future),
        max_lease_ms=_optional_ms(max_lease),
        max_body_bytes=max_body_bytes,
        max_attempts=max_attempts,
        dead_letter_topic=dead_letter_topic,
        dedupe_ms=_optional_ms(dedupe),
        retry=retry,
    )
    return Call("PUT", path("topics", name), nothing, body(document), JSON)


def _optional_ms(duration: Duration | None) -> int | None:
    return None if duration is None else milliseconds(duration)


def delete_topic(name: str) -> Call[None]:
    """Delete a topic and all its messages."""
    return Call("DELETE", path("topics", name), nothing)


def schedule(
    topic: str, content: Any, *, at: Instant | None = None, after: Duration | None = None, id: str | None = None
) -> Call[Scheduled]:
    """Put a message on the timeline. With an id of your own the call can be repeated for ever and makes one message.

    `content` is anything that JSON can say, or bytes. A message whose instant has passed is due at once.

    >>> client.schedule("reminders", {"user": 7}, after=3600, id="user-7-welcome").status
    'created'
    """
    messages = [_new(Draft(content, at, after, id), *new_ids(1))]
    return Call("POST", path("topics", topic, "messages"), _one_result, body({"messages": messages}), JSON)


def schedule_many(topic: str, drafts: Sequence[Draft]) -> Call[list[Scheduled]]:
    """Schedule up to 10,000 messages at once; results come in the same order, bad entries as `invalid`.

    >>> [result.status for result in client.schedule_many("reminders", [Draft({"n": 1}, after=1)])]
    ['created']
    """
    return schedule_prepared(topic, [_new(draft, id) for draft, id in zip(drafts, new_ids(len(drafts)), strict=True)])


def schedule_prepared(topic: str, messages: Sequence[NewMessage]) -> Call[list[Scheduled]]:
    """`schedule_many` for messages in the form of the wire."""
    return Call("POST", path("topics", topic, "messages"), read_results, body({"messages": messages}), JSON)


def new_ids(count: int) -> list[str]:
    """Unique ids that begin with the time they were made: neighbours in time are neighbours in an index."""
    time_ms, chance = f"{time.time_ns() // 1_000_000:011x}", os.urandom(9 * count).hex()
    return [time_ms + chance[start : start + 18] for start in range(0, 18 * count, 18)]


def _new(draft: Draft, new_id: str) -> NewMessage:
    at_ms, after_ms = when(draft.at, draft.after)
    id = draft.id or new_id
    if isinstance(draft.body, bytes | bytearray | memoryview):
        return NewMessage(id, at_ms, after_ms, body_b64=bytes(draft.body))
    return NewMessage(id, at_ms, after_ms, body=draft.body)


def _one_result(answer: Response) -> Scheduled:
    result = read_results(answer)[0]
    if result.status == "invalid":
        raise Invalid(result.error or "the message was not taken", id=result.id)
    return result


def message(topic: str, id: str, *, consumer_id: str | None = None, all_groups: bool = False) -> Call[Message]:
    """Look at a message, as its owner, with `consumer_id` as the present holder of its lease, or with `all_groups` as an
    operator of the topic."""
    target = path("topics", topic, "messages", id, query={"consumer_id": consumer_id, "all": "true" if all_groups else None})
    # A holder does not speak for a producer group, and its key may not be allowed to.
    return Call("GET", target, reading(Message), headers={"X-Producer-Group": ""} if consumer_id else {})


def messages(topic: str, *, limit: int = 1000, after: str | None = None) -> Call[list[Message]]:
    """The messages of your producer group by id; `after` is the last id of the page before."""
    query = {"limit": limit, "after": after}
    return Call("GET", path("topics", topic, "messages", query=query), reading(list[Message], "messages"))


def all_messages(topic: str, *, limit: int = 1000, after: str | None = None) -> Call[MessagePage]:
    """The messages of all producer groups in the order of their instants, for operators of the topic; `after` is the `next`
    of the page before.

    >>> [(letter.id, letter.dead_letter["reason"]) for letter in client.all_messages("reminders.dead").messages]
    """
    query = {"limit": limit, "after": after, "all": "true"}
    return Call("GET", path("topics", topic, "messages", query=query), reading(MessagePage))


def move(
    topic: str, id: str, *, at: Instant | None = None, after: Duration | None = None, version: int | None = None
) -> Call[Moved]:
    """Move a message to another instant; with `version`, only if it has not changed since.

    >>> client.move("reminders", "user-7-welcome", after=7200)
    """
    at_ms, after_ms = when(at, after)
    document = fields(at_ms=at_ms, after_ms=after_ms, version=version)
    target = path("topics", topic, "messages", id)
    return Call("PATCH", target, reading(Moved), body(document), JSON, repeatable=version is None)


def delete_message(topic: str, id: str, *, version: int | None = None) -> Call[None]:
    """Take a message back; Conflict with code `leased` while a consumer is working on it."""
    return Call("DELETE", path("topics", topic, "messages", id, query={"version": version}), nothing)


def delete_messages(topic: str, ids: Sequence[str]) -> Call[list[Outcome]]:
    """Take many messages back; one outcome per id."""
    target = path("topics", topic, "messages", "delete")
    return Call("POST", target, read_outcomes, body({"ids": list(ids)}), JSON)


def load(topic: str, start: Instant, end: Instant, step: Duration) -> Call[list[Slot]]:
    """See the future: how many messages stand in each slot between two instants.

    >>> now = client.now()
    >>> [slot.total for slot in client.load("reminders", now, now + 3600, 60)]
    """
    query = {"from_ms": unix_ms(start), "to_ms": unix_ms(end), "step_ms": milliseconds(step)}
    return Call("GET", path("topics", topic, "load", query=query), reading(list[Slot], "slots"))


def count(topic: str, *, status: str | None = None, start: Instant | None = None, end: Instant | None = None) -> Call[int]:
    """How many messages there are, by status and range if given."""
    query: Mapping[str, object] = {
        "status": status,
        "from_ms": None if start is None else unix_ms(start),
        "to_ms": None if end is None else unix_ms(end),
    }
    return Call("GET", path("topics", topic, "count", query=query), reading(int, "count"))


def consumers(topic: str) -> Call[list[Consumer]]:
    """Who is connected, and which buckets each serves."""
    return Call("GET", path("topics", topic, "consumers"), reading(list[Consumer], "consumers"))


def redrive(topic: str, *, to: str | None = None, limit: int | None = None) -> Call[Redriven]:
    """Send dead messages back to the topics where they died, or `to` another, as if never tried; 10,000 at most."""
    return Call("POST", path("topics", topic, "redrive"), reading(Redriven), body(fields(to=to, limit=limit)), JSON)
