"""The decisions of topics, as pure functions: status, rights, instants, buckets.

SQL checks the same conditions again inside each statement. What is decided here explains an answer that has been given,
never replaces the check. The order of evaluation is part of the rules.
"""

from collections.abc import Sequence
from zlib import crc32

import msgspec

from meantime.errors import Forbidden, Invalid
from meantime.names import has_nul
from meantime.readable import human
from meantime.topics.model import MessageStage, Position, RetryPolicy, Settings

MIN_AHEAD_MS = 5
"""A lease that ends sooner would be over before its holder gets it."""
MOST_REASON = 1_000
"""Characters of the reason for which a message is given back."""

WAITING, PROCESSING, AVAILABLE, DEAD = "waiting", "processing", "available", "dead"
OF_APPLICATIONS = ("retry", "dead", "periodic")
"""`<application>.retry` and so on are topics of an application: its workers run what lies there."""
OK, NOT_FOUND, FORBIDDEN, LEASED = "ok", "not_found", "forbidden", "leased"
NOT_HOLDER, STALE_VERSION, EXPIRED, INVALID_TIME = "not_holder", "stale_version", "expired", "invalid_time"


def application_of(topic: str) -> str | None:
    """The application that a topic belongs to, if its name says so."""
    application, _, purpose = topic.rpartition(".")
    return application if application and purpose in OF_APPLICATIONS else None


def check_producer(topic: str, group: str) -> None:
    """Who may put messages into a topic: everybody, or the one application that it belongs to."""
    application = application_of(topic)
    if application is not None and group != application:
        raise Forbidden(
            f"topic {topic!r} belongs to the application {application!r}: only its group may put messages there, "
            f"not {group!r}"
        )


def status(message: Position, now_ms: int) -> str:
    """The past comes first: a message whose lease has ended is available, whichever consumer held it."""
    if message.stage == MessageStage.DEAD or (message.stage == MessageStage.LAST and message.at_ms <= now_ms):
        return DEAD
    if message.at_ms <= now_ms:
        return AVAILABLE
    return WAITING if message.lock_consumer_id is None else PROCESSING


def leased(message: Position, now_ms: int) -> bool:
    return message.lock_consumer_id is not None and message.at_ms > now_ms


def holds(message: Position, consumer_id: str | None, now_ms: int) -> bool:
    return consumer_id is not None and message.lock_consumer_id == consumer_id and leased(message, now_ms)


def may_read(message: Position, group: str | None, consumer_id: str | None, now_ms: int) -> bool:
    """The owner always, the present holder of a lease, nobody else."""
    return (group is not None and message.producer_group == group) or holds(message, consumer_id, now_ms)


def judge_owner(message: Position | None, group: str, version: int | None, now_ms: int) -> str:
    """May `group` move or delete it? A lease is a contract that the owner cannot break either."""
    if message is None:
        return NOT_FOUND
    if message.producer_group != group:
        return FORBIDDEN
    if message.stage == MessageStage.GONE:
        return NOT_FOUND
    if version is not None and message.version != version:
        return STALE_VERSION
    return LEASED if leased(message, now_ms) else OK


def judge_holder(message: Position | None, consumer_id: str, version: int | None, now_ms: int) -> str:
    """May `consumer_id` extend, release or delete it?"""
    if message is None or message.stage == MessageStage.GONE:
        return NOT_FOUND
    if message.lock_consumer_id != consumer_id:
        return NOT_HOLDER
    if message.version != version:
        return STALE_VERSION
    return OK if message.at_ms > now_ms else EXPIRED


def deleted_by(message: Position, consumer_id: str, version: int) -> bool:
    """Whether it was deleted by this holder of this lease."""
    gone = message.stage == MessageStage.GONE
    return gone and message.lock_consumer_id == consumer_id and message.version == version + 1


def instant(at_ms: int | None, after_ms: int | None, now_ms: int) -> int:
    """Exactly one of the two; the past means now."""
    if (at_ms is None) == (after_ms is None):
        raise Invalid("give exactly one of at_ms and after_ms")
    wanted = at_ms if at_ms is not None else now_ms + (after_ms or 0)
    return max(wanted, now_ms)


def position(at_ms: int | None, after_ms: int | None, settings: Settings, now_ms: int) -> int:
    """Where the owner may put a message: within the topic's horizon."""
    wanted = instant(at_ms, after_ms, now_ms)
    if wanted > now_ms + settings.max_future_ms:
        raise Invalid(
            f"the instant lies more than {human(settings.max_future_ms / 1000)} ahead, which is all that this topic takes",
            max_future_ms=settings.max_future_ms,
        )
    return wanted


def retry_policy(settings: Settings) -> RetryPolicy:
    """That of the topic; nothing goes beyond its horizon."""
    return msgspec.structs.replace(settings.retry, max_ms=min(settings.retry.max_ms, settings.max_future_ms))


def check_reason(reason: str | None) -> None:
    """It is shown to whoever gets the message next, and stored with it."""
    if reason and len(reason) > MOST_REASON:
        raise Invalid(
            f"reason has {len(reason)} characters; at most {MOST_REASON} are taken", field="reason", maximum=MOST_REASON
        )
    if reason and has_nul(reason):
        raise Invalid("reason must not contain the character U+0000: it cannot be stored", field="reason")


def consumer_instant(at_ms: int | None, after_ms: int | None, limit_ms: int, now_ms: int) -> int | None:
    """Where a holder may put its lease or its message; None is no instant that can be used."""
    if (at_ms is None) == (after_ms is None):
        return None
    wanted = at_ms if at_ms is not None else now_ms + (after_ms or 0)
    return wanted if now_ms + MIN_AHEAD_MS <= wanted <= now_ms + limit_ms else None


def bucket_of(message_id: str, bucket_count: int) -> int:
    """The same id is always in the same bucket, on every node."""
    return crc32(message_id.encode()) % bucket_count


def bucket_slices(bucket_count: int, consumers: Sequence[str]) -> dict[str, tuple[int, int]]:
    """Balanced slices (first, last) of the buckets, by the sorted names; with more consumers than buckets some have none."""
    names = sorted(set(consumers))
    borders = [index * bucket_count // len(names) for index in range(len(names) + 1)] if names else []
    return {name: (first, end - 1) for name, first, end in zip(names, borders, borders[1:], strict=False) if first < end}


def interleave(rooms: Sequence[int], limit: int) -> list[int]:
    """Whose turn it is, message by message: indexes into `rooms`, each as often as it has room, all in turn."""
    turns: list[int] = []
    left = [index for index, room in enumerate(rooms) if room > 0]
    given = 0
    while left and len(turns) < limit:
        # All that are left have their turn as often as the one with the least room.
        least = min(rooms[index] for index in left)
        turns += left * min(least - given, -(-(limit - len(turns)) // len(left)))
        given = least
        left = [index for index in left if rooms[index] > given]
    return turns[:limit]
