"""What clients of streams send and nobody knows: ignored, as Nakadi does, but named in the answer and once in the log.

Names are written as a header can hold them: letters beyond ASCII are percent-encoded.
"""

from collections.abc import Iterable
from itertools import islice
from typing import Any
from urllib.parse import parse_qs, quote

import msgspec
import structlog

from meantime.api.routing import Route
from meantime.unknown_fields import unknown_fields

log = structlog.get_logger(__name__)

MOST_NAMED = 20
LONGEST_NAME = 100
MOST_LOGGED = 1000

_logged: set[tuple[str, str, str]] = set()


def ignored_fields(route: Route, document: Any) -> list[str]:
    """Fields of a body: `options.retention`."""
    return [] if route.takes is None else _named(route, unknown_fields(document, route.takes.known))


def ignored_parameters(route: Route, query: bytes) -> list[str]:
    """Parameters of a query: `?batch_limt`."""
    if route.query is None:
        return []
    known = {field.encode_name for field in msgspec.structs.fields(route.query)}
    given = parse_qs(query.decode("latin-1"), keep_blank_values=True)
    return _named(route, (f"?{name}" for name in given if name not in known))


def _named(route: Route, found: Iterable[str]) -> list[str]:
    named = [quote(name[:LONGEST_NAME], safe="?._-$ ") for name in islice(dict.fromkeys(found), MOST_NAMED)]
    for name in named:
        one = (route.method, route.path, name)
        if one not in _logged and len(_logged) < MOST_LOGGED:
            _logged.add(one)
            log.warning("unknown_field_ignored", method=route.method, path=route.path, field=name)
    return named
