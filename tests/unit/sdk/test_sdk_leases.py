"""Leases and their keeper against a broker that is a script, with a clock that is moved by hand."""

import asyncio
import gc
from collections.abc import Callable
from typing import Any

import httpx
import msgspec
import pytest

from meantime.errors import LeaseLost
from meantime.sdk.consuming.async_lease import AsyncLease
from meantime.sdk.consuming.lease_keeper import LeaseKeeper, plan
from meantime.sdk.core import Core, Credentials
from meantime.sdk.drift import Drift
from meantime.sdk.http.transport import AsyncSender
from meantime.sdk.messages import LeasedMessage
from meantime.sdk.retries import Retries

Answering = Callable[[str, dict[str, Any]], httpx.Response]


class Broker:
    """Remembers calls as (path, body) and answers with what the test has laid ready."""

    def __init__(self) -> None:
        self.ms = 0.0
        self.asked: list[tuple[str, dict[str, Any]]] = []
        self.was_asked = asyncio.Event()
        self.answers: list[httpx.Response | Exception] = []
        retries = Retries(retry_for=0)
        core = Core("http://a", Credentials(), retries=retries, drift=Drift(lambda: self.ms, lambda: self.ms))
        self.sender = AsyncSender(core, True, httpx.MockTransport(self._handle))

    def _handle(self, request: httpx.Request) -> httpx.Response:
        self.asked.append((request.url.path, msgspec.json.decode(request.content or b"{}")))
        self.was_asked.set()
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def will_say(self, *statuses: str, at_ms: int = 60_000) -> None:
        results = [{"id": "a", "status": status, "version": 7, "at_ms": at_ms} for status in statuses]
        self.answers.append(httpx.Response(200, json={"results": results}))

    def lease(self, id: str = "a", at_ms: int = 30_000) -> AsyncLease:
        leased = LeasedMessage(id=id, version=3, at_ms=at_ms, attempts=2, body={"n": 1})
        return AsyncLease(self.sender, "t", "me", leased)

    def keeper(self, *, extending: bool = True) -> LeaseKeeper:
        return LeaseKeeper(self.sender, "t", "me", 30.0, extending=extending)


async def test_a_lease_tells_what_it_is_and_how_long_it_lasts_by_the_brokers_clock() -> None:
    broker = Broker()
    lease = broker.lease()
    assert (lease.id, lease.body, lease.attempts) == ("a", {"n": 1}, 2)
    broker.ms = 29_000
    assert lease.expires_in == 1
    assert lease.held
    broker.ms = 30_000
    assert lease.lost


async def test_deleting_settles_a_lease_and_names_its_version() -> None:
    broker = Broker()
    broker.will_say("ok")
    lease = broker.lease()
    await lease.delete()
    assert broker.asked == [("/topics/t/leases/delete", {"consumer_id": "me", "leases": [{"id": "a", "version": 3}]})]
    assert lease.settled
    with pytest.raises(LeaseLost, match="already"):
        await lease.delete()


async def test_deleting_what_an_unheard_delete_has_deleted_is_a_success() -> None:
    broker = Broker()
    broker.will_say("not_found")
    await broker.lease().delete()


@pytest.mark.parametrize("status", ["not_holder", "expired", "stale_version"])
async def test_a_delete_that_comes_too_late_says_so(status: str) -> None:
    broker = Broker()
    broker.will_say(status)
    lease = broker.lease()
    with pytest.raises(LeaseLost, match=status):
        await lease.delete()
    assert lease.lost


async def test_nothing_is_sent_for_a_lease_that_has_expired() -> None:
    broker = Broker()
    lease = broker.lease()
    broker.ms = 31_000
    with pytest.raises(LeaseLost, match="expired"):
        await lease.extend()
    assert broker.asked == []


async def test_an_extended_lease_has_a_new_version_and_end() -> None:
    broker = Broker()
    broker.will_say("ok")
    lease = broker.lease()
    await lease.extend(60)
    assert (lease.version, lease.at_ms) == (7, 60_000)


async def test_an_extension_whose_answer_was_lost_is_found_out_by_looking() -> None:
    broker = Broker()
    broker.will_say("stale_version")
    seen = {"id": "a", "at_ms": 60_000, "status": "processing", "version": 4, "lock_consumer_id": "me", "attempts": 2}
    broker.answers.append(httpx.Response(200, json=seen))
    lease = broker.lease()
    await lease.extend(60)
    assert (lease.version, lease.at_ms) == (4, 60_000)


async def test_a_message_that_was_leased_again_is_another_lease() -> None:
    broker = Broker()
    broker.will_say("stale_version")
    seen = {"id": "a", "at_ms": 60_000, "status": "processing", "version": 4, "lock_consumer_id": "me", "attempts": 3}
    broker.answers.append(httpx.Response(200, json=seen))
    with pytest.raises(LeaseLost):
        await broker.lease().extend(60)


async def test_a_block_that_succeeds_deletes_and_one_that_raises_releases() -> None:
    broker = Broker()
    broker.will_say("ok")
    async with broker.lease():
        pass
    broker.will_say("ok")
    with pytest.raises(ZeroDivisionError):
        async with broker.lease():
            raise ZeroDivisionError("no share")
    assert [path.rsplit("/", 1)[1] for path, _ in broker.asked] == ["delete", "release"]
    (given_back,) = broker.asked[1][1]["leases"]
    assert given_back["reason"] == "ZeroDivisionError: no share"
    assert "after_ms" not in given_back  # the topic says when


