"""The client on real nodes: schedules."""

import asyncio
import time
from collections.abc import Iterator
from uuid import uuid4

import pytest

from conftest import RunningStack
from meantime import AsyncClient, Client
from meantime.errors import Conflict, Invalid, NotFound

GROUP = "shop"


@pytest.fixture
def client(cluster: RunningStack) -> Iterator[Client]:
    with Client(cluster.urls, producer_group=GROUP) as opened:
        yield opened


@pytest.fixture
def topic(client: Client) -> str:
    name = f"t-{uuid4().hex[:12]}"
    client.create_topic(name)
    return name


@pytest.fixture
def own(client: Client) -> Iterator[str]:
    """What the ids of a test begin with; its schedules are gone afterwards."""
    prefix = f"s-{uuid4().hex[:12]}."
    yield prefix
    for schedule in client.schedules.list(prefix=prefix):
        client.schedules.delete(schedule.id)


def into(topic: str) -> dict[str, str]:
    return {"topic": topic, "group": GROUP}


def test_each_instant_is_one_message_that_says_which_it_is(client: Client, topic: str, own: str) -> None:
    made = client.schedules.put(f"{own}a", every="1s", target=into(topic), body={"n": "{{firing}}", "at": "{{instant}}"})
    assert (made.version, made.every_ms, made.time_zone, made.paused) == (1, 1000, "UTC", False)
    leases = []
    for lease in client.consume(topic, "w", limit=3):
        assert lease.message.schedule is not None
        assert client.now() * 1000 >= lease.message.schedule.at_ms
        leases.append((lease.id, lease.message.schedule, lease.body))
        lease.delete()
    for number, (id, origin, body) in enumerate(leases):
        assert origin.at_ms == leases[0][1].at_ms + 1000 * number
        assert (id, origin.id, origin.version) == (f"s:{own}a@{origin.at_ms}", f"{own}a", 1)
        assert body == {"n": str(number + 1), "at": str(origin.at_ms)}
    fired = {firing.at_ms: firing for firing in client.schedules.firings(f"{own}a")}
    assert [fired[origin.at_ms].state for _, origin, _ in leases] == ["fired"] * 3
    assert [fired[origin.at_ms].id for id, origin, _ in leases] == [id for id, _, _ in leases]


def test_the_same_again_changes_nothing_and_a_change_can_insist_on_a_version(client: Client, topic: str, own: str) -> None:
    settings = {"cron": "0 9 * * *", "target": into(topic)}
    assert client.schedules.put(f"{own}a", **settings).version == 1  # type: ignore[arg-type]
    assert client.schedules.put(f"{own}a", **settings).version == 1  # type: ignore[arg-type]
    assert client.schedules.put(f"{own}a", cron="0 10 * * *", target=into(topic), version=1).version == 2
    with pytest.raises(Conflict) as refused:
        client.schedules.put(f"{own}a", cron="0 11 * * *", target=into(topic), version=1)
    assert refused.value.code == "stale_version"
    assert client.schedules.get(f"{own}a").cron == "0 10 * * *"


def test_a_preview_shows_what_the_clocks_do(client: Client, topic: str, own: str) -> None:
    berlin = {"cron": "30 2 * * *", "time_zone": "Europe/Berlin"}
    preview = client.schedules.preview(count=3, start="2027-03-27T00:00:00Z", **berlin)  # type: ignore[arg-type]
    assert [(one.local[:16], one.note) for one in preview] == [
        ("2027-03-27T02:30", None),
        ("2027-03-28T03:00", "moved: gap"),
        ("2027-03-29T02:30", None),
    ]
    client.schedules.put(f"{own}a", target=into(topic), on_overlap="both", **berlin)  # type: ignore[arg-type]
    twice = client.schedules.next(f"{own}a", count=2, start="2027-10-30T12:00:00Z")
    assert [(one.local[11:], one.note) for one in twice] == [
        ("02:30:00.000+02:00", "first of two"),
        ("02:30:00.000+01:00", "second of two"),
    ]


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"cron": "0 0 30 2 *"}, "cron"),
        ({"cron": "nonsense"}, "cron"),
        ({"cron": "0 9 * * *", "time_zone": "Europe/Berlim"}, "time_zone"),
        ({"every": "500ms"}, "every_ms"),
        ({"every": "1m", "target": {"topic": "there-is-none", "group": GROUP}}, "target"),
        ({"every": "1m", "body": "{{firing}"}, "body"),
    ],
)
def test_what_makes_no_sense_is_refused_by_its_field(
    client: Client, topic: str, own: str, wrong: dict[str, object], field: str
) -> None:
    with pytest.raises(Invalid) as refused:
        client.schedules.put(f"{own}a", **({"target": into(topic)} | wrong))  # type: ignore[arg-type]
    assert str(refused.value.extras["field"]).startswith(field)
    with pytest.raises(NotFound):
        client.schedules.get(f"{own}a")


