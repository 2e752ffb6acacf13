"""Ways around the rights that a key has, tried on a node that asks for keys."""

import asyncio
from uuid import uuid4

import httpx
import pytest

from meantime.access.keys import Keys
from meantime.database.pool import open_database

pytestmark = pytest.mark.takes(seconds=30)

NOW_MS = 1


@pytest.fixture(scope="module")
def places(node_of):
    with node_of(MEANTIME_AUTH="true") as places:
        yield places


@pytest.fixture
def name() -> str:
    return f"n-{uuid4().hex[:8]}"


def new_key(places, *scopes: str) -> tuple[str, str]:
    async def add() -> tuple[str, str]:
        async with open_database(places.postgres, size=2) as database:
            return await Keys(database).add("test", list(scopes), NOW_MS)

    return asyncio.run(add())


@pytest.fixture
def client_with(places):
    """`client_with("timers")` speaks to the node with a new key of these scopes."""
    opened: list[httpx.Client] = []

    def client(*scopes: str, **headers: str) -> httpx.Client:
        authorization = {"Authorization": f"Bearer {new_key(places, *scopes)[1]}"}
        opened.append(httpx.Client(base_url=places.nodes[0].url, headers=authorization | headers, timeout=30))
        return opened[-1]

    yield client
    for one in opened:
        one.close()


@pytest.fixture
def admin(client_with) -> httpx.Client:
    return client_with("admin")


def test_an_application_cannot_send_its_dead_letters_into_the_topics_of_another(client_with, admin, name) -> None:
    for purpose in ("retry", "dead"):
        assert admin.put(f"/topics/{name}.{purpose}", json={}).status_code == 201
    other = client_with("produce:other", "consume:other.retry")
    settings = {"max_attempts": 1, "dead_letter_topic": f"{name}.retry"}
    refused = other.put("/topics/other.retry", json=settings)
    assert (refused.status_code, refused.json()["required_scope"]) == (403, f"produce:{name}")
    own = client_with(f"produce:{name}")
    assert own.put(f"/topics/{name}.retry", json={"dead_letter_topic": f"{name}.dead"}).status_code == 200
    assert own.put(f"/topics/{name}.periodic", json={}).status_code == 201
