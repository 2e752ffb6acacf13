"""Routes: what one row of the table says, and how a request finds its row."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any
from urllib.parse import parse_qs, unquote

import msgspec

from meantime.access.scopes import Identity
from meantime.api.bodies import Takes
from meantime.api.call import HttpCall
from meantime.api.http.exchange import HttpExchange
from meantime.errors import Malformed, MeantimeError, NotFound
from meantime.unknown_fields import misspelt

Names = Mapping[str, str]
Handler = Callable[[HttpCall[Any, Any]], Awaitable[Any]]


@dataclass(frozen=True, slots=True)
class Scope:
    """The right that a route asks for: a check of who asks, and its name for readers; `also` is asked next, and again while
    a stream is open."""

    text: str
    require: Callable[[Identity, Names, HttpExchange], None]
    also: "Callable[[HttpCall[Any, Any]], Awaitable[None]] | None" = None


def scope(verb: str, of: str | None = None, also: "Callable[[HttpCall[Any, Any]], Awaitable[None]] | None" = None) -> Scope:
    """`scope("read", of="name")` asks for `read:<the name in the path>`."""
    if of is None:
        return Scope(verb, lambda identity, _, __: identity.require(verb), also)
    return Scope(f"{verb}:{{{of}}}", lambda identity, names, _: identity.require(verb, names[of]), also)


@dataclass(frozen=True, slots=True)
class Route:
    """One row of the table. The first status of `answers` is that of a plain document; None is an answer without a body, and
    a tuple has one kind for each media type.

    Its summary is the first line of the handler's docstring, its description the rest. `scope` is None where nobody has to
    say who they are. `query` and `headers` are structs that describe what the handler reads besides the body.
    """

    method: str
    path: str
    scope: Scope | None
    handler: Handler
    answers: Mapping[int, Any]
    takes: Takes | None = None
    query: type[msgspec.Struct] | None = None
    headers: type[msgspec.Struct] | None = None
    streams: str = ""
    status: int = field(init=False)
    lists: frozenset[str] = field(init=False)
    no_query: Any = field(init=False)

    def __post_init__(self) -> None:
        fields = msgspec.structs.fields(self.query) if self.query else ()
        lists = frozenset(one.encode_name for one in fields if "list[" in str(one.type))
        object.__setattr__(self, "status", next(iter(self.answers)))
        object.__setattr__(self, "lists", lists)
        required = any(one.required for one in fields)
        object.__setattr__(self, "no_query", None if required or not self.query else self.query())

    def read_query(self, query: bytes) -> Any:
        if self.query is None:
            return None
        if not query and self.no_query is not None:
            return self.no_query
        given = parse_qs(query.decode("latin-1"), keep_blank_values=True)
        values = {name: found if name in self.lists else found[-1] for name, found in given.items()}
        try:
            return msgspec.convert(values, self.query, strict=False)
        except msgspec.ValidationError as error:
            raise misspelt(error, self.query) or Malformed(f"the query cannot be read: {error}") from error


class MethodNotAllowed(MeantimeError):
    """This address does not have this method."""

    code = "method_not_allowed"

    def __init__(self, method: str, allowed: list[str]) -> None:
        super().__init__(f"there is no {method} here, only {', '.join(allowed)}", allow=allowed)
        self.method = method
        self.allowed = allowed


_REMEMBERED, _SHORT = 1024, 256
"""Producers and consumers ask for the same few paths again and again: so many are remembered, if they are short."""


@dataclass(slots=True)
class _Node:
    children: dict[str, "_Node"] = field(default_factory=dict)
    named: "_Node | None" = None
    rest: "_Node | None" = None
    routes: dict[str, tuple[Route, tuple[str, ...]]] = field(default_factory=dict)


class Router:
    """A tree of path segments. A literal segment goes before a named one. Where it lacks the method, the named one is asked:
    a timer may be called `load`. Last comes a segment like `{path*}`, which is all that is left of the path, as it came."""

    def __init__(self, routes: "tuple[Route, ...] | list[Route]") -> None:
        self._root = _Node()
        for route in routes:
            self._add(route)
        self._find_again = lru_cache(_REMEMBERED)(self._find)

    def find(self, method: str, path: str) -> tuple[Route, Names]:
        """The route and the names in its path. Raises NotFound or MethodNotAllowed."""
        return self._find_again(method, path) if len(path) <= _SHORT else self._find(method, path)

    def _find(self, method: str, path: str) -> tuple[Route, Names]:
        segments = path.split("/")[1:]
        found: list[tuple[_Node, tuple[str, ...]]] = []
        self._walk(self._root, segments, 0, (), found)
        for node, values in found:
            entry = node.routes.get(method)
            if entry is not None:
                route, names = entry
                return route, dict(zip(names, values, strict=True))
        if found:
            raise MethodNotAllowed(method, sorted({name for node, _ in found for name in node.routes}))
        raise NotFound(f"there is nothing at {path}; /schema shows what there is")

    def _add(self, route: Route) -> None:
        node, names = self._root, []
        for segment in route.path.split("/")[1:]:
            if segment.endswith("*}"):
                names.append(segment[1:-2])
                node.rest = node = node.rest or _Node()
            elif segment.startswith("{"):
                names.append(segment[1:-1])
                node.named = node = node.named or _Node()
            else:
                node = node.children.setdefault(segment, _Node())
        if route.method in node.routes:
            raise ValueError(f"{route.method} {route.path} stands twice in the table")
        node.routes[route.method] = (route, tuple(names))

    def _walk(
        self, node: _Node, segments: list[str], at: int, values: tuple[str, ...], found: list[tuple[_Node, tuple[str, ...]]]
    ) -> None:
        if at == len(segments):
            if node.routes:
                found.append((node, values))
            return
        segment = segments[at]
        child = node.children.get(segment)
        if child is not None:
            self._walk(child, segments, at + 1, values, found)
        if node.named is not None and segment:
            name = unquote(segment) if "%" in segment else segment
            self._walk(node.named, segments, at + 1, (*values, name), found)
        if node.rest is not None:
            found.append((node.rest, (*values, "/".join(segments[at:]))))
