"""Streams over real Kafka clusters: borders, switches under an open stream, limits, and slow readers."""

import asyncio
import json
import time
from itertools import pairwise

import httpx
import pytest
import streams_world
from streams_world import World, begin, open_reader, reading

from meantime.streams.cursors import Cursor

world, node, client = streams_world.world, streams_world.node, streams_world.client


def at(offset: int, order: int = 1, partition: int = 0) -> dict[str, str]:
    return {"partition": str(partition), "offset": str(Cursor(order, offset))}


async def test_a_stream_without_cursors_begins_at_the_end(world: World, client: httpx.AsyncClient) -> None:
    orders = await world.event_type()
    await orders.write(1, 2)
    async with reading(client, orders.events(), batch_flush_timeout=1) as reader:
        assert reader.response.headers["Content-Type"] == "application/x-json-stream"
        assert "Content-Encoding" not in reader.response.headers
        assert reader.response.headers["Transfer-Encoding"] == "chunked"
        await orders.write(3)
        batch = await reader.batch()
    assert batch == {"cursor": at(2), "events": [{"n": 3}]}


async def test_an_idle_stream_shows_an_event_as_it_comes(world: World, client: httpx.AsyncClient) -> None:
    orders = await world.event_type()
    await orders.write(0)
    async with reading(client, orders.events(), batch_flush_timeout=120, stream_timeout=240) as reader:
        for number in range(1, 11):
            await asyncio.sleep(0.05)
            await orders.write(number)
            assert await reader.numbers(1) == [number]


async def test_a_stream_goes_on_over_timelines_clusters_and_empty_timelines(world: World, client: httpx.AsyncClient) -> None:
    orders = await world.event_type(partitions=2)
    await orders.write(1, 2, 3)
    await orders.write(11, 12, partition=1)
    for storage in ("two", "one", "two"):
        await orders.switch(storage)
    await orders.write(4, 5)
    await orders.switch("one")
    await orders.write(6)
    await orders.write(13, partition=1)
    async with reading(client, orders.events(), begin(2), batch_limit=8, batch_flush_timeout=1, stream_limit=9) as reader:
        lines = await reader.rest()
    batches = [line for line in lines if "events" in line]
    by_partition: dict[str, list[tuple[str, list[int]]]] = {"0": [], "1": []}
    for batch in batches:
        seen = by_partition[batch["cursor"]["partition"]]
        seen.append((batch["cursor"]["offset"], [event["n"] for event in batch["events"]]))
    assert by_partition["0"] == [
        (at(2)["offset"], [1, 2, 3]),
        (at(1, order=4)["offset"], [4, 5]),
        (at(0, order=5)["offset"], [6]),
    ]
    assert by_partition["1"] == [(at(1)["offset"], [11, 12]), (at(0, order=5)["offset"], [13])]


async def test_nothing_beyond_a_border_is_delivered(world: World, client: httpx.AsyncClient) -> None:
    orders = await world.event_type()
    await orders.write(1, 2)
    closed = (await orders.timelines())[-1]
    await orders.switch("two")
    await asyncio.to_thread(orders._produce, closed, [b'{"n":666}'], 0)
    await orders.write(3)
    async with reading(client, orders.events(), begin(), stream_limit=3) as reader:
        assert await reader.numbers(3) == [1, 2, 3]
    async with reading(client, orders.events(), [at(1)], stream_limit=1) as reader:
        assert await reader.numbers(1) == [3]


async def test_an_open_stream_stays_open_through_switches(world: World, client: httpx.AsyncClient) -> None:
    orders = await world.event_type()
    async with reading(client, orders.events(), begin(), batch_flush_timeout=1) as reader:
        number = 0
        for storage in ("two", "one", "one", "two"):
            await orders.write(number, number + 1)
            assert await reader.numbers(2) == [number, number + 1]
            await orders.switch(storage)
            number += 2
        await orders.write(number)
        batch = await reader.batch()
    assert batch == {"cursor": at(0, order=5), "events": [{"n": number}]}


async def test_events_written_while_timelines_change_are_read_once_and_in_order(
    world: World, client: httpx.AsyncClient
) -> None:
    orders = await world.event_type(partitions=2)
    async with reading(client, orders.events(), begin(2), batch_limit=50, batch_flush_timeout=1) as reader:
        for round_ in range(5):
            numbers = range(round_ * 300, round_ * 300 + 300)
            await orders.write(*numbers)
            await orders.write(*numbers, partition=1)
            await orders.switch("two" if round_ % 2 == 0 else "one")
        seen: dict[str, list[int]] = {"0": [], "1": []}
        async with asyncio.timeout(60):
            while sum(map(len, seen.values())) < 3000:
                batch = await reader.batch()
                seen[batch["cursor"]["partition"]] += [event["n"] for event in batch["events"]]
    assert seen == {"0": list(range(1500)), "1": list(range(1500))}


