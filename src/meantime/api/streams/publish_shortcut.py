"""A short way for the hottest route, `POST /event-types/{name}/events`, past the framework's machinery.

It answers exactly as the route in `publishing` does, which stays in the route table and in the schema; everything else goes
on to the application. Measured with batches of 100 events of 200 bytes, the framework's part of such a request was a
fifth of the node's time.
"""

from typing import Any

from meantime.access.scopes import Identity
from meantime.api.edge import App, Message, Receive, Send
from meantime.api.problems import MEDIA_TYPE, Rendered, rendered, rendered_bug
from meantime.api.streams.publishing import publish_batch
from meantime.errors import MeantimeError, Unauthenticated
from meantime.streams.publishing.publisher import Publisher

PREFIX, SUFFIX = "/event-types/", "/events"
ROUTE = "/event-types/{name}/events"

Answer = tuple[int, bytes, bytes, tuple[tuple[bytes, bytes], ...]]
"""Status, media type, body and further headers."""


class PublishShortcut:
    """An ASGI application before another one, inside the edge."""

    def __init__(self, app: App, publisher: Publisher) -> None:
        self._app = app
        self._publisher = publisher

    async def __call__(self, scope: Any, receive: Receive, send: Send) -> None:
        name = _event_type(scope)
        if name is None:
            await self._app(scope, receive, send)
            return
        scope["path_template"] = ROUTE
        try:
            answer = await self._publish(name, scope, receive)
        except MeantimeError as error:
            answer = _problem(rendered(error))
        except Exception as error:
            answer = _problem(rendered_bug("POST", scope["path"], error))
        await _send(answer, send)

    async def _publish(self, name: str, scope: Any, receive: Receive) -> Answer:
        identity = scope["state"].get("identity")
        if not isinstance(identity, Identity):
            raise Unauthenticated()
        identity.require("publish", name)
        status, body = await publish_batch(self._publisher, name, await _body(receive))
        return status, b"application/json", body, ()


def _event_type(scope: Any) -> str | None:
    """The event type to publish to; None when the request is for another route."""
    path: str = scope["path"]
    if scope["method"] != "POST" or not (path.startswith(PREFIX) and path.endswith(SUFFIX)):
        return None
    name = path[len(PREFIX) : -len(SUFFIX)]
    return name if name and "/" not in name else None


async def _body(receive: Receive) -> bytes:
    first: Message = await receive()
    if not first.get("more_body", False):
        return bytes(first.get("body", b""))
    pieces = [first.get("body", b"")]
    more = True
    while more:
        message = await receive()
        pieces.append(message.get("body", b""))
        more = message.get("more_body", False)
    return b"".join(pieces)


def _problem(answer: Rendered) -> Answer:
    headers = tuple((name.lower().encode(), value.encode()) for name, value in answer.headers.items())
    return answer.status, MEDIA_TYPE.encode(), answer.body, headers


async def _send(answer: Answer, send: Send) -> None:
    status, media_type, body, more = answer
    headers = [(b"content-type", media_type), (b"content-length", str(len(body)).encode()), *more]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
