"""One call of the API as data: what to send, how to read the answer, and when it may be sent again.

Functions in `cluster`, `streams`, `cursors`, `subscriptions`, `topics`, `leases` and `timers` build calls; the clients
carry them out. A call that is `repeatable` changes nothing when it arrives twice; any other is sent again only if it surely
did not arrive.
"""

import os
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Generic, TypeVar, cast
from urllib.parse import quote, urlencode

import msgspec

from meantime.errors import MeantimeError, UnexpectedAnswer

T = TypeVar("T")

JSON = {"Content-Type": "application/json"}


@dataclass(frozen=True, slots=True)
class Response:
    """A response, however it was received. Names of headers are in lower case."""

    status: int
    headers: Mapping[str, str]
    content: bytes


@dataclass(frozen=True, slots=True)
class Call(Generic[T]):
    method: str
    path: str
    read: Callable[[Response], T]
    content: bytes | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    repeatable: bool = True
    #: Seconds that the node may keep the call waiting on purpose.
    wait_for: float = 0.0
    #: Seconds after which an answer is not waited for any more, where the client's own timeout would be too long.
    answer_for: float | None = None
    #: Seconds during which a 409 only means that an earlier connection of the same caller is not known to be gone yet.
    conflict_for: float = 0.0
    #: Turns a refusal into an error where it is not a problem document.
    refusal: Callable[[Response], MeantimeError | None] | None = None


def path(*parts: str, query: Mapping[str, object] | None = None) -> str:
    """`path("topics", "a", query={"version": 3})` is `/topics/a?version=3`; absent values are left out."""
    # Dots alone are a name like any other here, and would be a step up in a path.
    address = "".join(f"/{quote(part, safe='@:') if part.strip('.') else part.replace('.', '%2E')}" for part in parts)
    given = {name: value for name, value in (query or {}).items() if value is not None}
    return f"{address}?{urlencode(given)}" if given else address


def body(document: object) -> bytes:
    return msgspec.json.encode(document)


def fields(**values: Any) -> dict[str, Any]:
    """A JSON object without what was not given."""
    return {name: value for name, value in values.items() if value is not None}


def reading(kind: type[T], inside: str | None = None) -> Callable[[Response], T]:
    """A reader of JSON answers; `inside` names the member that holds the value, as in `reading(list[Topic], "topics")`."""

    def read(answer: Response) -> T:
        try:
            value: T = _decoder(cast(Hashable, kind), inside).decode(answer.content)
        except msgspec.MsgspecError as error:
            raise unreadable(answer, error) from error
        return getattr(value, inside) if inside else value

    return read


@lru_cache(maxsize=128)
def _decoder(kind: Hashable, inside: str | None) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(msgspec.defstruct("Wrapped", [(inside, kind)]) if inside else kind)


def unreadable(answer: Response, error: Exception) -> UnexpectedAnswer:
    sample = answer.content[:200].decode("utf-8", "replace")
    return UnexpectedAnswer(f"cannot read the answer ({error}); is this a Meantime node? It begins: {sample!r}")


def nothing(_: Response) -> None:
    """The reader of answers that say all with their status."""


def fresh_id() -> str:
    """A unique id: 128 random bits."""
    return os.urandom(16).hex()


def names(values: str | Sequence[str]) -> list[str]:
    return [values] if isinstance(values, str) else list(values)