async def test_a_fake_timeline_speaks_plain_numbers_which_stay_valid(world: World, client: httpx.AsyncClient) -> None:
    orders = await world.event_type(adopt=True)
    await orders.write(1, 2)
    plain = {"partition": "0", "offset": "000000000000000000"}
    async with reading(client, orders.events(), begin(), batch_flush_timeout=1) as reader:
        first = await reader.batch()
        assert first["cursor"] == plain
        assert await reader.numbers(1) == [2]
        await orders.switch("two")
        await orders.write(3)
        assert (await reader.batch())["cursor"] == at(0, order=2)
    async with reading(client, orders.events(), [plain], stream_limit=2, batch_flush_timeout=1) as reader:
        assert [line["cursor"] for line in await reader.rest()] == [at(1), at(0, order=2)]


async def test_records_of_an_adopted_topic_that_are_not_json_are_shown_as_text(
    world: World, client: httpx.AsyncClient
) -> None:
    orders = await world.event_type(adopt=True)
    await orders.write_raw([b"plain \xff text\n", b'{"n":\n1}', b"{broken"])
    async with reading(client, orders.events(), begin(), batch_limit=3, stream_limit=3) as reader:
        [batch] = await reader.rest()
    assert batch["events"] == ["plain � text\n", {"n": 1}, "{broken"]


async def test_keep_alives_come_every_flush_time_and_repeat_the_place(world: World, client: httpx.AsyncClient) -> None:
    orders = await world.event_type()
    await orders.write(1)
    started_at = time.monotonic()
    async with reading(client, orders.events(), batch_flush_timeout=1, stream_keep_alive_limit=2) as reader:
        lines = await reader.rest()
    assert lines == [{"cursor": at(0)}, {"cursor": at(0)}]
    assert time.monotonic() - started_at > 1.8


async def test_limits_end_a_stream(world: World, client: httpx.AsyncClient) -> None:
    orders = await world.event_type()
    await orders.write(*range(25))
    async with reading(client, orders.events(), begin(), batch_limit=10, stream_limit=23) as reader:
        sizes = [len(line["events"]) for line in await reader.rest()]
    assert sizes == [10, 10, 3]
    async with reading(client, orders.events(), begin(), batch_limit=100, batch_flush_timeout=1, stream_timeout=8) as reader:
        lines = await reader.rest()
    assert sum(len(line.get("events", [])) for line in lines) == 25


@pytest.mark.parametrize(
    ("params", "status"),
    [
        ({"batch_limit": 10, "stream_limit": 5}, 422),
        ({"batch_flush_timeout": 10, "stream_timeout": 5}, 422),
        ({"batch_limit": 0}, 422),
        ({"stream_limit": -1}, 422),
        ({"batch_limit": "many"}, 400),
    ],
)
async def test_contradictory_limits_are_refused(
    world: World, client: httpx.AsyncClient, params: dict[str, int], status: int
) -> None:
    orders = await world.event_type()
    assert (await client.get(orders.events(), params=params)).status_code == status


@pytest.mark.parametrize("header", ["not json", "{}", "[1]", '[{"partition"', '"x"'])
async def test_a_header_that_is_not_a_list_of_cursors_is_malformed(
    world: World, client: httpx.AsyncClient, header: str
) -> None:
    orders = await world.event_type()
    refused = await client.get(orders.events(), headers={"X-Nakadi-Cursors": header})
    assert refused.status_code == 400


async def test_cursors_that_lead_nowhere_are_refused_with_where_to_restart(world: World, client: httpx.AsyncClient) -> None:
    orders = await world.event_type(partitions=2)
    await orders.write(1, 2)
    bad = {
        "malformed": {"partition": "0", "offset": "nonsense"},
        "unknown_timeline": at(0, order=7),
        "beyond_end": at(2),
    }
    for reason, cursor in bad.items():
        refused = await client.get(orders.events(), headers={"X-Nakadi-Cursors": json.dumps([cursor])})
        assert refused.status_code == 412
        [item] = refused.json()["cursors"]
        assert (item["reason"], item["partition"]) == (reason, "0")
        assert (item["oldest_available_offset"], item["restart_from"]) == (at(0)["offset"], at(-1)["offset"])
    for cursor in ({"partition": "2", "offset": "BEGIN"}, {"offset": "BEGIN"}, {"partition": "0"}):
        refused = await client.get(orders.events(), headers={"X-Nakadi-Cursors": json.dumps([cursor])})
        assert refused.status_code == 412
    assert (await client.get("/event-types/nobody/events")).status_code == 404


