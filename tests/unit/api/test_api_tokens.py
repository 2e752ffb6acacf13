"""Names of pages and names that users give meet in one path: a timer must be reached whatever its token is."""

from dataclasses import dataclass, field
from types import SimpleNamespace

import pytest
from litestar import Litestar
from litestar.di import Provide
from litestar.testing import TestClient

from meantime.access.scopes import EVERYBODY
from meantime.api import timers as timers_api
from meantime.api.problems import HANDLERS
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


@pytest.fixture
def asked() -> Asked:
    return Asked()


@pytest.fixture
def http(asked: Asked) -> TestClient[Litestar]:
    def let_in(request: object) -> None:
        request.scope["state"]["identity"] = EVERYBODY  # type: ignore[attr-defined]

    app = Litestar(
        timers_api.ROUTES,
        dependencies={"timers": Provide(lambda: SimpleNamespace(requests=asked), sync_to_thread=False)},
        exception_handlers=HANDLERS,
        before_request=let_in,
        openapi_config=None,
    )
    return TestClient(app)


@pytest.mark.parametrize("token", ["load", "status", "t-1"])
def test_a_timer_is_cancelled_and_shown_whatever_its_token_is(http: TestClient[Litestar], asked: Asked, token: str) -> None:
    answer = http.delete(f"/timers/{token}", params={"at": 7})
    assert (answer.status_code, answer.json()["token"]) == (202, token)
    assert http.get(f"/timers/{token}", params={"at": 7}).json()["state"] == "pending"
    assert asked.calls == [("cancel", token, 7), ("show", token, 7)]


def test_the_load_needs_its_range_and_answers_with_slots(http: TestClient[Litestar], asked: Asked) -> None:
    assert http.get("/timers/load", params={"from": 1, "to": 2}).status_code == 400
    assert http.get("/timers/load", params={"from": 1, "to": 2, "step": 1}).json() == {"slots": [{"from": 1, "pending": 0}]}
    assert asked.calls == [("load", "", 1)]
