"""`/timers`: call me back at this second. A timer may have any name, also that of a page of timers: `load`, `status`."""

from collections import Counter
from contextlib import suppress
from functools import partial
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from meantime.access.authorization import WRITERS
from meantime.api.bodies import Takes, raw
from meantime.api.call import HttpCall
from meantime.api.rights import require_in_lists
from meantime.errors import Malformed, NotFound
from meantime.names import IDENTIFIER
from meantime.timers.request_parsing import MOST_AT_ONCE, TimerForm
from meantime.timers.requesting import LATEST
from meantime.timers.rules import event_type_of
from meantime.timers.status import TimersStatus

Second = Annotated[int, Meta(extra_json_schema={"minimum": 0, "maximum": LATEST - 1})]
Border = Annotated[int, Meta(extra_json_schema={"minimum": 0, "maximum": LATEST})]


class TimerView(msgspec.Struct, frozen=True):
    """A timer: its token and its second."""

    token: str
    at: int


class KnownTimerView(TimerView, frozen=True, omit_defaults=True):
    """What became of it; `reason` says why it was rejected."""

    state: Literal["pending", "fired", "cancelled", "rejected"]
    fired_at_ms: int | None = None
    reason: str | None = None


class SetTimersView(msgspec.Struct, frozen=True):
    """Token and second of the one timer that was sent, or `results` for many, in their order."""

    token: str | UnsetType = UNSET
    at: int | UnsetType = UNSET
    results: list[TimerView] | UnsetType = UNSET


class TimerSlot(msgspec.Struct, frozen=True, rename={"start": "from"}, omit_defaults=True):
    start: int
    pending: int
    planned: int = 0


class Load(msgspec.Struct, frozen=True):
    slots: list[TimerSlot]


class NewTimerForm(TimerForm, forbid_unknown_fields=True):
    """A timer. `at` is a Unix second, `after` seconds from now; the callback is a text, any other JSON, or bytes."""

    callback_topic: Annotated[str, Meta(extra_json_schema={"minLength": 1})] | None = None
    at: Annotated[int | float, Meta(extra_json_schema={"minimum": 0, "exclusiveMaximum": LATEST})] | None = None
    after: Annotated[int | float, Meta(extra_json_schema={"exclusiveMinimum": -LATEST})] | None = None
    callback_b64: Annotated[str, Meta(extra_json_schema={"contentEncoding": "base64"})] | None = None
    token: Annotated[str, Meta(extra_json_schema={"pattern": f"^{IDENTIFIER.pattern}$"})] | None = None


def _required(name: str, kind: str) -> dict[str, Any]:
    return {"required": [name], "properties": {name: {"type": kind}}}


_ONE = {"allOf": [_required("callback_topic", "string")], "oneOf": [_required("at", "number"), _required("after", "number")]}
OneTimer = Annotated[NewTimerForm, Meta(extra_json_schema=_ONE)]


class NewTimersForm(NewTimerForm, forbid_unknown_fields=True):
    """One timer, or many in `timers`, which goes before all else."""

    timers: Annotated[list[OneTimer], Meta(extra_json_schema={"minItems": 1, "maxItems": MOST_AT_ONCE})] | UnsetType = UNSET


SET: Takes = raw(Annotated[NewTimersForm, Meta(extra_json_schema={"anyOf": [{"required": ["timers"]}, _ONE]})])


class TimerQuery(msgspec.Struct, forbid_unknown_fields=True):
    at: Second | None = None


class LoadQuery(TimerQuery, forbid_unknown_fields=True):
    start: Border | None = msgspec.field(name="from", default=None)
    end: Border | None = msgspec.field(name="to", default=None)
    step: Annotated[int, Meta(extra_json_schema={"minimum": 1})] | None = None


async def set_timers(call: HttpCall[bytes, None]) -> SetTimersView:
    """Set a timer, or many

    `{at│after, callback_topic, callback_key?, callback│callback_b64?, token?}`, or `{"timers": [...]}` for up to 10,000.
    Answered once Kafka has them. If any entry is bad, none is taken. A Kafka topic or an event type that does not exist is
    404 (in a batch 422, as any bad entry), an event that its event type would not take 422. Topics of timelines and of the
    system are nobody's callback topic.
    """
    asked = await call.services.timers.requests.set(call.form, partial(_require_callback, call))
    results = [TimerView(new.timer.token, new.timer.second) for new in asked.timers]
    return SetTimersView(results=results) if asked.batch else SetTimersView(results[0].token, results[0].at)


async def _require_callback(call: HttpCall[bytes, None], topic: str) -> None:
    """Whoever has a topic called back writes into it. That there is no such event type is said later, to who may publish."""
    event_type = event_type_of(topic)
    if event_type is None:
        call.identity.require("callback", topic)
        return
    call.identity.require("publish", event_type)
    with suppress(NotFound):
        await require_in_lists(call, event_type, WRITERS)


async def cancel_timer(call: HttpCall[None, TimerQuery]) -> TimerView:
    """Cancel a timer

    409 `already_fired` when it is too late. A token of one's own may need `at`, its second.
    """
    timer = await call.services.timers.requests.cancel(call.names["token"], call.query.at)
    return TimerView(timer.token, timer.second)


async def show_timer(call: HttpCall[None, TimerQuery]) -> KnownTimerView:
    """What became of a timer

    `pending`, `fired`, `cancelled` or `rejected`; known until some time after its second. A timer that is called `load` or
    `status`, as a page of timers is, is shown where its second is given.
    """
    return await _shown(call, call.names["token"])


async def load_timers(call: HttpCall[None, LoadQuery]) -> Load | KnownTimerView:
    """How many timers are pending, slot by slot

    Half-open slots of `step` seconds from `from` to `to`, at most 10,000; every slot is listed. `planned` are firings of
    schedules that are no timers yet. With `at` instead: the timer of that second that is called `load`.
    """
    asked = call.query
    if asked.at is not None:
        return await _shown(call, "load")
    if asked.start is None or asked.end is None or asked.step is None:
        raise Malformed("give from, to and step, in seconds")
    slots = await call.services.timers.requests.load(asked.start, asked.end, asked.step)
    spans = (asked.start * 1000, asked.end * 1000, asked.step * 1000)
    planned = await call.services.schedules.forecast.of_timers(*spans) if slots else Counter[int]()
    return Load([TimerSlot(start, pending, planned[place]) for place, (start, pending) in enumerate(slots)])


async def timers_status(call: HttpCall[None, TimerQuery]) -> TimersStatus | KnownTimerView:
    """How the oscillator, the Spark job, dispatchers and the ledger are

    With `at`: the timer of that second that is called `status`.
    """
    if call.query.at is not None:
        return await _shown(call, "status")
    return await call.services.timers.monitor.status()


async def _shown(call: HttpCall[Any, Any], token: str) -> KnownTimerView:
    known = await call.services.timers.requests.show(token, call.query.at)
    state: Any = known.state.word
    return KnownTimerView(known.token, known.second, state, known.fired_at_ms, known.reason)
