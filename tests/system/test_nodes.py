"""Nodes as processes: how they join, degrade, recover, refuse and stop."""

import json
import os
import signal
import ssl
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

import httpx
import pytest

from conftest import HTTP, Breakable, command, free_ports, short_lived_folder
from meantime.stack.services.nodes import environment

pytestmark = [pytest.mark.lane("nodes"), pytest.mark.takes(seconds=140)]

T = TypeVar("T")
OPENSSL = "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost -addext subjectAltName=IP:127.0.0.1"


@pytest.fixture(scope="module")
def stack(breakable: Breakable) -> Breakable:
    return breakable


def until(look: Callable[[], T | None], within: float = 60.0) -> T:
    deadline = time.monotonic() + within
    while time.monotonic() < deadline:
        try:
            if found := look():
                return found
        except httpx.HTTPError:
            pass
        time.sleep(0.1)
    raise AssertionError(f"did not happen within {within} s")


@contextmanager
def node(stack: Any, id: str, *flags: str, **variables: str) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    port = free_ports(1)
    command = [sys.executable, "-m", "meantime", "node", "--id", id, "--port", str(port), *flags]
    env = {**os.environ, **environment(stack.places), **variables}
    # In a session of its own, as the stack starts its nodes: systems that share processors out by session would give it
    # what six lanes of tests leave to each other.
    process = subprocess.Popen(command, env=env, stderr=subprocess.DEVNULL, start_new_session=True)
    scheme = "https" if "--tls-cert" in flags else "http"
    url = f"{scheme}://127.0.0.1:{port}"
    try:
        # Before that a node is a process that loads its modules, and a signal would end it without a word.
        until(lambda: HTTP.get(f"{url}/health").status_code == 200, within=120)
        yield url, process
    finally:
        process.send_signal(signal.SIGCONT)
        process.terminate()
        assert process.wait(60) == 0


@contextmanager
def frozen(*pids: int) -> Iterator[None]:
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)


def nodes(url: str) -> dict[str, dict[str, Any]]:
    return {node["id"]: node for node in HTTP.get(f"{url}/nodes").json()["nodes"]}


def _answer_with(url: str, code: str) -> httpx.Response | None:
    answer = HTTP.get(f"{url}/ready")
    return answer if any(reason["code"] == code for reason in answer.json().get("reasons", [])) else None


def test_cluster_time_is_what_most_clocks_say(stack) -> None:
    with node(stack, "ahead", "--clock-skew-ms", "5000") as (url, _):
        until(lambda: _answer_with(url, "clock_drift"))
        before = time.time() * 1000
        here = int(HTTP.get(f"{url}/health").headers["X-Meantime-Now"])
        assert before - 500 < here < time.time() * 1000 + 500
        assert 4500 < HTTP.get(f"{url}/clock").json()["offset_ms"] < 5500
    until(stack.is_whole)


def test_without_a_majority_in_sight_a_node_is_degraded(stack) -> None:
    until(stack.is_whole)
    with frozen(stack.pid("node-2"), stack.pid("node-3")):
        answer = until(lambda: _answer_with(stack.urls[0], "no_majority"))
        assert answer.status_code == 503
    until(stack.is_whole)


def test_a_killed_node_comes_back_with_its_id_and_address(stack) -> None:
    until(stack.is_whole)
    before = nodes(stack.urls[0])["node-3"]["url"]
    with frozen(stack.folder.read().supervisor.pid):  # else it may be back before anybody has missed it
        former = stack.send("node-3")
        until(lambda: nodes(stack.urls[0]).get("node-3", {}).get("state") != "healthy")
    until(lambda: stack.is_whole() and stack.pid("node-3") != former)
    assert nodes(stack.urls[0])["node-3"]["url"] == before


def test_losing_zookeeper_makes_nodes_inactive_and_its_return_heals_them(stack) -> None:
    until(stack.is_whole)
    with frozen(stack.pid("zookeeper")):
        until(lambda: HTTP.get(f"{stack.urls[0]}/ready").json().get("state") in ("degraded", "inactive"))
        assert HTTP.get(f"{stack.urls[0]}/health").status_code == 200
    until(stack.is_whole)


def test_a_skewed_node_is_degraded_says_why_and_recovers(stack) -> None:
    until(stack.is_whole)
    with node(stack, "skewed", "--clock-skew-ms", "5000", "--clock-skew-for", "20") as (url, _):
        answer = until(lambda: _answer_with(url, "clock_drift"))
        assert answer.status_code == 503
        assert "ahead of cluster time" in answer.json()["detail"]
        assert answer.headers["Content-Type"] == "application/problem+json"
        until(lambda: [node["state"] for id, node in nodes(stack.urls[0]).items() if id != "skewed"] == ["healthy"] * 3)
        assert until(lambda: HTTP.get(f"{url}/ready").status_code == 200)
    until(lambda: "skewed" not in nodes(stack.urls[0]))


