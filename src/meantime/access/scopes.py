"""What a key may do, as pure decisions.

A scope is a verb, or a verb and a name in which `*` stands for anything:

    admin              everything
    publish:<name>     publish to these event types
    read:<name>        read these event types, also through subscriptions
    produce:<group>    act as these producer groups on topics, make their `<group>.retry`, `.dead` and `.periodic`
    consume:<topic>    lease messages of these topics
    operate:<topic>    look at all messages of these topics, whoever owns them, and send dead ones back
    timers             set, cancel and look up timers; a callback into an event type also needs `publish:<name>`
    callback:<topic>   set timers that call these Kafka topics back
    schedules:<name>   look at these schedules and change them; a change also needs what the target needs: `produce:<group>`,
                       `publish:<name>`, or `timers` with `callback:<topic>`
    metrics            read the metrics of nodes
    apps               look at applications, reset and pause their queues
    look               look at everything that operators are shown, without the bodies of messages and events; change nothing
    look:bodies        the same with bodies

What no scope allows is denied. What may be done with one event type or subscription is narrowed by `authorization`.
"""

from dataclasses import dataclass
from fnmatch import fnmatchcase

from meantime.errors import Forbidden, Invalid

NAMED = ("publish", "read", "produce", "consume", "operate", "callback", "schedules")
PLAIN = ("admin", "timers", "apps", "metrics", "look", "look:bodies")


def check_scope(scope: str) -> str:
    verb, _, name = scope.partition(":")
    if scope in PLAIN or (verb in NAMED and name):
        return scope
    examples = ", ".join([*PLAIN, *(f"{verb}:<name>" for verb in NAMED)])
    raise Invalid(f"{scope!r} is not a scope; use one of: {examples}")


LOOK, LOOK_AT_BODIES = "look", "look:bodies"


@dataclass(frozen=True, slots=True)
class Identity:
    """Who is asking. With authentication off everybody is `EVERYBODY`."""

    key_id: str | None
    scopes: frozenset[str]
    name: str = ""

    def may(self, verb: str, name: str | None = None) -> bool:
        if "admin" in self.scopes:
            return True
        if verb == LOOK and name is None:
            return LOOK in self.scopes or LOOK_AT_BODIES in self.scopes
        if name is None:
            return verb in self.scopes
        return any(fnmatchcase(f"{verb}:{name}", pattern) for pattern in self.scopes if pattern.startswith(f"{verb}:"))

    @property
    def sees_bodies(self) -> bool:
        """As an onlooker; owners, consumers and readers see them by their own scopes."""
        return self.may(LOOK_AT_BODIES)

    def require(self, verb: str, name: str | None = None) -> None:
        if not self.may(verb, name):
            needed = verb if name is None else f"{verb}:{name}"
            raise Forbidden(f"this key lacks the scope {needed!r}", required_scope=needed)


EVERYBODY = Identity(key_id=None, scopes=frozenset({"admin"}))
