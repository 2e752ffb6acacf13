"""`/schedules`: make, change, list and delete schedules, pause and resume them, and say when they fire."""

from datetime import UTC, datetime, timedelta, timezone
from functools import partial
from itertools import islice
from typing import Any

from meantime.api.call import Answer, HttpCall
from meantime.api.rights import require_target
from meantime.api.schedules.forms import (
    MOST_LISTED,
    MOST_NEXT,
    ListQuery,
    NextQuery,
    PauseForm,
    PausePrefixForm,
    PrefixForm,
    PreviewForm,
    ScheduleForm,
)
from meantime.api.schedules.views import (
    ChangedScheduleView,
    NextsView,
    NextView,
    PausedView,
    SchedulesView,
    ScheduleView,
    TooLateView,
    changed_view,
    schedule_view,
)
from meantime.clock import rfc3339
from meantime.errors import Invalid
from meantime.names import is_identifier
from meantime.schedules.calendar import Calendar, Occurrence, calendar_of
from meantime.schedules.changing import Changed
from meantime.schedules.model import Schedule
from meantime.schedules.rules import LATEST_MS, check_note, previewed
from meantime.schedules.store import Filter

MADE = {201: ChangedScheduleView, 200: ChangedScheduleView}
DELETED = {204: None, 200: TooLateView}


async def put_schedule(call: HttpCall[ScheduleForm, None]) -> Answer:
    """Make a schedule, or change it

    One of `cron`, `every_ms` and `at_ms`, and a target; what is left out has its default, but `paused` and `note` stay as
    they are. 201 new, 200 the same or changed. What was set ahead by the version before is taken back; `too_late` are the
    instants for which that was not possible any more. `version` is compare-and-set: 409 `stale_version`.
    """
    require = partial(require_target, call)
    changed = await call.services.schedules.changing.put(call.names["id"], call.form, require)
    call.act.action = "create" if changed.new else "update"
    call.act.detail = {"version": changed.schedule.version, "target": changed.schedule.declaration.target.label}
    return Answer(201 if changed.new else 200, await _changed(call, changed))


async def get_schedule(call: HttpCall[None, None]) -> ScheduleView:
    """A schedule"""
    found = await call.services.schedules.changing.get(call.names["id"])
    now_ms = call.services.schedules.clock.now_ms()
    last = await call.services.schedules.store.last_fired([found.id], now_ms)
    return schedule_view(found, last[found.id], now_ms, with_body=_sees_body(call, found.id))


async def delete_schedule(call: HttpCall[None, None]) -> Answer:
    """Delete a schedule

    204; again is fine. What was set ahead is taken back; where that was too late, 200 says for which instants.
    """
    too_late = await call.services.schedules.changing.delete(call.names["id"], partial(require_target, call))
    return Answer(200, TooLateView(too_late)) if too_late else Answer(204)


async def list_schedules(call: HttpCall[None, ListQuery]) -> SchedulesView:
    """The schedules that the caller may see

    Ordered by id, from the one after `after`; `next` continues the list. `moved` are those whose firings another release of
    the time zone data has moved.
    """
    query = call.query
    if not 1 <= query.limit <= MOST_LISTED:
        raise Invalid(f"limit must be from 1 to {MOST_LISTED}", field="limit")
    for field in ("prefix", "after"):
        text = getattr(query, field)
        if text and not is_identifier(text):
            raise Invalid(f"{field} is the beginning of a name, or empty", field=field)
    label = _label(query.target)
    wanted = Filter(query.prefix, label, query.paused, query.moved)
    found, last = await _visible(call, wanted, query.after, query.limit)
    now_ms = call.services.schedules.clock.now_ms()
    fired = await call.services.schedules.store.last_fired([one.id for one in found], now_ms)
    views = [schedule_view(one, fired[one.id], now_ms, with_body=_sees_body(call, one.id)) for one in found]
    return SchedulesView(views, last)


def _sees_body(call: HttpCall[Any, Any], schedule_id: str) -> bool:
    return call.identity.sees_bodies or call.identity.may("schedules", schedule_id)


async def _visible(
    call: HttpCall[None, ListQuery], wanted: Filter, after: str, limit: int
) -> tuple[list[Schedule], str | None]:
    """A page of what the caller may see, and after which id the next one begins."""
    found: list[Schedule] = []
    while page := await call.services.schedules.store.page(wanted, after, limit):
        for schedule in page:
            after = schedule.id
            if call.identity.may("schedules", schedule.id) or call.identity.may("look"):
                found.append(schedule)
                if len(found) == limit:
                    return found, after
        if len(page) < limit:
            break
    return found, None


