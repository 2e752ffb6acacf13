"""`/timers`: call me back at this second."""

from typing import Annotated, Any

import msgspec
from litestar import Response, delete, get, post
from litestar.params import Dependency, FromPath, FromQuery, QueryParameter

from meantime.api.identity import AnyRequest, allow
from meantime.timers.slice import Timers
from meantime.timers.status import TimersStatus

TheTimers = Annotated[Timers, Dependency(skip_validation=True)]


class TimerView(msgspec.Struct, frozen=True, omit_defaults=True):
    """A timer: its token and its second; how it stands, where that is asked for."""

    token: str
    at: int
    state: str = ""
    fired_at_ms: int | None = None


class Slot(msgspec.Struct, frozen=True, rename={"start": "from"}):
    start: int
    pending: int


class Load(msgspec.Struct, frozen=True):
    slots: list[Slot]


@post("/timers", tags=["timers"], summary="Set a timer, or many", status_code=202)
async def set_timers(request: AnyRequest, timers: TheTimers) -> Response[Any]:
    """`{at│after, callback_topic, callback_key?, callback│callback_b64?, token?}`, or `{"timers": [...]}` for up to 10,000.
    Answered once Kafka has them. If any entry is bad, none is taken."""
    allow(request, "timers")
    asked = await timers.set(await request.body())
    results = [TimerView(wish.timer.token, wish.timer.second) for wish in asked.wishes]
    return Response({"results": results} if asked.batch else results[0], status_code=202)


@delete("/timers/{token:str}", tags=["timers"], summary="Cancel a timer", status_code=202)
async def cancel_timer(
    request: AnyRequest, timers: TheTimers, token: FromPath[str], at: FromQuery[int | None] = None
) -> TimerView:
    """409 `already_fired` when it is too late. A token of one's own may need `at`, its second."""
    allow(request, "timers")
    timer = await timers.cancel(token, at)
    return TimerView(timer.token, timer.second)


@get("/timers/{token:str}", tags=["timers"], summary="What became of a timer")
async def show_timer(
    request: AnyRequest, timers: TheTimers, token: FromPath[str], at: FromQuery[int | None] = None
) -> TimerView:
    """`pending`, `fired`, `cancelled` or `rejected`; known until some time after its second."""
    allow(request, "timers")
    standing = await timers.show(token, at)
    return TimerView(standing.token, standing.second, standing.state.word, standing.fired_at_ms)


@get("/timers/load", tags=["timers"], summary="How many timers are pending, slot by slot")
async def load_timers(
    request: AnyRequest,
    timers: TheTimers,
    start: Annotated[int, QueryParameter(name="from")],
    end: Annotated[int, QueryParameter(name="to")],
    step: FromQuery[int],
) -> Load:
    """Half-open slots of `step` seconds, at most 10,000; every slot is listed."""
    allow(request, "timers")
    return Load([Slot(start, pending) for start, pending in await timers.load(start, end, step)])


@get("/timers/status", tags=["timers"], summary="How the oscillator, the Spark job, dispatchers and the ledger are")
async def timers_status(request: AnyRequest, timers: TheTimers) -> TimersStatus:
    allow(request, "timers")
    return await timers.status()


ROUTES = [set_timers, cancel_timer, show_timer, load_timers, timers_status]
