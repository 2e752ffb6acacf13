"""The client on real nodes: messages and leases."""

import asyncio
import threading
import time
from collections.abc import Iterator
from uuid import uuid4

import pytest
from sdk_proxy import proxy_to

from conftest import RunningStack
from meantime import AsyncClient, Client, Draft, Lease, LeaseLost, Retries
from meantime.errors import Conflict, Forbidden, Invalid, NotFound
from meantime.sdk.consuming.consumer import Mode
from meantime.sdk.messages import RetryPolicy

QUICK = Retries(first_pause=0.02, longest_pause=0.2)


@pytest.fixture
def client(cluster: RunningStack) -> Iterator[Client]:
    with Client(cluster.urls, retries=QUICK) as opened:
        yield opened


@pytest.fixture
def topic(client: Client) -> str:
    name = f"t-{uuid4().hex[:12]}"
    client.create_topic(name)
    return name


def until(condition: object, within: float = 60.0) -> None:
    deadline = time.monotonic() + within
    while not condition():  # type: ignore[operator]
        assert time.monotonic() < deadline, "did not happen in time"
        time.sleep(0.02)


def test_a_message_comes_when_it_is_due_and_is_gone_when_it_is_deleted(client: Client, topic: str) -> None:
    scheduled = client.schedule(topic, {"n": 1}, after=0.3, id="a")
    for lease in client.consume(topic, "w"):
        assert client.now() * 1000 >= (scheduled.at_ms or 0)
        assert (lease.id, lease.body, lease.attempts) == ("a", {"n": 1}, 1)
        assert 0 < lease.expires_in <= 30
        lease.delete()
        break
    with pytest.raises(NotFound):
        client.message(topic, "a")


@pytest.mark.parametrize("mode", ["push", "pull"])
def test_a_loop_ends_after_its_limit_or_when_nothing_comes_any_more(client: Client, topic: str, mode: Mode) -> None:
    client.schedule_many(topic, [Draft(number, after=0) for number in range(5)])
    some = [lease.body for lease in done(client.consume(topic, "w", mode=mode, limit=3, lease_for="10s"))]
    rest = [lease.body for lease in done(client.consume(topic, "w", mode=mode, idle_timeout="500ms"))]
    assert len(some) == 3
    assert sorted(some + rest) == [0, 1, 2, 3, 4]
    assert list(client.consume(topic, "w", mode=mode, limit=0)) == []


def done(leases: Iterator[Lease]) -> Iterator[Lease]:
    for lease in leases:
        lease.delete()
        yield lease


def test_instants_and_durations_may_be_texts(client: Client, topic: str) -> None:
    scheduled = client.schedule(topic, 1, after="5m")
    assert 290 < (scheduled.at_ms or 0) / 1000 - client.now() < 310
    assert client.schedule(topic, 1, at="2027-01-01T00:00:00Z").at_ms == 1_798_761_600_000
    for wrong in ("5", "soon"):
        with pytest.raises(Invalid, match=r"unit|duration"):
            client.schedule(topic, 1, after=wrong)
    for wrong in ("tomorrow", "2027-01-01T00:00:00"):
        with pytest.raises(Invalid, match="instant"):
            client.schedule(topic, 1, at=wrong)


def test_an_id_makes_scheduling_repeatable(client: Client, topic: str) -> None:
    first = client.schedule(topic, 1, after=60, id="a")
    again = client.schedule(topic, 2, after=120, id="a")
    assert (first.status, again.status, again.at_ms) == ("created", "exists", first.at_ms)


def test_bytes_come_back_as_bytes(client: Client, topic: str) -> None:
    client.schedule(topic, b"\x00\xff", after=0)
    with next(client.consume(topic, "w", mode="pull")) as lease:
        assert lease.body == b"\x00\xff"


def test_refusals_have_their_own_classes(client: Client, topic: str, cluster: RunningStack) -> None:
    with pytest.raises(Invalid):
        client.schedule(topic, 1, after=3600 * 24 * 400)
    client.schedule(topic, 1, after=0, id="a")
    (leased,) = client.lease(topic, "w", wait_for=30)
    with pytest.raises(Conflict) as caught:
        client.delete_message(topic, "a")
    assert caught.value.code == "leased"
    with Client(cluster.urls, producer_group="others") as other, pytest.raises(Forbidden):
        other.message(topic, leased.id)