def _label(target: str | None) -> str | None:
    if target is None:
        return None
    kind, _, name = target.partition(":")
    if kind not in ("topic", "event_type", "kafka_topic") or not name or "\x00" in name:
        raise Invalid("target is topic:<name>, event_type:<name> or kafka_topic:<name>", field="target")
    return target


async def preview(call: HttpCall[PreviewForm, None]) -> NextsView:
    """When a schedule would fire

    A body as for PUT, with `count` (10, at most 1,000) and `from_ms` (now); nothing is stored and no target is needed.
    `note` marks where a change of the clocks does something.
    """
    form = call.form
    calendar = calendar_of(previewed(form))
    return _nexts(call, calendar, 10 if form.count is None else form.count, form.from_ms)


async def next_firings(call: HttpCall[None, NextQuery]) -> NextsView:
    """When a schedule fires next

    By its calendar, whether it is paused or not: `at_ms` without jitter, with local time and UTC.
    """
    found = await call.services.schedules.changing.get(call.names["id"])
    calendar = calendar_of(found.declaration.recurrence)
    return _nexts(call, calendar, call.query.count, call.query.from_ms)


def _nexts(call: HttpCall[Any, Any], calendar: Calendar, count: int, from_ms: int | None) -> NextsView:
    if not 1 <= count <= MOST_NEXT:
        raise Invalid(f"count must be from 1 to {MOST_NEXT}", field="count")
    if from_ms is not None and not 0 <= from_ms <= LATEST_MS:
        raise Invalid(f"from_ms must be from 0 to {LATEST_MS}", field="from_ms")
    after_ms = call.services.schedules.clock.now_ms() if from_ms is None else from_ms - 1
    return NextsView([_next(occurrence) for occurrence in islice(calendar.after(after_ms), count)])


def _next(occurrence: Occurrence) -> NextView:
    zone = timezone(timedelta(seconds=occurrence.offset))
    local = datetime.fromtimestamp(occurrence.at_ms / 1000, UTC).astimezone(zone)
    return NextView(occurrence.at_ms, rfc3339(occurrence.at_ms), local.isoformat(timespec="milliseconds"), occurrence.note)


async def pause(call: HttpCall[PauseForm, None]) -> ChangedScheduleView:
    """Pause a schedule

    What was set ahead is taken back; `too_late` are the instants for which that was not possible any more.
    """
    changing = call.services.schedules.changing
    changed = await changing.pause(call.names["id"], call.form.note, partial(require_target, call))
    return await _changed(call, changed)


async def resume(call: HttpCall[None, None]) -> ChangedScheduleView:
    """Resume a schedule

    From now on; what was due in the meantime is not made up for.
    """
    changed = await call.services.schedules.changing.resume(call.names["id"], partial(require_target, call))
    return await _changed(call, changed)


async def pause_many(call: HttpCall[PausePrefixForm, None]) -> PausedView:
    """Pause all schedules whose names begin so

    Of those that the caller may see. If it may not write into the target of one of them, none is changed.
    """
    check_note(call.form.note)
    return await _all(call, call.form.prefix, paused=True)


async def resume_many(call: HttpCall[PrefixForm, None]) -> PausedView:
    """Resume all schedules whose names begin so

    Of those that the caller may see. If it may not write into the target of one of them, none is changed.
    """
    return await _all(call, call.form.prefix, paused=False)


async def _all(call: HttpCall[Any, None], prefix: str, *, paused: bool) -> PausedView:
    if prefix and not is_identifier(prefix):
        raise Invalid("prefix is the beginning of a name, or empty", field="prefix")
    changing = call.services.schedules.changing
    ids = [one for one in await changing.matching(prefix, not paused) if call.identity.may("schedules", one)]
    require = partial(require_target, call)
    for one in ids:
        await require(one, (await changing.get(one)).declaration.target)
    too_late: dict[str, list[int]] = {}
    for one in ids:
        changed = await (changing.pause(one, call.form.note, require) if paused else changing.resume(one, require))
        if changed.too_late:
            too_late[one] = changed.too_late
    call.act.done, call.act.count, call.act.detail = bool(ids), len(ids), {"prefix": prefix}
    return PausedView(len(ids), ids, too_late)


async def _changed(call: HttpCall[Any, Any], changed: Changed) -> ChangedScheduleView:
    call.act.done = not changed.same
    schedule, now_ms = changed.schedule, call.services.schedules.clock.now_ms()
    last = await call.services.schedules.store.last_fired([schedule.id], now_ms)
    return changed_view(schedule, changed.too_late, last[schedule.id], now_ms)
