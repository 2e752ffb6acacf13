"""What a key may do, as pure decisions.

A scope is a verb, or a verb and a name in which `*` stands for anything:

    admin              everything
    publish:<name>     publish to these event types
    read:<name>        read these event types, also through subscriptions
    produce:<group>    act as these producer groups on topics, make their `<group>.retry`, `.dead` and `.periodic`
    consume:<topic>    lease messages of these topics
    timers             set, cancel and look up timers; a callback into an event type also needs `publish:<name>`
    callback:<topic>   set timers that call these Kafka topics back
    metrics            read the metrics of nodes
    apps               look at applications, reset and pause their queues

What no scope allows is denied. What may be done with one event type or subscription is narrowed by `authorization`.
"""

from dataclasses import dataclass
from fnmatch import fnmatchcase

from meantime.errors import Forbidden, Invalid

NAMED = ("publish", "read", "produce", "consume", "callback")
PLAIN = ("admin", "timers", "apps", "metrics")


def check_scope(scope: str) -> str:
    verb, _, name = scope.partition(":")
    if (verb in PLAIN and not name and scope == verb) or (verb in NAMED and name):
        return scope
    examples = ", ".join([*PLAIN, *(f"{verb}:<name>" for verb in NAMED)])
    raise Invalid(f"{scope!r} is not a scope; use one of: {examples}")


@dataclass(frozen=True, slots=True)
class Identity:
    """Who is asking. With authentication off everybody is `EVERYBODY`."""

    key_id: str | None
    scopes: frozenset[str]
    name: str = ""

    def may(self, verb: str, name: str | None = None) -> bool:
        if "admin" in self.scopes:
            return True
        if name is None:
            return verb in self.scopes
        return any(fnmatchcase(f"{verb}:{name}", pattern) for pattern in self.scopes if pattern.startswith(f"{verb}:"))

    def require(self, verb: str, name: str | None = None) -> None:
        if not self.may(verb, name):
            needed = verb if name is None else f"{verb}:{name}"
            raise Forbidden(f"this key lacks the scope {needed!r}", required_scope=needed)


EVERYBODY = Identity(key_id=None, scopes=frozenset({"admin"}))