async def test_an_expired_cursor_is_told_where_nothing_is_lost(world: World, client: httpx.AsyncClient) -> None:
    orders = await world.event_type()
    await orders.write(1, 2, 3)
    await orders.switch("two")
    await orders.write(4, 5)
    await orders.clean_up(1)
    refused = await client.get(orders.events(), headers={"X-Nakadi-Cursors": json.dumps([at(0)])})
    assert refused.status_code == 412
    [item] = refused.json()["cursors"]
    assert item["reason"] == "expired"
    assert item["oldest_available_offset"] == at(0, order=2)["offset"]
    restart = [{"partition": "0", "offset": item["restart_from"]}]
    for cursors in (restart, begin(), [at(2)]):
        async with reading(client, orders.events(), cursors, stream_limit=2) as reader:
            assert await reader.numbers(2) == [4, 5]


async def test_a_reader_whose_timeline_expires_under_it_is_told_where_to_go_on(
    world: World, client: httpx.AsyncClient
) -> None:
    orders = await world.event_type()
    await orders.write_raw([b'{"n":%d,"filler":"%b"}' % (number, b"x" * 200_000) for number in range(200)])
    async with reading(client, orders.events(), begin()) as reader:
        await reader.numbers(1)
        await orders.switch("two")
        await orders.write(200)
        await orders.clean_up(1)
        lines = await reader.rest()
    last = lines[-1]["cursor"]
    assert last["offset"] < at(199)["offset"]
    refused = await client.get(orders.events(), headers={"X-Nakadi-Cursors": json.dumps([last])})
    assert refused.status_code == 412
    restart = [{"partition": "0", "offset": refused.json()["cursors"][0]["restart_from"]}]
    async with reading(client, orders.events(), restart, stream_limit=1) as reader:
        assert await reader.numbers(1) == [200]


async def test_a_deleted_event_type_ends_its_streams(world: World, client: httpx.AsyncClient) -> None:
    orders = await world.event_type()
    async with reading(client, orders.events()) as reader:
        await orders.delete()
        assert await reader.rest() == []


async def test_a_reader_that_does_not_read_holds_nobody_back(world: World, client: httpx.AsyncClient) -> None:
    orders = await world.event_type()
    await orders.write_raw([b'{"n":%d,"filler":"%b"}' % (number, b"x" * 50_000) for number in range(400)])
    async with (
        reading(client, orders.events(), begin()),
        reading(client, orders.events(), begin(), stream_limit=400) as quick,
    ):
        assert await quick.numbers(400) == list(range(400))


async def test_streams_beyond_the_limit_are_sent_away_and_ended_ones_make_room(world: World) -> None:
    orders = await world.event_type()
    async with open_reader(world, max_streams=1) as small, small.client() as client:
        async with reading(client, orders.events()):
            refused = await client.get(orders.events())
            assert refused.status_code == 503
            assert int(refused.headers["Retry-After"]) > 0
        async with asyncio.timeout(60):
            while (await client.get(orders.events(), params={"stream_timeout": 1})).status_code == 503:
                pass


async def test_partitions_show_where_events_written_from_an_instant_on_begin(
    world: World, client: httpx.AsyncClient
) -> None:
    orders = await world.event_type(partitions=2)

    async def now_ms() -> int:
        await asyncio.sleep(0.02)  # on either side: instants of events are whole milliseconds
        now = time.time_ns() // 1_000_000
        await asyncio.sleep(0.02)
        return now

    before = await now_ms()
    await orders.write(1, 2)
    second = await now_ms()
    await orders.write(3)
    await orders.write(11, partition=1)
    await orders.switch("two")
    third = await now_ms()
    await orders.write(4, 5)
    after = await now_ms()

    async def found(instant: int, **more: str) -> list[tuple[str, int]]:
        answer = await client.get(f"/event-types/{orders.name}/partitions", params={"written_from_ms": instant, **more})
        assert answer.status_code == 200, answer.text
        return [(one["start_after"], one["unconsumed_events"]) for one in answer.json()]

    start, end = str(Cursor(1, -1)), str(Cursor(2, -1))
    assert await found(0) == await found(before) == [(start, 5), (start, 1)]
    assert await found(second) == [(str(Cursor(1, 1)), 3), (start, 1)]
    assert await found(third) == [(end, 2), (end, 0)]
    assert await found(after) == await found(10**15) == [(str(Cursor(2, 1)), 0), (end, 0)]
    assert await found(third, cursors='[{"partition":"0","offset":"BEGIN"}]') == [(end, 5), (end, 0)]
    plain = (await client.get(f"/event-types/{orders.name}/partitions")).json()
    assert all("start_after" not in one for one in plain)
    for wrong in ("-1", "soon", "1.5", "9" * 20):
        answer = await client.get(f"/event-types/{orders.name}/partitions", params={"written_from_ms": wrong})
        assert answer.status_code == 400, wrong