async def test_a_block_may_settle_its_lease_itself() -> None:
    broker = Broker()
    broker.will_say("ok")
    async with broker.lease() as lease:
        await lease.release(after=5)
    assert len(broker.asked) == 1


async def test_the_keeper_extends_what_has_used_up_its_share_and_leaves_the_rest() -> None:
    broker = Broker()
    keeper = broker.keeper()
    old, fresh = broker.lease("a", 10_000), broker.lease("b", 30_000)
    keeper.add(old)
    keeper.add(fresh)
    broker.will_say("ok")
    await keeper.turn()
    assert [entry["id"] for entry in broker.asked[0][1]["leases"]] == ["a"]
    assert (old.at_ms, fresh.at_ms) == (60_000, 30_000)


async def test_the_keeper_tells_the_handler_of_a_lease_that_is_lost() -> None:
    broker = Broker()
    keeper = broker.keeper()
    lease = broker.lease("a", 10_000)
    told: list[AsyncLease] = []
    lease.on_lost = told.append
    keeper.add(lease)
    broker.will_say("not_holder")
    await keeper.turn()
    assert told == [lease]
    await lease.wait_lost()


async def test_the_keeper_goes_on_trying_until_the_lease_has_expired() -> None:
    broker = Broker()
    keeper = broker.keeper()
    lease = broker.lease("a", 10_000)
    keeper.add(lease)
    broker.answers = [httpx.ConnectError("down"), httpx.ConnectError("down")]
    await keeper.turn()
    broker.ms = 9_000
    await keeper.turn()
    assert lease.held
    broker.ms = 10_001
    await keeper.turn()
    assert lease.lost
    assert len(broker.asked) == 2


async def test_without_extending_the_keeper_only_tells_of_the_end() -> None:
    broker = Broker()
    keeper = broker.keeper(extending=False)
    lease = broker.lease("a", 10_000)
    keeper.add(lease)
    assert await keeper.turn() == 10
    broker.ms = 10_000
    await keeper.turn()
    assert lease.lost
    assert broker.asked == []


async def test_a_lease_that_ran_out_is_lost_although_its_message_comes_again_before_the_keeper_has_looked() -> None:
    broker = Broker()
    keeper = broker.keeper(extending=False)
    told: list[AsyncLease] = []
    lease = broker.lease("a", 10_000)
    lease.on_lost = told.append
    keeper.add(lease)
    broker.ms = 10_001
    keeper.add(again := broker.lease("a", 40_000))
    assert (told, again.lost) == ([lease], False)


async def test_the_keeper_looks_at_once_only_for_a_lease_that_cannot_wait_for_the_next_look() -> None:
    broker = Broker()
    keeper = broker.keeper()
    looks: list[int] = []
    look = keeper.turn

    async def counted() -> float:
        looks.append(len(looks))
        return await look()

    keeper.turn = counted  # type: ignore[method-assign]
    running = asyncio.create_task(keeper.run())
    leases = [broker.lease(f"m{n}", 30_000) for n in range(100)]
    for lease in leases:
        keeper.add(lease)
        await asyncio.sleep(0)
    assert len(looks) <= 3, "the first lease asks for a look, the others have time until the next one"
    broker.will_say("ok")
    keeper.add(soon := broker.lease("soon", 10_000))
    async with asyncio.timeout(60):
        await broker.was_asked.wait()
    running.cancel()
    assert broker.asked[0][1]["leases"][0]["id"] == soon.id


async def test_a_lease_that_its_handler_dropped_is_not_extended_any_more() -> None:
    broker = Broker()
    keeper = broker.keeper()
    keeper.add(broker.lease("a", 10_000))
    gc.collect()
    await keeper.turn()
    assert broker.asked == []


async def test_a_lease_told_again_is_recognised_and_a_later_one_is_new() -> None:
    broker = Broker()
    keeper = broker.keeper()
    lease = broker.lease("a")
    keeper.add(lease)
    assert keeper.recognise(LeasedMessage(id="a", version=5, at_ms=50_000, attempts=2))
    assert (lease.version, lease.at_ms) == (5, 50_000)
    assert not keeper.recognise(LeasedMessage(id="a", version=6, at_ms=50_000, attempts=3))
    assert not keeper.recognise(LeasedMessage(id="b", version=5, at_ms=50_000, attempts=2))


async def test_a_failing_callback_does_not_stop_the_keeper() -> None:
    broker = Broker()
    lease = broker.lease()
    lease.on_lost = lambda _: 1 / 0  # type: ignore[assignment, return-value]
    lease.lose()
    assert lease.lost


async def test_the_plan_looks_again_when_the_next_lease_is_due() -> None:
    broker = Broker()
    decided = plan([broker.lease("a", 30_000), broker.lease("b", 25_000)], 30.0, extending=True)
    assert decided.extend == []
    assert decided.look_after == pytest.approx(25 - 30 * 0.6)
