"""What a handler gets and what it gives: a call, and the answer to it."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Generic, TypeVar

import msgspec

from meantime.access.scopes import EVERYBODY, Identity
from meantime.api.http.exchange import HttpExchange
from meantime.api.services import Services

Form = TypeVar("Form")
Query = TypeVar("Query")

JSON = b"application/json"


class Act:
    """What a handler adds to what the audit log says of its call, see `acts`. `done` is False when nothing was changed."""

    __slots__ = ("action", "count", "detail", "done", "target")

    def __init__(self) -> None:
        self.done = True
        self.action = ""
        self.target = ""
        self.count: int | None = None
        self.detail: dict[str, Any] = {}


class HttpCall(Generic[Form, Query]):
    """A request whose rights are checked and whose body and query are decoded, as its row of the table says.

    `names` are those of the path. `form` is the body: an object of the form's type, a plain JSON object, or bytes; `ignored`
    are the fields in it that nobody knows. `still_allowed` are asked now and then while the answer is a stream, and one of
    them raises when it has to end.
    """

    __slots__ = (
        "act",
        "exchange",
        "flow_id",
        "form",
        "identity",
        "ignored",
        "names",
        "query",
        "services",
        "still_allowed",
    )

    form: Form
    query: Query

    def __init__(self, exchange: HttpExchange, names: Mapping[str, str], services: Services, flow_id: str) -> None:
        self.exchange = exchange
        self.names = names
        self.services = services
        self.flow_id = flow_id
        self.identity: Identity = EVERYBODY
        self.ignored: Sequence[str] = ()
        self.act = Act()
        self.still_allowed: list[Callable[[], Awaitable[Any]]] = []

    def header(self, name: bytes) -> str | None:
        """A header by its name in lower case."""
        value = self.exchange.headers.get(name)
        return None if value is None else value.decode("latin-1")


class Answer:
    """A status, a body and headers of its own. A document becomes JSON. `refusal` is the code under which it counts as
    refused; empty when it is not."""

    __slots__ = ("body", "headers", "media_type", "refusal", "status")

    def __init__(
        self,
        status: int,
        document: Any = None,
        *,
        headers: Mapping[str, str] | None = None,
        media_type: bytes = JSON,
        refusal: str = "",
    ) -> None:
        self.status = status
        self.body = b"" if document is None else document if type(document) is bytes else msgspec.json.encode(document)
        self.headers = headers
        self.media_type = media_type
        self.refusal = refusal
