"""The console of a cluster without authentication: what one node shows of all, and the one that is served for a cluster
elsewhere."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from threading import Event, Thread
from typing import Any
from uuid import uuid4

import httpx
import pytest

from conftest import RunningStack
from meantime.api.http.browsers import POLICY
from meantime.console.merge_patch import patched

pytestmark = [pytest.mark.takes(seconds=20), pytest.mark.timeout(300)]

GROUP = {"X-Producer-Group": "owners"}


@pytest.fixture
def name() -> str:
    return f"n-{uuid4().hex[:8]}"


def states(url: str) -> Iterator[dict[str, Any]]:
    """The state that the events of a console make, again and again."""
    state: dict[str, Any] = {}
    kind = ""
    with httpx.stream("GET", f"{url}/console/events", timeout=60, verify=False) as answer:
        assert answer.headers["content-type"] == "text/event-stream"
        assert answer.headers["content-security-policy"] == POLICY
        for line in answer.iter_lines():
            field, _, value = line.partition(": ")
            if field == "event":
                kind = value
            elif field == "data":
                state = json.loads(value) if kind == "snapshot" else patched(state, json.loads(value))
                yield state


def test_one_node_shows_what_is_done_at_all_of_them(cluster: RunningStack, name: str) -> None:
    one, other = cluster.urls
    with httpx.Client(base_url=other, timeout=60, trust_env=False) as client:
        assert client.put(f"/topics/{name}", json={}).status_code == 201
        stop = Event()

        def work() -> None:
            while not stop.wait(0.2):
                client.post(f"/topics/{name}/messages", json={"messages": [{"after_ms": 3_600_000}]}, headers=GROUP)

        worker = Thread(target=work)
        worker.start()
        try:
            deadline = time.monotonic() + 60
            for state in states(one):
                assert time.monotonic() < deadline, state
                if state["topics"].get(name, {}).get("create", 0) > 0:
                    break
        finally:
            stop.set()
            worker.join()
    assert set(state["nodes"]) == {node.id for node in cluster.places.nodes}
    assert all("offset_ms" in node for node in state["nodes"].values())


def test_without_authentication_nobody_logs_in_and_no_other_origin_writes(cluster: RunningStack, name: str) -> None:
    with httpx.Client(base_url=cluster.urls[0], timeout=60, trust_env=False) as browser:
        session = browser.get("/console/session").json()
        assert (session["authentication"], session["identity"]["scopes"]) == (False, ["admin"])
        assert browser.post("/console/login", json={"key": "whatever"}).status_code == 204
        evil = {"Origin": "http://evil.example"}
        assert browser.put(f"/topics/{name}", json={}, headers=evil).status_code == 403
        assert browser.put(f"/topics/{name}", json={}, headers={"Sec-Fetch-Site": "cross-site"}).status_code == 403
        assert browser.get(f"/topics/{name}").status_code == 404
        assert browser.put(f"/topics/{name}", json={}, headers={"Origin": cluster.urls[0]}).status_code == 201
        assert browser.get("/audit", params={"limit": 1000}).json()["entries"][0]["actor"] == "anybody"


def test_the_console_is_served_here_for_a_cluster_elsewhere(cluster: RunningStack, name: str) -> None:
    nowhere = "http://127.0.0.1:1"
    command = [sys.executable, "-m", "meantime", "console", "--port", "0", "--json", "--url", f"{nowhere},{cluster.urls[1]}"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=dict(os.environ), start_new_session=True) as process:
        try:
            assert process.stdout is not None
            printed = b""
            while not printed.rstrip().endswith(b"}"):
                line = process.stdout.readline()
                assert line, "it has ended"
                printed += line
            address = json.loads(printed)["console"].removesuffix("/console/")
            with httpx.Client(base_url=address, timeout=60, trust_env=False) as browser:
                assert browser.get("/console/session").json()["node"] == cluster.places.nodes[1].id
                page = browser.get("/console/topics")
                assert page.headers["content-security-policy"] == POLICY
                assert page.headers["content-type"].startswith("text/html")
                own = {"Origin": address}
                made = browser.put(f"/topics/{name}", json={"max_attempts": 3}, headers=own)
                assert (made.status_code, made.json()["max_attempts"]) == (201, 3)
                assert abs(int(made.headers["x-meantime-now"]) / 1000 - time.time()) < 60
                refused = browser.put(f"/topics/{name}", json={}, headers={"Origin": "http://evil.example"})
                assert refused.status_code == 403
                assert browser.get("/topics", headers={"Host": "evil.example"}).status_code == 403
                assert browser.get(f"/topics/{name}-none").status_code == 404
            assert "nodes" in next(states(address))
            process.send_signal(signal.SIGTERM)
            assert process.wait(60) == 0
        finally:
            process.kill()


def test_the_stack_says_where_its_console_is(cluster: RunningStack) -> None:
    assert cluster.status().console == f"{cluster.urls[0]}/console/"