def test_a_paused_schedule_rests_and_tells_why(client: Client, topic: str, own: str) -> None:
    for name in "ab":
        client.schedules.put(f"{own}{name}", cron="0 9 * * *", target=into(topic))
    assert client.schedules.pause(f"{own}a", note="holidays").paused
    assert (client.schedules.get(f"{own}a").note, client.schedules.get(f"{own}a").next_at_ms) == ("holidays", None)
    assert [one.id for one in client.schedules.list(prefix=own, paused=True)] == [f"{own}a"]
    assert client.schedules.resume_all(own).count == 1
    assert client.schedules.pause_all(own, note="all of them").count == 2
    assert not client.schedules.resume(f"{own}b").paused
    assert [one.id for one in client.schedules.list(prefix=own, paused=False)] == [f"{own}b"]


def test_lists_have_pages_and_filters(client: Client, topic: str, own: str) -> None:
    for number in range(5):
        client.schedules.put(f"{own}{number}", cron="0 9 * * *", target=into(topic))
    first = client.schedules.list(prefix=own, limit=3)
    rest = client.schedules.list(prefix=own, limit=3, after=first[-1].id)
    assert [one.id for one in first + rest] == [f"{own}{number}" for number in range(5)]
    assert len(client.schedules.list(target=f"topic:{topic}")) == 5
    assert client.schedules.list(prefix=own, moved=True) == []


def test_a_firing_beside_the_calendar_with_an_instant_is_one_however_often_it_is_asked_for(
    client: Client, topic: str, own: str
) -> None:
    client.schedules.put(f"{own}a", cron="0 9 * * *", target=into(topic), body={"n": 1})
    at = int(client.now()) - 5
    assert client.schedules.fire(f"{own}a", at=at).at_ms == [at * 1000]
    client.schedules.fire(f"{own}a", at=at)
    assert client.count(topic) == 1
    assert client.schedules.fire(f"{own}a").count == 1
    assert client.count(topic) == 2


def test_a_backfill_fires_what_has_passed_once(client: Client, topic: str, own: str) -> None:
    client.schedules.put(f"{own}a", every="1h", target=into(topic))
    end = int(client.now()) // 3600 * 3600
    plan = client.schedules.backfill(f"{own}a", end - 3 * 3600, end, dry_run=True)
    assert (plan.count, client.count(topic, end=end)) == (3, 0)
    assert client.schedules.backfill(f"{own}a", end - 3 * 3600, end).count == 3
    again = client.schedules.backfill(f"{own}a", end - 3 * 3600, end)
    assert (again.count, again.skipped) == (0, 3)


def test_a_deleted_schedule_takes_back_what_was_set_ahead(client: Client, topic: str, own: str) -> None:
    client.schedules.put(f"{own}a", every="10s", phase="1s", target=into(topic))
    deadline = time.monotonic() + 60
    while client.count(topic) < 3:
        assert time.monotonic() < deadline, "nothing was set ahead"
        time.sleep(0.1)
    too_late = client.schedules.delete(f"{own}a")
    assert client.count(topic, status="waiting") == 0
    assert len(too_late) <= 1
    assert client.schedules.delete(f"{own}a") == []


async def test_the_async_client_has_the_same_schedules(cluster: RunningStack) -> None:
    topic = f"t-{uuid4().hex[:12]}"
    async with AsyncClient(cluster.urls, producer_group=GROUP) as client:
        await client.create_topic(topic)
        made = await client.schedules.put(f"s-{topic}", every=3600, target=into(topic))
        upcoming = await asyncio.gather(*(client.schedules.next(made.id, count=count) for count in (1, 2)))
        assert [len(firings) for firings in upcoming] == [1, 2]
        assert upcoming[0][0].at_ms == made.next_at_ms
        await client.schedules.delete(made.id)
        with pytest.raises(NotFound):
            await client.schedules.get(made.id)