def test_a_node_that_boots_alone_with_a_wrong_clock_acts_on_nothing(stack) -> None:
    """It has the same database as the others, and by its clock all leases ended long ago."""
    until(stack.is_whole)
    url, owners = stack.urls[0], {"X-Producer-Group": "owners"}
    for name, settings in (("graves", {}), ("last-attempts", {"max_attempts": 1, "dead_letter_topic": "graves"})):
        assert HTTP.put(f"{url}/topics/{name}", json=settings).is_success
    message = {"id": "alive", "after_ms": 0, "body": "alive"}
    made = HTTP.post(f"{url}/topics/last-attempts/messages", json={"messages": [message]}, headers=owners)
    assert made.status_code == 201, made.text
    asked = {"consumer_id": "c", "lease_ms": 300_000}
    (lease,) = until(lambda: HTTP.post(f"{url}/topics/last-attempts/leases", json=asked).json()["leases"])
    elsewhere = f"{stack.places.zookeeper.partition('/')[0]}/alone"
    with node(stack, "alone", "--clock-skew-ms", "600000", MEANTIME_ZOOKEEPER=elsewhere) as (lonely, _):
        answer = until(lambda: _answer_with(lonely, "clock_drift"))
        assert "ahead of the clock of PostgreSQL" in answer.json()["detail"]
        time.sleep(2)
        assert HTTP.get(f"{url}/topics/graves/count").json() == {"count": 0}
    claim = {"id": "alive", "version": lease["version"]}
    done = HTTP.post(f"{url}/topics/last-attempts/leases/delete", json={"consumer_id": "c", "leases": [claim]})
    assert done.json()["results"][0]["status"] == "ok", done.text


@pytest.fixture(scope="module")
def certificate() -> Iterator[tuple[str, str]]:
    with short_lived_folder() as folder:
        cert, key = f"{folder}/cert.pem", f"{folder}/key.pem"
        subprocess.run(f"{OPENSSL} -keyout {key} -out {cert}".split(), check=True, capture_output=True)
        yield cert, key


@pytest.fixture(scope="module")
def locked(stack, certificate) -> Iterator[str]:
    """A node that asks for a key, and speaks TLS."""
    cert, key = certificate
    with node(stack, "locked", "--auth", "--tls-cert", cert, "--tls-key", key) as (url, _):
        # It joins while the others are still getting over what was done to them before.
        until(lambda: HTTP.get(f"{url}/ready").status_code == 200)
        yield url
    until(stack.is_whole)


def meantime(stack: Any, *arguments: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, **environment(stack.places)}
    return subprocess.run(
        [sys.executable, "-m", "meantime", *arguments], env=env, capture_output=True, text=True, check=False
    )


def test_without_a_key_401_and_a_revoked_key_stops_working_at_once(stack, locked: str) -> None:
    made = json.loads(command(stack.places, "keys", "add", "ops", "-s", "admin", "--json")[1])
    headers = {"Authorization": f"Bearer {made['key']}"}
    assert HTTP.get(f"{locked}/nodes").status_code == 401
    assert HTTP.get(f"{locked}/nodes", headers={"Authorization": "Bearer mt_no_such"}).status_code == 401
    for _ in range(3):
        assert HTTP.get(f"{locked}/nodes", headers=headers).status_code == 200
    assert made["key"] not in command(stack.places, "keys", "list", "--json")[1]
    assert command(stack.places, "keys", "revoke", made["id"])[0] == 0
    assert HTTP.get(f"{locked}/nodes", headers=headers).status_code == 401
    assert HTTP.get(f"{locked}/health").status_code == 200
    assert command(stack.places, "keys", "revoke", made["id"])[0] == 5


def test_a_node_refuses_to_listen_beyond_loopback_without_authentication(stack) -> None:
    refused = meantime(stack, "node", "--host", "0.0.0.0", "--port", "0")
    assert refused.returncode != 0
    assert "without authentication" in refused.stderr
    assert "Traceback" not in refused.stderr


def test_a_taken_port_is_named(stack) -> None:
    taken = stack.urls[0].rpartition(":")[2]
    refused = meantime(stack, "node", "--id", "other", "--port", taken)
    assert refused.returncode != 0
    assert taken in refused.stderr
    assert "Traceback" not in refused.stderr


def test_tls_is_spoken_when_a_certificate_is_given(locked: str, certificate) -> None:
    trusted = ssl.create_default_context(cafile=certificate[0])
    assert httpx.get(f"{locked}/health", verify=trusted).status_code == 200
    with pytest.raises(httpx.HTTPError):
        HTTP.get(locked.replace("https", "http") + "/health")


def test_while_the_database_is_frozen_publishers_go_on_and_the_rest_is_told(stack: Breakable) -> None:
    """All of its processes stand still: nothing is closed, and nothing is answered."""
    http = httpx.Client(base_url=stack.urls[0], headers={"X-Producer-Group": "g"}, timeout=60.0, trust_env=False)
    name = f"frozen.{time.time_ns()}"
    message = {"at_ms": int(time.time() * 1000) + 3_600_000, "body": 1}

    def publish() -> int:
        return http.post(f"/event-types/{name}/events", json=[{"n": 1}]).status_code

    def create() -> httpx.Response:
        return http.post(f"/topics/{name}/messages", json={"messages": [message]})

    assert http.post("/event-types", json={"name": name, "category": "undefined"}).status_code == 201
    assert http.put(f"/topics/{name}", json={}).status_code == 201
    assert (publish(), create().status_code) == (200, 201)
    frozen = with_children(stack.pid("postgres"))
    send_all(frozen, signal.SIGSTOP)
    try:
        for _ in range(3):
            refused = create()
            assert (refused.status_code, refused.json()["code"]) in ((503, "storage_unavailable"), (503, "degraded"))
            assert int(refused.headers["Retry-After"]) > 0
            assert [publish() for _ in range(20)] == [200] * 20
        until(lambda: http.get("/ready").status_code == 503)
    finally:
        send_all(frozen, signal.SIGCONT)
    until(lambda: create().status_code == 201)
    until(lambda: http.get("/ready").status_code == 200)


def with_children(pid: int) -> list[int]:
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except FileNotFoundError:
        return []
    return [pid, *(below for child in children for below in with_children(int(child)))]


def send_all(pids: list[int], number: signal.Signals) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, number)