def test_what_fails_is_released_and_comes_again(client: Client, topic: str) -> None:
    client.schedule(topic, 1, after=0, id="a")
    leases = client.consume(topic, "w")
    with pytest.raises(ZeroDivisionError), next(leases):
        raise ZeroDivisionError("no share")
    waiting = client.message(topic, "a")
    assert (waiting.status, waiting.reason) == ("waiting", "ZeroDivisionError: no share")
    with next(leases) as lease:
        assert lease.attempts == 2
        assert lease.reason == "ZeroDivisionError: no share"
        assert [(one.attempt, one.consumer_id) for one in lease.history] == [(1, "w")]


def test_a_consumer_says_why_it_gives_a_message_back(client: Client, topic: str) -> None:
    client.create_topic(topic, retry={"delay_ms": 3_600_000})
    assert client.topic(topic).retry == RetryPolicy(delay_ms=3_600_000, factor=2.0, max_ms=3_600_000, jitter=0.1)
    client.schedule(topic, 1, after=0, id="a")
    leases = client.consume(topic, "w")
    next(leases).release(after=0, reason="x" * 2000)
    next(leases).release(reason="not today")
    found = client.message(topic, "a")
    assert (found.status, found.reason) == ("waiting", "not today")
    assert len(found.history[0].reason) == 1000
    (listed,) = client.all_messages(topic).messages
    assert listed == found == client.message(topic, "a", all_groups=True)
    leases.close()  # type: ignore[attr-defined]


def test_a_lease_is_kept_alive_while_its_handler_works(client: Client, topic: str) -> None:
    client.schedule(topic, 1, after=0, id="a")
    lease = next(leases := client.consume(topic, "w", lease_for=3.0))
    time.sleep(7.0)
    assert lease.held
    assert lease.version > 2
    lease.delete()
    leases.close()  # type: ignore[attr-defined]


def test_a_lease_that_runs_out_is_lost_and_changes_nothing_any_more(client: Client, topic: str) -> None:
    client.schedule(topic, 1, after=0, id="a")
    told: list[Lease] = []
    lease = next(leases := client.consume(topic, "w", lease_for=0.3, auto_extend=False, on_lost=told.append))
    assert lease.wait_lost(60)
    assert (lease.lost, told) == (True, [lease])
    with pytest.raises(LeaseLost):
        lease.delete()
    assert next(leases).attempts == 2


def test_the_handler_is_told_when_the_broker_gives_the_lease_away(client: Client, topic: str) -> None:
    client.schedule(topic, 1, after=0, id="a")
    lease = next(leases := client.consume(topic, "w", lease_for=6.0))
    assert client.release_leases(topic, "w", [lease], after=60)[0].status == "ok"
    assert lease.wait_lost(60)
    with pytest.raises(LeaseLost):
        lease.extend(10)
    assert client.message(topic, "a").status == "waiting"
    leases.close()  # type: ignore[attr-defined]


def test_a_consumer_that_leaves_gives_back_what_it_has_not_handed_out(client: Client, topic: str) -> None:
    client.schedule_many(topic, [Draft(n, after=0) for n in range(5)])
    for lease in client.consume(topic, "first", buffer=5):
        lease.delete()
        break
    given_back = {lease.id for lease in client.lease(topic, "second", limit=10, lease_for=120, wait_for=20)}
    assert given_back, "nothing came before the leases of the first could expire"
    # One that was on its way when the first left is its own for as long as the lease lasts.
    until(lambda: len(given_back) == 4 or given_back.update(again(client, topic)))


def again(client: Client, topic: str) -> set[str]:
    return {lease.id for lease in client.lease(topic, "second", limit=10, lease_for=120, wait_for=1)}


def test_a_consumer_that_returns_gets_back_what_it_still_holds(client: Client, topic: str) -> None:
    client.schedule(topic, 1, after=0, id="a")
    (before,) = client.lease(topic, "w", wait_for=30)
    with next(client.consume(topic, "w")) as lease:
        assert (lease.id, lease.attempts) == (before.id, 1)


