"""Everything that can go wrong, as facts with stable codes.

A class carries a `code` that never changes, whether trying again can help (`retryable`), and a docstring that is its
message when no detail is given. Extras are what the caller needs next and reach the outside as they are. Adapters turn
driver errors into these; `api.problems` maps codes to HTTP statuses and `cli.exit_codes` to exit codes.

    MeantimeError
    ├── Malformed               the request cannot be read
    ├── Invalid                 the request can be read, but its values are wrong
    │   ├── BadCursor           a cursor is no position of its event type (`reason` says why)
    │   └── UnknownReference    it names something that does not exist
    ├── CursorsUnavailable      a stream cannot start at these cursors (`cursors` says where it can)
    ├── Unauthenticated         the caller is not known
    ├── Forbidden               the caller is known and not allowed
    ├── NotFound                there is no such thing
    │   └── UnknownTimer        no such timer was set, or it was long ago
    ├── Conflict                it exists already, or another caller is changing it
    │   ├── StaleVersion        it has changed since the caller read it
    │   ├── MessageLeased       a consumer has the lease of the message
    │   ├── VersionMoved        a compare-and-set came too late
    │   └── AlreadyFired        the timer cannot be cancelled any more
    ├── TooLarge                the body is over a stated limit
    ├── HeadersTooLarge         the headers are
    ├── BodyLate                the body did not arrive in time (retryable)
    ├── UnknownEncoding         the body has an encoding that is not supported
    ├── TooManyRequests         so many were refused that no more are looked at for a while (retryable)
    ├── Unavailable             not now; try again (retryable)
    │   ├── Degraded            this node does not trust its clock or its view of the cluster
    │   ├── BarrierTimeout      some nodes did not acknowledge a version in time
    │   ├── CoordinationLost    no ZooKeeper session
    │   ├── StorageUnavailable  PostgreSQL or Kafka does not answer
    │   └── Unreachable         no node answers the client
    ├── PublishFailed           some events of a batch were not published (`items` says which and why)
    ├── LeaseLost               the message is no longer leased to this consumer
    ├── CorruptRecord           a record in ZooKeeper cannot be read (`path` says where)
    ├── TimeLimitReached        a job took longer than it may
    ├── UnexpectedAnswer        the answer is not one of this API
    ├── MissingExtra            a part of the package is not installed (`extra` says which)
    └── StackError              the embedded stack cannot do what was asked
"""

from typing import Any, ClassVar

UNREADABLE = (ValueError, RecursionError)
"""What decoding may raise for bytes that anybody can have written: not the format, not UTF-8, out of range, too deep."""


class MeantimeError(Exception):
    """Something went wrong inside Meantime."""

    code: ClassVar[str] = "internal"
    retryable: ClassVar[bool] = False

    def __init__(self, detail: str | None = None, **extras: Any) -> None:
        self.detail = detail or (type(self).__doc__ or "").split("\n", maxsplit=1)[0]
        self.extras = extras
        super().__init__(self.detail)


class Malformed(MeantimeError):
    """The request cannot be read."""

    code = "malformed"


class Invalid(MeantimeError):
    """The request is not valid."""

    code = "invalid"


class BadCursor(Invalid):
    """The cursor is no position of this event type."""

    code = "bad_cursor"

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(detail, reason=reason)
        self.reason = reason


class UnknownReference(Invalid):
    """The request names something that does not exist."""

    code = "unknown_reference"


class CursorsUnavailable(MeantimeError):
    """The stream cannot start at these cursors."""

    code = "cursors_unavailable"


class Unauthenticated(MeantimeError):
    """Say who you are: send `Authorization: Bearer <key>`."""

    code = "unauthenticated"


class Forbidden(MeantimeError):
    """You are not allowed to do this."""

    code = "forbidden"


class NotFound(MeantimeError):
    """There is no such thing."""

    code = "not_found"


class UnknownTimer(NotFound):
    """There is no such timer."""

    code = "unknown"


class Conflict(MeantimeError):
    """It exists already, or another caller is changing it."""

    code = "conflict"


class VersionMoved(Conflict):
    """Another caller has changed it in the meantime."""

    code = "version_moved"


class StaleVersion(Conflict):
    """It has another version by now."""

    code = "stale_version"


class MessageLeased(Conflict):
    """A consumer has the lease of this message."""

    code = "leased"


class AlreadyFired(Conflict):
    """The timer has fired."""

    code = "already_fired"


class TooLarge(MeantimeError):
    """The request is over a limit."""

    code = "too_large"


class HeadersTooLarge(MeantimeError):
    """The request line and headers are too large."""

    code = "headers_too_large"


class BodyLate(MeantimeError):
    """The body did not arrive in time."""

    code = "body_late"
    retryable = True


class UnknownEncoding(MeantimeError):
    """Send the body as it is, or with Content-Encoding: gzip."""

    code = "unknown_encoding"


class TooManyRequests(MeantimeError):
    """Too many requests; wait as long as Retry-After says."""

    code = "too_many_requests"
    retryable = True


class Unavailable(MeantimeError):
    """Not possible right now; try again."""

    code = "unavailable"
    retryable = True


class Degraded(Unavailable):
    """This node is degraded and refuses what needs a trusted clock."""

    code = "degraded"


class BarrierTimeout(Unavailable):
    """Some nodes did not acknowledge the version in time."""

    code = "barrier_timeout"

    def __init__(self, version: int, missing: list[str], waited_for: float) -> None:
        names = ", ".join(missing)
        super().__init__(f"version {version} was not acknowledged within {waited_for:.1f} s by: {names}", missing=missing)
        self.version = version
        self.missing = missing


class CoordinationLost(Unavailable):
    """This node has no ZooKeeper session."""

    code = "coordination_lost"


class StorageUnavailable(Unavailable):
    """The storage does not answer."""

    code = "storage_unavailable"


class Unreachable(Unavailable):
    """No node answers."""

    code = "unreachable"


class PublishFailed(MeantimeError):
    """Some events were not published."""

    code = "publish_failed"


class LeaseLost(MeantimeError):
    """The message is no longer leased to this consumer; stop working on it."""

    code = "lease_lost"


class CorruptRecord(MeantimeError):
    """A record in ZooKeeper cannot be read."""

    code = "corrupt_record"


class TimeLimitReached(MeantimeError):
    """The job took longer than its time limit."""

    code = "time_limit"


class UnexpectedAnswer(MeantimeError):
    """The answer cannot be read."""

    code = "unexpected_answer"


class MissingExtra(MeantimeError):
    """A part of the package is not installed."""

    code = "missing_extra"


class StackError(MeantimeError):
    """The embedded stack cannot do that."""

    code = "stack"
