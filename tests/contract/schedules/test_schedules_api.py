"""The API of schedules: statuses, bad input that changes nothing, versions, pages, and what is said of instants."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
from schedules_world import NOW, TARGET, SchedulesWorld, open_schedules_world

from conftest import Services

SECOND, HOUR = 1_000, 3_600_000
NINE = {"cron": "0 9 * * 1-5", "time_zone": "Europe/Berlin", "target": TARGET}


@pytest_asyncio.fixture
async def world(services: Services) -> AsyncIterator[SchedulesWorld]:
    async with open_schedules_world(services.postgres) as world:
        yield world


async def test_a_schedule_is_made_once_and_changed_by_its_version(world: SchedulesWorld) -> None:
    http = world.http
    made = await http.put("/schedules/nine", json=NINE)
    assert (made.status_code, made.json()["version"], made.json()["next_at_ms"]) == (201, 1, NOW + 3 * 24 * HOUR)
    same = await http.put("/schedules/nine", json=NINE)
    assert (same.status_code, same.json()["version"]) == (200, 1)
    changed = await http.put("/schedules/nine", json=NINE | {"cron": "0 10 * * 1-5", "version": 1})
    assert (changed.status_code, changed.json()["version"]) == (200, 2)
    stale = await http.put("/schedules/nine", json=NINE | {"version": 1})
    assert (stale.status_code, stale.json()["code"], stale.json()["version"]) == (409, "stale_version", 2)
    assert (await http.put("/schedules/none", json=NINE | {"version": 1})).status_code == 409
    assert (await http.get("/schedules/none")).status_code == 404
    assert (await http.get("/schedules/nine")).json()["cron"] == "0 10 * * 1-5"


async def test_what_is_shown_can_be_put_again_and_is_the_same(world: SchedulesWorld) -> None:
    bodies: list[Any] = [{"a": "{{instant}}"}, '{"n": {{firing}}}', '"text"', 5, None]
    for number, body in enumerate(bodies):
        await world.put(f"s{number}", body=body)
        shown = (await world.http.get(f"/schedules/s{number}")).json()
        assert shown["body"] == body
        again = await world.put(f"s{number}", body=shown["body"])
        assert again["version"] == 1
    raw = await world.put("bytes", body_b64="AP8=")
    assert (raw["body_b64"], "body" in raw) == ("AP8=", False)


async def test_a_pause_stays_when_the_schedule_is_put_again(world: SchedulesWorld) -> None:
    await world.put("tick")
    await world.post("/schedules/tick/pause", note="maintenance")
    again = await world.put("tick", every_ms=2_000)
    assert (again["paused"], again["note"], again["next_at_ms"]) == (True, "maintenance", None)
    assert (await world.put("tick", paused=False))["paused"] is False


@pytest.mark.parametrize(
    ("status", "field", "fields"),
    [
        (422, "cron", {"cron": "30 2 30 2 *"}),
        (422, "time_zone", {"time_zone": "Mars/Olympus"}),
        (422, "every_ms", {"cron": None, "every_ms": 10}),
        (422, "target.topic", {"target": {"topic": "missing", "group": "g"}}),
        (422, "target.kafka_topic", {"target": {"kafka_topic": "missing"}}),
        (422, "target.grup", {"target": {"topic": "jobs", "grup": "g"}}),
        (422, "body", {"body": "{{firing}"}),
        (422, "crn", {"crn": "* * * * *"}),
        (422, "on_gap", {"on_gap": "before"}),
        (400, None, {"cron": 5}),
        (400, None, {"target": "jobs"}),
        (403, None, {"target": {"topic": "billing.periodic", "group": "g"}}),
    ],
)
async def test_bad_input_is_refused_by_its_field_and_changes_nothing(
    world: SchedulesWorld, status: int, field: str | None, fields: dict[str, Any]
) -> None:
    await world.put("nine", every_ms=None, **NINE)
    before = (await world.http.get("/schedules/nine")).json()
    refused = await world.http.put("/schedules/nine", json=NINE | fields)
    assert (refused.status_code, refused.json().get("field")) == (status, field)
    assert (await world.http.get("/schedules/nine")).json() == before


async def test_names_that_are_also_pages_are_names(world: SchedulesWorld) -> None:
    for name in ("preview", "pause", "resume"):
        await world.put(name)
        assert (await world.http.get(f"/schedules/{name}")).json()["id"] == name
    assert (await world.http.put("/schedules/a%20b", json=NINE)).status_code == 422
    assert (await world.http.put(f"/schedules/{'x' * 101}", json=NINE)).status_code == 422


async def test_lists_have_pages_and_filters(world: SchedulesWorld) -> None:
    for name in ("a.1", "a.2", "a_3", "b.1"):
        await world.put(name)
    await world.post("/schedules/a.2/pause")

    async def ids(**query: Any) -> list[str]:
        answer = await world.http.get("/schedules", params=query)
        assert answer.status_code == 200, answer.text
        return [one["id"] for one in answer.json()["schedules"]]

    assert await ids() == ["a.1", "a.2", "a_3", "b.1"]
    assert await ids(prefix="a.") == ["a.1", "a.2"]
    assert await ids(prefix="a_") == ["a_3"]
    assert await ids(paused="true") == ["a.2"]
    assert await ids(target="topic:jobs", prefix="b") == ["b.1"]
    assert await ids(target="topic:other") == []
    first = (await world.http.get("/schedules?limit=3")).json()
    assert (first["next"], await ids(after=first["next"])) == ("a_3", ["b.1"])
    for wrong in ({"limit": 0}, {"target": "jobs"}, {"prefix": "a b"}):
        assert (await world.http.get("/schedules", params=wrong)).status_code == 422


async def test_many_are_paused_and_resumed_by_the_beginning_of_their_names(world: SchedulesWorld) -> None:
    for name in ("a.1", "a.2", "b.1"):
        await world.put(name)
    paused = await world.post("/schedules/pause", prefix="a.", note="night")
    assert (paused["count"], paused["ids"], paused["too_late"]) == (2, ["a.1", "a.2"], {})
    assert (await world.http.get("/schedules/a.1")).json()["note"] == "night"
    assert (await world.post("/schedules/pause", prefix="a."))["count"] == 0
    assert (await world.post("/schedules/resume", prefix=""))["count"] == 2


async def test_a_preview_says_what_a_change_of_the_clocks_does_and_stores_nothing(world: SchedulesWorld) -> None:
    form = {"cron": "30 2 * * *", "time_zone": "Europe/Berlin", "from_ms": 1_806_111_000_000, "count": 3}
    shown = (await world.post("/schedules/preview", **form))["firings"]
    assert [(one["local"][:16], one["at"], one["note"]) for one in shown] == [
        ("2027-03-27T02:30", "2027-03-27T01:30:00.000Z", None),
        ("2027-03-28T03:00", "2027-03-28T01:00:00.000Z", "moved: gap"),
        ("2027-03-29T02:30", "2027-03-29T00:30:00.000Z", None),
    ]
    assert (await world.http.get("/schedules")).json()["schedules"] == []
    refused = await world.http.post("/schedules/preview", json=form | {"count": 1_001})
    assert (refused.status_code, refused.json()["field"]) == (422, "count")


async def test_the_next_firings_are_told_from_any_instant(world: SchedulesWorld) -> None:
    await world.put("nine", every_ms=None, **NINE)
    shown = (await world.http.get("/schedules/nine/next", params={"count": 2, "from_ms": NOW})).json()["firings"]
    assert [one["at_ms"] for one in shown] == [NOW, NOW + 3 * 24 * HOUR]
    assert (await world.http.get("/schedules/none/next")).status_code == 404


async def test_firings_are_told_newest_first_with_what_became_of_them(world: SchedulesWorld) -> None:
    await world.put("tick", every_ms=30 * SECOND)
    await world.work()
    world.clock.advance(31 * SECOND)
    shown = (await world.http.get("/schedules/tick/firings")).json()["firings"]
    assert [(one["at_ms"] - NOW, one["state"], one["id"], one["lateness_ms"]) for one in shown] == [
        (60 * SECOND, "planned", f"s:tick@{NOW + 60 * SECOND}", 0),
        (30 * SECOND, "fired", f"s:tick@{NOW + 30 * SECOND}", 0),
    ]
    span = {"from_ms": NOW + 30 * SECOND, "to_ms": NOW + 60 * SECOND, "limit": 5}
    assert len((await world.http.get("/schedules/tick/firings", params=span)).json()["firings"]) == 1
    seen = (await world.http.get("/schedules/tick")).json()
    assert (seen["last_at_ms"], seen["next_at_ms"], seen["firings"]) == (NOW + 30 * SECOND, NOW + 60 * SECOND, 2)
