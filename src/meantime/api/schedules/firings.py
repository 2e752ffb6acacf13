"""`/schedules/{id}/firings`, `/fire` and `/backfill`: what became of instants, and firing by hand."""

from functools import partial

from msgspec import UNSET

from meantime.api.call import HttpCall
from meantime.api.rights import require_target
from meantime.api.schedules.forms import MOST_LISTED, BackfillForm, FireForm, FiringsQuery
from meantime.api.schedules.views import FiredView, FiringsView, FiringView, FiringWord
from meantime.errors import Invalid
from meantime.schedules.model import Firing, FiringState
from meantime.schedules.rules import LATEST_MS

_WORDS: dict[FiringState, FiringWord] = {
    FiringState.SETTING: "planned",
    FiringState.FIRED: "fired",
    FiringState.SKIPPED: "skipped",
    FiringState.MISSED: "missed",
    FiringState.CANCELLED: "cancelled",
    FiringState.CANCELLING: "cancelled",
}


async def list_firings(call: HttpCall[None, FiringsQuery]) -> FiringsView:
    """What became of the instants of a schedule

    Newest first, from `from_ms` on and before `to_ms`: `planned` is set and not due yet, `fired`, `skipped` because the
    message before is still there, `missed` because nobody could fire it in time, `cancelled` because the schedule was
    changed, paused or deleted. About the last thousand are remembered, each for an hour at least and 90 days at most.
    """
    query, schedules = call.query, call.services.schedules
    if not 1 <= query.limit <= MOST_LISTED:
        raise Invalid(f"limit must be from 1 to {MOST_LISTED}", field="limit")
    from_ms = 0 if query.from_ms is None else query.from_ms
    to_ms = LATEST_MS if query.to_ms is None else query.to_ms
    for field, value in (("from_ms", from_ms), ("to_ms", to_ms)):
        if not 0 <= value <= LATEST_MS:
            raise Invalid(f"{field} must be from 0 to {LATEST_MS}", field=field)
    schedule = await schedules.changing.get(call.names["id"])
    found = await schedules.store.firings(schedule.id, from_ms, to_ms, query.limit)
    now_ms = schedules.clock.now_ms()
    return FiringsView([_view(firing, now_ms) for firing in found])


def _view(firing: Firing, now_ms: int) -> FiringView:
    state = _WORDS[firing.state]
    if state == "fired" and firing.due_at_ms > now_ms:
        state = "planned"
    fired = firing.state in (FiringState.FIRED, FiringState.SETTING)
    of_topic = firing.target.startswith("topic:")
    return FiringView(
        at_ms=firing.at_ms,
        due_at_ms=firing.due_at_ms,
        state=state,
        why=firing.why,
        id=firing.target_id if of_topic else UNSET,
        token=UNSET if of_topic else firing.target_id,
        version=firing.version,
        created_at_ms=firing.created_at_ms,
        lateness_ms=max(0, firing.created_at_ms - firing.due_at_ms) if fired else 0,
    )


async def fire(call: HttpCall[FireForm, None]) -> FiredView:
    """Fire a schedule now

    Also while it is paused. `at_ms` (now) is the instant that the firing is named after: the same again is the same firing.
    """
    done = await call.services.schedules.changing.fire(call.names["id"], call.form.at_ms, partial(require_target, call))
    call.act.done, call.act.count = bool(done.instants), len(done.instants)
    return FiredView(count=len(done.instants), at_ms=done.instants, skipped=done.skipped)


async def backfill(call: HttpCall[BackfillForm, None]) -> FiredView:
    """Fire what a schedule has missed

    The instants of its calendar from `from_ms` on and before `to_ms` that were not fired, at most 1,000, all of them now.
    With `dry_run` nothing is done but said.
    """
    form, changing = call.form, call.services.schedules.changing
    require = partial(require_target, call)
    done = await changing.backfill(call.names["id"], form.from_ms, form.to_ms, bool(form.dry_run), require)
    call.act.done, call.act.count = bool(done.instants) and not form.dry_run, len(done.instants)
    call.act.detail = {"from_ms": form.from_ms, "to_ms": form.to_ms}
    return FiredView(count=len(done.instants), at_ms=done.instants, skipped=done.skipped)
