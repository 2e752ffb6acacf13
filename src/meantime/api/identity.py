"""Who is asking, as handlers see it: `allow(request, "publish", event_type)` and the names that callers give themselves.

The edge has put an `Identity` into the request's state before any handler runs.
"""

from typing import Any

from litestar import Request

from meantime.access.scopes import Identity
from meantime.errors import Unauthenticated
from meantime.names import check_identifier

AnyRequest = Request[Any, Any, Any]


def identity_of(request: AnyRequest) -> Identity:
    identity = request.scope["state"].get("identity")
    if not isinstance(identity, Identity):
        raise Unauthenticated()
    return identity


def allow(request: AnyRequest, verb: str, name: str | None = None) -> None:
    """Raise Forbidden unless the caller has the scope `verb` or `verb:name`."""
    identity_of(request).require(verb, name)


def producer_group(request: AnyRequest) -> str:
    """The group that the caller acts as; it must be allowed to produce as that group."""
    group = request.headers.get("X-Producer-Group")
    if not group:
        raise Unauthenticated("say which producer group you are: send the header X-Producer-Group")
    check_identifier(group, "producer group")
    allow(request, "produce", group)
    return group