def test_a_broken_stream_is_opened_again_and_tells_nothing_twice(client: Client, topic: str, cluster: RunningStack) -> None:
    client.schedule(topic, "first", after=0, id="a")
    with proxy_to(cluster.urls[0]) as proxy, Client(proxy.url, retries=QUICK) as shaky:
        leases = shaky.consume(topic, "w")
        first = next(leases)
        proxy.cut()
        until(lambda: proxy.connections > 1)
        client.schedule(topic, "second", after=0, id="b")
        second = next(leases)
        assert (first.id, second.id) == ("a", "b")
        first.delete()
        second.delete()
    assert client.count(topic) == 0


def test_a_node_that_is_gone_is_left_for_another(cluster: RunningStack, topic: str) -> None:
    with Client(f"http://127.0.0.1:1,{cluster.urls[1]}", retries=QUICK) as client:
        client.schedule(topic, 1, after=0)
        with next(client.consume(topic, "w")) as lease:
            assert lease.attempts == 1
        assert client.core.url == cluster.urls[1]


def test_many_threads_share_a_client(client: Client, topic: str) -> None:
    client.schedule_many(topic, [Draft(n, after=0) for n in range(40)])
    done: list[int] = []

    def work(number: int) -> None:
        for lease in client.consume(topic, f"w{number}", buffer=5):
            with lease:
                done.append(lease.body)

    threads = [threading.Thread(target=work, args=(number,), daemon=True) for number in range(4)]
    for thread in threads:
        thread.start()
    until(lambda: len(done) == 40)
    client.close()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    assert sorted(done) == list(range(40))


def test_the_drift_is_measured(client: Client) -> None:
    client.health()
    slack_ms = client.core.drift.error_ms + 50
    assert abs(client.drift_ms) <= slack_ms
    before, there, after = client.now(), client.clock().now_ms / 1000, client.now()
    assert before - slack_ms / 1000 <= there <= after + slack_ms / 1000


async def test_async_consumers_work_side_by_side(cluster: RunningStack, topic: str) -> None:
    async with AsyncClient(cluster.urls, retries=QUICK) as client:
        await client.schedule_many(topic, [Draft(n, after=0) for n in range(30)])
        done: list[int] = []
        all_done = asyncio.Event()

        async def work(name: str, mode: str) -> None:
            async for lease in client.consume(topic, name, mode=mode, buffer=3):  # type: ignore[arg-type]
                async with lease:
                    done.append(lease.body)
                if len(done) == 30:
                    all_done.set()

        workers = [asyncio.create_task(work(f"w{n}", mode)) for n, mode in enumerate(("push", "pull", "push"))]
        await asyncio.wait_for(all_done.wait(), 60)
        for worker in workers:
            worker.cancel()
        await asyncio.gather(*workers, return_exceptions=True)
    assert sorted(done) == list(range(30))


async def test_an_async_handler_can_race_with_the_loss_of_its_lease(cluster: RunningStack, topic: str) -> None:
    async with AsyncClient(cluster.urls, retries=QUICK) as client:
        await client.schedule(topic, 1, after=0)
        async for lease in client.consume(topic, "w", lease_for=0.3, auto_extend=False):
            await asyncio.wait_for(lease.wait_lost(), 60)
            assert lease.lost
            break


def test_the_future_can_be_seen(client: Client, topic: str) -> None:
    client.schedule_many(topic, [Draft(n, after=60 + n, id=f"m{n}") for n in range(10)])
    now = client.now()
    slots = client.load(topic, now, now + 120, 60)
    assert sum(slot.waiting for slot in slots) == 10
    assert client.count(topic, status="waiting") == 10
    assert [message.id for message in client.messages(topic, limit=3, after="m7")] == ["m8", "m9"]
    client.move(topic, "m9", after=3600)
    assert client.count(topic, start=now, end=now + 120) == 9
    assert [outcome.status for outcome in client.delete_messages(topic, ["m1", "nothing"])] == ["ok", "not_found"]


def test_the_dead_are_brought_back(client: Client, topic: str) -> None:
    client.create_topic(f"{topic}.dead")
    client.create_topic(topic, max_attempts=1, dead_letter_topic=f"{topic}.dead")
    client.schedule(topic, {"n": 1}, after=0, id="a")
    next(client.consume(topic, "w")).release()
    until(lambda: client.count(f"{topic}.dead") == 1)
    assert client.message(f"{topic}.dead", "a").dead_letter
    assert client.redrive(f"{topic}.dead").moved == 1
    with next(client.consume(topic, "w")) as lease:
        assert (lease.body, lease.attempts) == ({"n": 1}, 1)
