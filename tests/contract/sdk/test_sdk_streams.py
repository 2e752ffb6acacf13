"""The client on real nodes: events, cursors, subscriptions, switches."""

from collections.abc import Iterator
from contextlib import aclosing
from itertools import islice
from uuid import uuid4

import msgspec
import pytest
from sdk_proxy import proxy_to

from conftest import RunningStack
from meantime import AsyncClient, Client, PublishFailed, Retries
from meantime.errors import Conflict, CursorsUnavailable, Invalid, NotFound
from meantime.sdk.model import Cursor

QUICK = Retries(first_pause=0.02, longest_pause=0.2)


@pytest.fixture
def client(cluster: RunningStack) -> Iterator[Client]:
    with Client(cluster.urls, retries=QUICK) as opened:
        yield opened


@pytest.fixture
def orders(client: Client) -> str:
    name = f"orders-{uuid4().hex[:12]}"
    client.create_event_type(name)
    return name


def numbers(client: Client, event_type: str, count: int) -> list[int]:
    return [event["n"] for batch in client.events(event_type, "begin", stream_limit=count) for event in batch.events]


def test_what_is_published_is_read_in_order(client: Client, orders: str) -> None:
    client.publish(orders, {"n": 0})
    client.publish(orders, [{"n": n} for n in range(1, 5)])
    assert numbers(client, orders, 5) == [0, 1, 2, 3, 4]


def test_an_event_type_can_be_looked_at_changed_and_deleted(client: Client, orders: str) -> None:
    with pytest.raises(Conflict):
        client.create_event_type(orders)
    declared = client.event_type(orders)
    client.update_event_type(msgspec.structs.replace(declared, options={"retention_time": 7_200_000}))
    assert client.event_type(orders).options == {"retention_time": 7_200_000}
    assert orders in {found.name for found in client.event_types()}
    client.delete_event_type(orders)
    with pytest.raises(NotFound):
        client.event_type(orders)


def test_a_refused_batch_names_the_event_and_writes_nothing(client: Client) -> None:
    name = f"strict-{uuid4().hex[:12]}"
    client.create_event_type(name, schema={"type": "object", "required": ["n"]})
    with pytest.raises(PublishFailed) as caught:
        client.publish(name, [{"n": 1}, {"m": 2}])
    assert [item.publishing_status for item in caught.value.extras["items"]] == ["aborted", "failed"]
    assert client.partitions(name)[0].newest_available_offset == "001-0001--1"


def test_reading_goes_on_through_a_broken_connection(client: Client, orders: str, cluster: RunningStack) -> None:
    with proxy_to(cluster.urls[0]) as proxy, Client(proxy.url, retries=QUICK) as shaky:
        client.publish(orders, [{"n": n} for n in range(3)])
        stream = (event["n"] for batch in shaky.events(orders, "begin") for event in batch.events)
        assert list(islice(stream, 2)) == [0, 1]
        proxy.cut()
        client.publish(orders, [{"n": 3}, {"n": 4}])
        assert list(islice(stream, 3)) == [2, 3, 4]
        assert proxy.connections > 1


def test_from_the_end_nothing_that_comes_later_is_missed(client: Client, orders: str, cluster: RunningStack) -> None:
    client.publish(orders, {"n": 0})
    with proxy_to(cluster.urls[0]) as proxy, Client(proxy.url, retries=QUICK) as shaky:
        ends = [Cursor(p.partition, p.newest_available_offset) for p in shaky.partitions(orders)]
        proxy.cut()
        client.publish(orders, {"n": 1})
        assert next(shaky.events(orders, ends)).events == [{"n": 1}]


def test_reading_goes_on_through_a_switch(client: Client, orders: str) -> None:
    stream = client.events(orders, "begin")
    client.publish(orders, {"n": 1})
    assert next(stream).events == [{"n": 1}]
    home = client.timelines(orders)[-1].storage_id
    away = next(storage.id for storage in client.storages() if storage.id != home)
    key = uuid4().hex
    timeline = client.switch(orders, away, key=key)
    assert (timeline.storage_id, timeline.order) == (away, 2)
    assert client.switch(orders, away, key=key).id == timeline.id
    client.publish(orders, {"n": 2})
    batch = next(stream)
    assert (batch.events, batch.cursor.offset) == ([{"n": 2}], "001-0002-000000000000000000")
    assert client.switches(orders)[0].state == "done"


def test_cursors_can_be_calculated_with(client: Client, orders: str) -> None:
    client.publish(orders, [{"n": n} for n in range(10)])
    begin, end = Cursor("0", "001-0001--1"), Cursor("0", "001-0001-000000000000000009")
    assert client.distances(orders, [(begin, end), (end, begin)]) == [10, -10]
    (fifth,) = client.shifted(orders, [(begin, 5)])
    assert client.lag(orders, [fifth])[0].unconsumed_events == 5
    with pytest.raises(Invalid):
        client.shifted(orders, [(begin, -1)])


def test_a_cursor_that_cannot_be_read_says_where_reading_can_start(client: Client, orders: str) -> None:
    with pytest.raises(CursorsUnavailable) as caught:
        next(client.events(orders, [Cursor("0", "001-0001-000000000000000500")]))
    assert caught.value.extras["cursors"][0]["partition"] == "0"


def test_a_subscription_goes_on_after_what_was_committed(client: Client, orders: str) -> None:
    subscription = client.subscribe(orders, consumer_group="billing", read_from="begin")
    assert client.subscribe(orders, consumer_group="billing", read_from="begin").id == subscription.id
    client.publish(orders, [{"n": n} for n in range(4)])
    for batch in client.subscription_events(subscription.id, batch_limit=2, stream_limit=2):
        assert client.commit(batch)
    rest = [
        event["n"]
        for batch in client.subscription_events(subscription.id, batch_limit=2, stream_limit=2)
        for event in batch.events
    ]
    assert rest == [2, 3]
    assert client.subscription_stats(subscription.id)[0].event_type == orders
    client.delete_subscription(subscription.id)


def test_who_leaves_the_loop_over_a_subscription_makes_room_for_the_next_at_once(client: Client, orders: str) -> None:
    subscription = client.subscribe(orders, consumer_group="billing", read_from="begin")
    client.publish(orders, [{"n": n} for n in range(4)])
    for batch in client.subscription_events(subscription.id, commit_timeout=60):
        assert client.commit(batch)
        break  # more has been sent by now, and is not committed
    rest = []
    for batch in client.subscription_events(subscription.id, stream_limit=3, stream_timeout=45):
        rest += [event["n"] for event in batch.events]
        assert client.commit(batch)
    assert rest == [1, 2, 3]


async def test_the_async_client_reads_and_writes_too(cluster: RunningStack, orders: str) -> None:
    async with AsyncClient(cluster.urls, retries=QUICK) as client:
        await client.publish(orders, [{"n": 1}, {"n": 2}])
        async with aclosing(client.events(orders, "begin")) as batches:
            assert [(await anext(batches)).events[0]["n"] for _ in range(2)] == [1, 2]
        subscription = await client.subscribe(orders, consumer_group="async", read_from="begin")
        async with aclosing(client.subscription_events(subscription.id)) as committed:
            assert await client.commit(await anext(committed))
