"""Names of pages and names that users give meet in one path: a timer must be reached whatever its token is."""

from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from types import SimpleNamespace

import httpx
import pytest
from http_server import open_http_server

from meantime.timers.model import LedgerEntry, TimerId, TimerState


@dataclass
class Asked:
    """Takes the place of the requests of a node, and remembers what reached it."""

    calls: list[tuple[str, str, int | None]] = field(default_factory=list)

    async def cancel(self, token: str, at: int | None) -> TimerId:
        self.calls.append(("cancel", token, at))
        return TimerId(token, at or 0)

    async def show(self, token: str, at: int | None) -> LedgerEntry:
        self.calls.append(("show", token, at))
        return LedgerEntry(token, at or 0, TimerState.PENDING)

    async def load(self, start: int, end: int, step: int) -> list[tuple[int, int]]:
        self.calls.append(("load", "", start))
        return [(start, 0)]


class NoSchedules:
    """Nothing is to come."""

    async def of_timers(self, from_ms: int, to_ms: int, step_ms: int) -> Counter[int]:
        return Counter()


@pytest.fixture
def asked() -> Asked:
    return Asked()


@pytest.fixture
async def http(asked: Asked) -> AsyncIterator[httpx.AsyncClient]:
    async with (
        open_http_server(
            timers=SimpleNamespace(requests=asked), schedules=SimpleNamespace(forecast=NoSchedules())
        ) as server,
        httpx.AsyncClient(base_url=server.url) as client,
    ):
        yield client


@pytest.mark.parametrize("token", ["load", "status", "t-1"])
async def test_a_timer_is_cancelled_and_shown_whatever_its_token_is(
    http: httpx.AsyncClient, asked: Asked, token: str
) -> None:
    answer = await http.delete(f"/timers/{token}", params={"at": 7})
    assert (answer.status_code, answer.json()) == (202, {"token": token, "at": 7})
    shown = await http.get(f"/timers/{token}", params={"at": 7})
    assert shown.json() == {"token": token, "at": 7, "state": "pending"}
    assert asked.calls == [("cancel", token, 7), ("show", token, 7)]


async def test_the_load_needs_its_range_and_answers_with_slots(http: httpx.AsyncClient, asked: Asked) -> None:
    assert (await http.get("/timers/load", params={"from": 1, "to": 2})).status_code == 400
    answer = await http.get("/timers/load", params={"from": 1, "to": 2, "step": 1})
    assert answer.json() == {"slots": [{"from": 1, "pending": 0}]}
    assert asked.calls == [("load", "", 1)]
