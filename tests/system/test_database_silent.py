"""A database that vanishes without a word, or refuses everybody: what does not need it goes on, the rest is told so, and all
of it heals when it is back under the same address."""

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any
from uuid import uuid4

import httpx
import psycopg
import pytest
from silent_proxy import SilentProxy, silent_proxy_to

from conftest import Services, _node_on, command
from meantime.stack.model import Places

pytestmark = [pytest.mark.takes(seconds=80), pytest.mark.timeout(400)]


@pytest.fixture(scope="module")
def proxy(services: Services) -> Iterator[SilentProxy]:
    with silent_proxy_to(services.postgres) as proxy:
        yield proxy


@pytest.fixture(scope="module")
def places(services: Services, proxy: SilentProxy) -> Iterator[Places]:
    with _node_on(replace(services, postgres=proxy.uri), MEANTIME_AUTH="true") as places:
        yield places


@pytest.fixture
def user(places: Places) -> Iterator["User"]:
    user = User(places)
    try:
        yield user
    finally:
        user.http.close()


class User:
    """Someone with a key, an event type and a topic of their own."""

    def __init__(self, places: Places) -> None:
        made = json.loads(command(places, "keys", "add", "user", "-s", "admin", "--json")[1])
        self.key_id, headers = made["id"], {"Authorization": f"Bearer {made['key']}", "X-Producer-Group": "g"}
        self.http = httpx.Client(base_url=places.nodes[0].url, headers=headers, timeout=60.0, trust_env=False)
        self.name = f"orders.{uuid4().hex[:8]}"
        declared = self.http.post("/event-types", json={"name": self.name, "category": "undefined"})
        assert declared.status_code == 201, declared.text
        made_topic = self.http.put(f"/topics/{self.name}", json={})
        assert made_topic.status_code == 201, made_topic.text
        assert self.publish() == 200
        assert self.create().status_code == 201

    def publish(self) -> int:
        return self.http.post(f"/event-types/{self.name}/events", json=[{"n": 1}]).status_code

    def create(self) -> httpx.Response:
        message = {"id": uuid4().hex, "at_ms": int(time.time() * 1000) + 3_600_000, "body": 1}
        return self.http.post(f"/topics/{self.name}/messages", json={"messages": [message]})

    def set_timer(self, event_type: str) -> int:
        timer = {"at": int(time.time()) + 3600, "callback_topic": f"event-type:{event_type}", "callback": {"n": 1}}
        return self.http.post("/timers", json=timer).status_code

    def declare(self) -> httpx.Response:
        return self.http.post("/event-types", json={"name": f"other.{uuid4().hex[:8]}", "category": "undefined"})

    def ready(self) -> int:
        return self.http.get("/ready").status_code


def until(look: Callable[[], Any], within: float = 60.0) -> None:
    deadline = time.monotonic() + within
    while not look():
        assert time.monotonic() < deadline, f"did not happen within {within} s"
        time.sleep(0.2)


@pytest.mark.parametrize("go", [SilentProxy.vanish, SilentProxy.refuse])
def test_without_its_database_a_node_publishes_and_refuses_what_needs_it_until_it_is_back(
    proxy: SilentProxy, user: User, go: Callable[[SilentProxy], None]
) -> None:
    go(proxy)
    try:
        assert [user.publish() for _ in range(20)] == [200] * 20
        assert user.set_timer(user.name) == 202
        assert user.set_timer("nobody.can.say") == 202, "whether there is such an event type shows when it fires"
        for refused in (user.create(), user.declare(), user.create()):
            assert refused.status_code == 503, refused.text
            assert refused.json()["code"] == "storage_unavailable"
            assert int(refused.headers["Retry-After"]) > 0
        until(lambda: user.ready() == 503)
        lasting = time.monotonic() + 12  # longer than what is known of an event type counts as fresh
        while time.monotonic() < lasting:
            assert user.publish() == 200
    finally:
        proxy.come_back()
    until(lambda: user.create().status_code == 201)
    until(lambda: user.declare().status_code == 201)
    until(lambda: user.ready() == 200)
    assert user.publish() == 200


def test_a_key_that_was_revoked_is_not_trusted_when_the_database_vanishes(
    proxy: SilentProxy, places: Places, user: User
) -> None:
    assert user.publish() == 200
    assert command(places, "keys", "revoke", user.key_id)[0] == 0
    until(lambda: user.publish() == 401)
    proxy.vanish()
    try:
        assert user.publish() in (401, 503)
    finally:
        proxy.come_back()
    until(lambda: user.publish() == 401)


def test_a_node_whose_database_is_read_only_says_so_and_publishes(places: Places, user: User) -> None:
    def make(read_only: str) -> None:
        with psycopg.connect(places.postgres, autocommit=True) as connection:
            connection.execute("SET default_transaction_read_only = off")
            database = places.postgres.rpartition("/")[2]
            connection.execute(f'ALTER DATABASE "{database}" SET default_transaction_read_only = {read_only}')
            connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s AND pid <> pg_backend_pid()",
                (database,),
            )

    make("on")
    try:
        until(lambda: [reason["code"] for reason in user.http.get("/ready").json()["reasons"]] == ["storage_read_only"])
        assert user.ready() == 503
        assert user.create().status_code == 503
        assert user.publish() == 200
    finally:
        make("off")
    until(lambda: user.ready() == 200)
    until(lambda: user.create().status_code == 201)