async def test_partitions_show_where_they_begin_and_end(world: World, client: httpx.AsyncClient) -> None:
    orders = await world.event_type(partitions=2)
    path = f"/event-types/{orders.name}/partitions"
    assert (await client.get(path)).json() == [
        {
            "partition": str(partition),
            "oldest_available_offset": "001-0001-000000000000000000",
            "newest_available_offset": "001-0001--1",
        }
        for partition in range(2)
    ]
    await orders.write(1, 2)
    await orders.switch("two")
    await orders.write(3)
    shown = (await client.get(f"{path}/0", params={"consumed_offset": at(0)["offset"]})).json()
    assert shown == {
        "partition": "0",
        "oldest_available_offset": at(0)["offset"],
        "newest_available_offset": at(0, order=2)["offset"],
        "unconsumed_events": 2,
    }
    empty = (await client.get(f"{path}/1")).json()
    assert empty["oldest_available_offset"] == at(0, order=2)["offset"]
    assert empty["newest_available_offset"] == at(-1, order=2)["offset"]
    await orders.clean_up(1)
    assert (await client.get(f"{path}/0")).json()["oldest_available_offset"] == at(0, order=2)["offset"]
    assert [(await client.get(f"{path}/{name}")).status_code for name in ("2", "x", "00")] == [404, 404, 404]
    assert (await client.get("/event-types/nobody/partitions")).status_code == 404


async def test_distances_shifts_and_lags_cross_timelines(world: World, client: httpx.AsyncClient) -> None:
    orders = await world.event_type(partitions=2)
    await orders.write(1, 2, 3)
    await orders.switch("two")
    await orders.switch("one")
    await orders.write(4, 5)
    base = f"/event-types/{orders.name}"

    async def ask(path: str, *items: dict[str, object]) -> httpx.Response:
        return await client.post(f"{base}/{path}", json=list(items))

    pairs = [
        {"initial_cursor": at(0), "final_cursor": at(1, order=3)},
        {"initial_cursor": at(1, order=3), "final_cursor": at(0)},
    ]
    distances = await ask("cursor-distances", *pairs)
    assert distances.status_code == 200
    assert distances.json() == [pairs[0] | {"distance": 4}, pairs[1] | {"distance": -4}]
    shifted = await ask(
        "shifted-cursors",
        at(0) | {"shift": 3},
        at(0, order=3) | {"shift": -1},
        at(0, order=3) | {"shift": -2},
        at(1),
        at(0) | {"shift": 9},
    )
    assert shifted.json() == [at(0, order=3), at(-1, order=3), at(1), at(1), at(6, order=3)]
    lag = await ask("cursors-lag", at(0))
    assert lag.json() == [
        {
            "partition": "0",
            "oldest_available_offset": at(0)["offset"],
            "newest_available_offset": at(1, order=3)["offset"],
            "unconsumed_events": 4,
        }
    ]


async def test_bad_cursors_are_refused_wherever_they_are_sent(world: World, client: httpx.AsyncClient) -> None:
    orders = await world.event_type(partitions=2)
    good = at(-1)
    bad = [at(0, order=9), {"partition": "9", "offset": "BEGIN"}, {"partition": "0", "offset": "x"}, {"partition": "0"}]
    for cursor in bad:
        for path, item in (
            ("cursor-distances", {"initial_cursor": good, "final_cursor": cursor}),
            ("shifted-cursors", cursor | {"shift": 1}),
            ("cursors-lag", cursor),
        ):
            answer = await client.post(f"/event-types/{orders.name}/{path}", json=[item])
            assert answer.status_code == 422, (path, cursor, answer.text)
    apart = {"initial_cursor": at(-1), "final_cursor": at(-1, partition=1)}
    assert (await client.post(f"/event-types/{orders.name}/cursor-distances", json=[apart])).status_code == 422
    before = at(-1) | {"shift": -1}
    assert (await client.post(f"/event-types/{orders.name}/shifted-cursors", json=[before])).status_code == 422
    assert (await client.post(f"/event-types/{orders.name}/cursors-lag", json=[at(5)])).status_code == 422
    assert (await client.post(f"/event-types/{orders.name}/cursors-lag", content=b"{")).status_code == 400


async def test_many_timelines_are_read_as_one(world: World, client: httpx.AsyncClient) -> None:
    orders = await world.event_type()
    for order in range(12):
        await orders.write(*range(order * 50, order * 50 + 50))
        await orders.switch("two" if order % 2 == 0 else "one")
    async with reading(client, orders.events(), begin(), batch_limit=100, stream_limit=600) as reader:
        offsets = []
        numbers: list[int] = []
        for line in await reader.rest():
            offsets.append(line["cursor"]["offset"])
            numbers += [event["n"] for event in line["events"]]
    assert numbers == list(range(600))
    assert all(earlier < later for earlier, later in pairwise(offsets))
