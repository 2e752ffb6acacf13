"""`/timers`: call me back at this second."""

from typing import Annotated, Any

import msgspec
from litestar import Response, delete, get, post
from litestar.params import FromPath, FromQuery, QueryParameter

from meantime.api.dependencies import TheTimers
from meantime.api.identity import AnyRequest, allow
from meantime.errors import Malformed
from meantime.timers.status import TimersStatus
from meantime.timers.timers import Timers


class TimerView(msgspec.Struct, frozen=True, omit_defaults=True):
    """A timer: its token and its second; its state, where that is asked for."""

    token: str
    at: int
    state: str = ""
    fired_at_ms: int | None = None


class TimerSlot(msgspec.Struct, frozen=True, rename={"start": "from"}):
    start: int
    pending: int


class Load(msgspec.Struct, frozen=True):
    slots: list[TimerSlot]


@post("/timers", tags=["timers"], summary="Set a timer, or many", status_code=202)
async def set_timers(request: AnyRequest, timers: TheTimers) -> Response[Any]:
    """`{at│after, callback_topic, callback_key?, callback│callback_b64?, token?}`, or `{"timers": [...]}` for up to 10,000.
    Answered once Kafka has them. If any entry is bad, none is taken."""
    allow(request, "timers")
    asked = await timers.requests.set(await request.body())
    results = [TimerView(new.timer.token, new.timer.second) for new in asked.timers]
    return Response({"results": results} if asked.batch else results[0], status_code=202)


@delete("/timers/{token:str}", tags=["timers"], summary="Cancel a timer", status_code=202)
async def cancel_timer(
    request: AnyRequest, timers: TheTimers, token: FromPath[str], at: FromQuery[int | None] = None
) -> TimerView:
    """409 `already_fired` when it is too late. A token of one's own may need `at`, its second."""
    return await _cancelled(request, timers, token, at)


@delete("/timers/load", include_in_schema=False, status_code=202)
async def cancel_timer_called_load(request: AnyRequest, timers: TheTimers, at: FromQuery[int | None] = None) -> TimerView:
    """A token may be any name, also that of a page of timers."""
    return await _cancelled(request, timers, "load", at)


@delete("/timers/status", include_in_schema=False, status_code=202)
async def cancel_timer_called_status(request: AnyRequest, timers: TheTimers, at: FromQuery[int | None] = None) -> TimerView:
    return await _cancelled(request, timers, "status", at)


async def _cancelled(request: AnyRequest, timers: Timers, token: str, at: int | None) -> TimerView:
    allow(request, "timers")
    timer = await timers.requests.cancel(token, at)
    return TimerView(timer.token, timer.second)


@get("/timers/{token:str}", tags=["timers"], summary="What became of a timer")
async def show_timer(
    request: AnyRequest, timers: TheTimers, token: FromPath[str], at: FromQuery[int | None] = None
) -> TimerView:
    """`pending`, `fired`, `cancelled` or `rejected`; known until some time after its second. A timer that is called `load`
    or `status`, as a page of timers is, is shown where its second is given."""
    return await _shown(request, timers, token, at)


async def _shown(request: AnyRequest, timers: Timers, token: str, at: int | None) -> TimerView:
    allow(request, "timers")
    known = await timers.requests.show(token, at)
    return TimerView(known.token, known.second, known.state.word, known.fired_at_ms)


@get("/timers/load", tags=["timers"], summary="How many timers are pending, slot by slot")
async def load_timers(
    request: AnyRequest,
    timers: TheTimers,
    start: Annotated[int | None, QueryParameter(name="from")] = None,
    end: Annotated[int | None, QueryParameter(name="to")] = None,
    step: FromQuery[int | None] = None,
    at: FromQuery[int | None] = None,
) -> Load | TimerView:
    """Half-open slots of `step` seconds, at most 10,000; every slot is listed."""
    if at is not None:
        return await _shown(request, timers, "load", at)
    allow(request, "timers")
    if start is None or end is None or step is None:
        raise Malformed("give from, to and step, in seconds")
    return Load([TimerSlot(start, pending) for start, pending in await timers.requests.load(start, end, step)])


@get("/timers/status", tags=["timers"], summary="How the oscillator, the Spark job, dispatchers and the ledger are")
async def timers_status(
    request: AnyRequest, timers: TheTimers, at: FromQuery[int | None] = None
) -> TimersStatus | TimerView:
    if at is not None:
        return await _shown(request, timers, "status", at)
    allow(request, "timers")
    return await timers.monitor.status()


ROUTES = [
    set_timers,
    cancel_timer,
    cancel_timer_called_load,
    cancel_timer_called_status,
    show_timer,
    load_timers,
    timers_status,
]
