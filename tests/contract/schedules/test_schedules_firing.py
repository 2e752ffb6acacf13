"""What is fired, once per instant, whoever leads: on a real PostgreSQL, pass by pass."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
from schedules_world import CALLS, NOW, TOPIC, SchedulesWorld, open_schedules_world

from conftest import Services
from meantime.errors import NotFound
from meantime.schedules.model import FiringState
from meantime.schedules.planning import AHEAD_MS, SLACK_MS
from meantime.topics.settings import SettingsChange

SECOND, MINUTE, HOUR = 1_000, 60_000, 3_600_000
AHEAD = range(NOW + SECOND, NOW + AHEAD_MS + SLACK_MS + 1, SECOND)
"""The instants that a pass sets for a schedule of every second."""


@pytest_asyncio.fixture
async def world(services: Services) -> AsyncIterator[SchedulesWorld]:
    async with open_schedules_world(services.postgres) as world:
        yield world


async def test_each_instant_of_the_next_minute_is_one_message_however_many_passes(world: SchedulesWorld) -> None:
    await world.put("tick", body={"n": "{{firing}}", "at": "{{scheduled_at}}"})
    assert await world.work() == len(AHEAD)
    assert await world.work() == 0
    assert await world.messages() == {f"s:tick@{at}": at for at in AHEAD}
    message = await world.topics.producing.any_message(TOPIC, f"s:tick@{AHEAD[1]}")
    assert (message.producer_group, message.body) == ("g", b'{"n":"2","at":"2027-01-15T08:00:02.000Z"}')
    shown = (await world.http.get(f"/topics/{TOPIC}/messages/s:tick@{AHEAD[1]}?all=true")).json()
    assert shown["schedule"] == {"id": "tick", "version": 1, "at_ms": AHEAD[1]}


async def test_a_former_leader_changes_nothing(world: SchedulesWorld) -> None:
    await world.put("tick")
    before = world.epoch
    await world.lead("another")
    assert await world.work(before) == 0
    assert await world.messages() == {}
    assert await world.work() == len(AHEAD)


async def test_two_leaders_at_once_make_each_message_once(world: SchedulesWorld) -> None:
    """Even if both had the same epoch: the revision of each schedule lets one of them win."""
    for number in range(20):
        await world.put(f"tick-{number}")
    done = await asyncio.gather(*(world.work() for _ in range(4)))
    assert sum(done) == 20 * len(AHEAD)
    assert len(await world.messages()) == 20 * len(AHEAD)


async def test_what_was_read_before_a_change_fires_nothing_after_it(world: SchedulesWorld) -> None:
    await world.put("tick")
    due = await world.schedules.store.due(NOW, 10)
    await world.put("tick", every_ms=2_000)
    leader: Any = world.schedules.leader
    assert await leader._fire(due, world.epoch, NOW) == (0, 0)
    await world.work()
    assert {one.version for one in await world.firings("tick")} == {2}


async def test_a_change_takes_back_what_is_ahead_and_the_new_version_fires_instead(world: SchedulesWorld) -> None:
    await world.put("tick", body=1)
    await world.work()
    world.clock.advance(10_500)
    changed = await world.put("tick", body=2)
    assert (changed["version"], changed["too_late"], changed["firings"]) == (2, [], 10)
    await world.work()
    versions = {one.at_ms: one.version for one in await world.firings("tick") if one.state is FiringState.FIRED}
    assert all(version == (1 if at <= NOW + 10 * SECOND else 2) for at, version in versions.items())
    assert list(versions) == list(range(NOW + SECOND, max(versions) + 1, SECOND))
    assert len(await world.messages()) == len(versions)


async def test_what_a_consumer_has_or_what_is_due_is_too_late_and_is_told(world: SchedulesWorld) -> None:
    await world.put("slow", every_ms=MINUTE, jitter_ms=0)
    await world.work()
    (at,) = (await world.messages()).values()
    await world.topics.producing.move(TOPIC, f"s:slow@{at}", "g", NOW, None, None)
    lease = await world.http.post(f"/topics/{TOPIC}/leases", json={"consumer_id": "c"})
    assert [one["id"] for one in lease.json()["leases"]] == [f"s:slow@{at}"]
    paused = await world.post("/schedules/slow/pause", note="stop")
    assert (paused["too_late"], paused["paused"], paused["note"]) == ([at], True, "stop")
    assert (await world.states("slow"))[at] is FiringState.FIRED


async def test_a_paused_schedule_fires_nothing_and_goes_on_from_its_resumption(world: SchedulesWorld) -> None:
    await world.put("tick")
    await world.work()
    await world.post("/schedules/tick/pause")
    assert await world.messages() == {}
    assert set((await world.states("tick")).values()) == {FiringState.CANCELLED}
    world.clock.advance(10 * MINUTE)
    assert await world.work() == 0
    resumed = await world.post("/schedules/tick/resume")
    assert (resumed["paused"], resumed["firings"], resumed["next_at_ms"]) == (False, 0, NOW + 10 * MINUTE + SECOND)
    await world.work()
    assert min((await world.messages()).values()) == NOW + 10 * MINUTE + SECOND


async def test_a_deleted_schedule_leaves_nothing_ahead_and_begins_anew_with_the_next_version(world: SchedulesWorld) -> None:
    await world.put("tick")
    await world.work()
    assert (await world.http.delete("/schedules/tick")).status_code == 204
    assert await world.messages() == {}
    assert (await world.http.delete("/schedules/tick")).status_code == 204
    assert (await world.http.delete("/schedules/never")).status_code == 404
    assert (await world.http.get("/schedules/tick")).status_code == 404
    assert await world.work() == 0
    again = await world.put("tick")
    assert (again["version"], again["firings"]) == (2, 0)
    assert await world.work() == len(AHEAD)


async def test_what_was_missed_is_made_up_for_as_the_schedule_says(world: SchedulesWorld) -> None:
    for policy in ("last", "all", "none"):
        await world.put(policy, every_ms=HOUR, missed=policy, missed_within_ms=3 * HOUR)
    world.clock.advance(4 * HOUR + 30 * MINUTE)
    await world.work()
    fired = {
        policy: [one.at_ms for one in await world.firings(policy) if one.state is FiringState.FIRED]
        for policy in ("last", "all", "none")
    }
    assert fired == {"last": [NOW + 4 * HOUR], "all": [NOW + hours * HOUR for hours in (2, 3, 4)], "none": []}
    assert set((await world.messages()).values()) == {NOW + 4 * HOUR + 30 * MINUTE}
    missed = [one for one in await world.firings("none") if one.state is FiringState.MISSED]
    assert [one.at_ms for one in missed] == [NOW + hours * HOUR for hours in (1, 2, 3, 4)]


async def test_a_message_that_is_still_there_keeps_the_next_from_coming(world: SchedulesWorld) -> None:
    await world.put("alone", every_ms=10 * SECOND, overlap="skip")
    for _ in range(3):
        world.clock.advance(10 * SECOND)
        await world.work()
    states = await world.states("alone")
    assert list(states.values()) == [FiringState.FIRED, FiringState.SKIPPED, FiringState.SKIPPED]
    (message,) = await world.messages()
    await world.topics.producing.delete(TOPIC, message, "g", None)
    world.clock.advance(10 * SECOND)
    await world.work()
    assert list((await world.states("alone")).values())[-1] is FiringState.FIRED


async def test_no_more_are_fired_than_are_allowed(world: SchedulesWorld) -> None:
    await world.put("few", max_firings=3)
    await world.work()
    world.clock.advance(5 * MINUTE)
    await world.work()
    assert list(await world.messages()) == [f"s:few@{at}" for at in AHEAD[:3]]
    assert (await world.http.get("/schedules/few")).json()["next_at_ms"] is None


async def test_what_is_fired_by_hand_is_fired_once_for_its_instant(world: SchedulesWorld) -> None:
    await world.put("yearly", every_ms=300 * 24 * HOUR)
    assert await world.post("/schedules/yearly/fire") == {"count": 1, "at_ms": [NOW], "skipped": 0}
    assert await world.post("/schedules/yearly/fire", at_ms=NOW) == {"count": 0, "at_ms": [], "skipped": 1}
    await world.post("/schedules/yearly/pause")
    assert (await world.post("/schedules/yearly/fire", at_ms=NOW - 1))["count"] == 1
    assert len(await world.messages()) == 2
    ahead = await world.http.post("/schedules/yearly/fire", json={"at_ms": NOW + 1})
    assert (ahead.status_code, ahead.json()["field"]) == (422, "at_ms")


async def test_a_backfill_fires_what_was_not_fired_and_says_before_what_that_is(world: SchedulesWorld) -> None:
    await world.put("hourly", every_ms=HOUR, missed="none")
    world.clock.advance(5 * HOUR)
    await world.work()
    span = {"from_ms": NOW + HOUR, "to_ms": NOW + 4 * HOUR}
    expected = [NOW + hours * HOUR for hours in (1, 2, 3)]
    assert await world.post("/schedules/hourly/backfill", dry_run=True, **span) == {
        "count": 3,
        "at_ms": expected,
        "skipped": 0,
    }
    assert await world.messages() == {}
    assert (await world.post("/schedules/hourly/backfill", **span))["at_ms"] == expected
    assert await world.post("/schedules/hourly/backfill", **span) == {"count": 0, "at_ms": [], "skipped": 3}
    assert set(await world.messages()) == {f"s:hourly@{at}" for at in expected}


async def test_a_topic_that_is_gone_is_said_and_holds_up_nobody(world: SchedulesWorld) -> None:
    await world.topics.catalog.put("other", SettingsChange())
    await world.put("lost", target={"topic": "other", "group": "g"})
    await world.put("tick")
    await world.topics.catalog.delete("other")
    with pytest.raises(NotFound):
        await world.topics.catalog.reload("other")
    await world.work()
    assert {(one.state, one.why) for one in await world.firings("lost")} == {
        (FiringState.SKIPPED, "the topic does not exist")
    }
    assert len(await world.messages()) == len(AHEAD)


async def test_a_message_of_the_same_id_is_somebody_elses_and_that_is_said(world: SchedulesWorld) -> None:
    await world.put("slow", every_ms=MINUTE)
    drafts = {"messages": [{"id": f"s:slow@{NOW + MINUTE}", "at_ms": NOW + HOUR, "body": 1}]}
    await world.http.post(f"/topics/{TOPIC}/messages", json=drafts, headers={"X-Producer-Group": "thief"})
    await world.work()
    (firing,) = await world.firings("slow")
    assert (firing.state, firing.why) == (FiringState.SKIPPED, "the topic is gone, or has a message of this id")


async def test_firings_to_come_are_part_of_the_load_and_none_is_counted_twice(world: SchedulesWorld) -> None:
    await world.put("tick")
    await world.put("slow", every_ms=10 * SECOND)
    await world.work()
    step = f"from_ms={NOW + 1}&to_ms={NOW + 5 * MINUTE + 1}&step_ms={MINUTE}"
    slots = (await world.http.get(f"/topics/{TOPIC}/load?{step}")).json()["slots"]
    assert [slot["waiting"] + slot.get("planned", 0) for slot in slots] == [66] * 5
    assert [slot.get("planned", 0) for slot in slots] == [0, 66 - len(AHEAD) % 60 - 1, 66, 66, 66]


async def test_timers_are_recorded_before_they_are_set_and_marked_after(world: SchedulesWorld) -> None:
    await world.put("call", target=CALLS, every_ms=10 * SECOND, body={"n": "{{firing}}"})
    await world.work()
    first = world.timers.timers["s:call@" + str(NOW + 10 * SECOND), NOW // 1000 + 10]
    assert (first.body, first.schedule_id, first.version, first.at_ms) == (b'{"n":"1"}', "call", 1, NOW + 10 * SECOND)
    assert set((await world.states("call")).values()) == {FiringState.FIRED}


async def test_timers_that_kafka_did_not_take_are_set_by_whoever_leads_next(world: SchedulesWorld) -> None:
    world.timers.away = True
    await world.put("call", target=CALLS, every_ms=10 * SECOND)
    await world.work()
    assert set((await world.states("call")).values()) == {FiringState.SETTING}
    world.timers.away = False
    firings: Any = world.schedules.leader
    assert await firings._firings.finish(NOW, 100) == 7
    assert set((await world.states("call")).values()) == {FiringState.FIRED}
    assert len(world.timers.pending()) == 7


async def test_timers_that_are_being_set_are_taken_back_by_a_change(world: SchedulesWorld) -> None:
    world.timers.stuck = True
    await world.put("call", target=CALLS, every_ms=10 * SECOND)
    await world.work()
    world.timers.stuck = False
    changed = await world.put("call", target=CALLS, every_ms=20 * SECOND)
    assert (changed["too_late"], changed["firings"], world.timers.pending()) == ([], 0, [])
    await world.work()
    tokens = world.timers.pending()
    assert tokens == sorted(f"s:call@{NOW + seconds * SECOND}:2" for seconds in (20, 40, 60))


async def test_nothing_is_set_anew_until_it_is_known_what_became_of_the_timers_before(world: SchedulesWorld) -> None:
    await world.put("call", target=CALLS, every_ms=10 * SECOND)
    await world.work()
    world.timers.away = True
    changed = await world.put("call", target=CALLS, every_ms=10 * SECOND, body=2)
    assert len(changed["too_late"]) == 7
    assert await world.work() == 0
    world.timers.away = False
    leader: Any = world.schedules.leader
    await leader._firings.finish(NOW, 100)
    assert await world.work() == 7
    assert world.timers.pending() == sorted(f"s:call@{NOW + tens * 10 * SECOND}:2" for tens in range(1, 8))


async def test_a_timer_that_cannot_be_cancelled_any_more_is_told(world: SchedulesWorld) -> None:
    await world.put("call", target=CALLS, every_ms=10 * SECOND, phase_ms=0)
    await world.work()
    world.timers.away = True
    deleted = await world.http.delete("/schedules/call")
    assert (deleted.status_code, deleted.json()["too_late"][0]) == (200, NOW + 10 * SECOND)
    world.timers.away = False
    leader: Any = world.schedules.leader
    await leader._firings.finish(NOW, 100)
    assert world.timers.pending() == []


async def test_a_schedule_that_cannot_be_planned_is_put_aside_and_the_others_go_on(world: SchedulesWorld) -> None:
    await world.put("broken")
    await world.put("tick")
    elsewhere = "jsonb_set(declaration, '{recurrence,time_zone}', '\"No/Where\"')"
    await world.database.execute(f"UPDATE schedules SET declaration = {elsewhere} WHERE id = 'broken'")
    assert await world.work() == len(AHEAD)
    assert len(await world.messages()) == len(AHEAD)


async def test_what_a_new_release_of_the_zones_moves_is_planned_anew_and_listed(world: SchedulesWorld) -> None:
    await world.put("berlin", every_ms=None, cron="0 9 * * *", time_zone="Europe/Berlin")
    await world.put("tokyo", every_ms=None, cron="0 9 * * *", time_zone="Asia/Tokyo")
    borders = f"[[{NOW // 1000 + 3_600}, 3600, 7200]]"
    await world.database.execute(
        "UPDATE schedule_zones SET tzdata = '2020a', borders = %(borders)s WHERE name = 'Europe/Berlin'",
        {"borders": borders},
    )
    await world.database.execute("UPDATE schedule_zones SET tzdata = '2020a' WHERE name = 'Asia/Tokyo'")
    assert await world.releases.check(world.epoch) == ["berlin"]
    (moved,) = (await world.http.get("/schedules?moved=true")).json()["schedules"]
    assert moved["id"] == "berlin"
    assert moved["moved"]["to_ms"] - moved["moved"]["from_ms"] == HOUR
    await world.schedules.measure()
    assert await world.releases.check(world.epoch) == []


async def test_old_firings_and_deleted_schedules_are_forgotten(world: SchedulesWorld) -> None:
    await world.put("tick")
    await world.work()
    await world.http.delete("/schedules/tick")
    world.clock.advance(100 * 24 * HOUR)
    now_ms = world.clock.now_ms()
    await world.schedules.store.forget(now_ms, now_ms - 24 * HOUR, 10_000)
    assert await world.firings("tick") == []
    assert await world.schedules.store.find("tick") is None
