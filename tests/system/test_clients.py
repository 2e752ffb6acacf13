"""HTTP clients as they come, in their default settings: each walks through a node and sees what all the others see.

The programs are in `tests/clients`. One whose tool chain this machine does not have is skipped by name.
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from sdk_proxy import Proxy, proxy_to
from tls_nodes import make_signed_certificate

from conftest import RunningStack, short_lived_folder
from meantime.errors import StackError
from meantime.stack.java.runtime import find_java
from meantime.stack.model import Places

# Go compiles its standard library when it is first asked.
pytestmark = [pytest.mark.takes(seconds=120), pytest.mark.timeout(900)]

PROGRAMS = Path(__file__).parents[1] / "clients"
HTTP1, HTTP2 = "HTTP/1.1", "HTTP/2"
PROBLEM = "application/problem+json"
CALLS_OF_CURL = 25
"""Each of its calls is a process, with a connection of its own; the twenty of `keep alive` are one, unless that
is more than this curl can do: see `walk.sh`."""

IMPATIENT = 20
"""Node and httpx close what was idle for four or five seconds, as it may be on a busy machine; one for each would be 40."""


@dataclass(frozen=True, slots=True)
class Walker:
    program: str
    how: str
    speaks: str
    connections: int
    """How many it may open at most, for more than forty requests."""

    def __str__(self) -> str:
        return f"{self.program} {self.how}"


PLAIN = [
    Walker("curl", "--http1.1", HTTP1, CALLS_OF_CURL),
    Walker("curl", "--http2", HTTP1, CALLS_OF_CURL),
    Walker("curl", "--http2-prior-knowledge", HTTP2, CALLS_OF_CURL + 20),
    Walker("go", "default", HTTP1, 5),
    Walker("go", "h2c", HTTP2, 1),
    Walker("java", "default", HTTP1, 5),
    Walker("node", "default", HTTP1, IMPATIENT),
    Walker("python", "http1", HTTP1, IMPATIENT),
    Walker("python", "http2", HTTP2, IMPATIENT),
]
ENCRYPTED = [
    Walker("curl", "--http1.1", HTTP1, CALLS_OF_CURL),
    Walker("curl", "--http2", HTTP2, CALLS_OF_CURL),
    Walker("go", "default", HTTP2, 1),
    Walker("java", "default", HTTP2, 1),
    Walker("node", "default", HTTP1, IMPATIENT),
    Walker("python", "both", HTTP2, IMPATIENT),
]


def seen_by_all(name: str) -> list[tuple[str, int, list[Any]]]:
    return [
        ("create event type", 201, []),
        ("publish", 200, []),
        ("read events", 200, [1, 2, 3]),
        ("subscribe", 201, [name]),
        ("read subscription", 200, [1, 2, 3]),
        ("commit", 204, []),
        ("committed", 200, [True]),
        ("create topic", 201, [name]),
        ("schedule", 201, ["created"] * 3),
        ("lease", 200, ["m1", "m2", "m3"]),
        ("extend", 200, ["ok"] * 3),
        ("delete", 200, ["ok"] * 2),
        ("schedule while streaming", 201, ["created"]),
        ("push", 200, ["m3", "m4"]),
        ("delete what was pushed", 200, ["ok"] * 2),
        ("not an array", 400, [PROBLEM, 400, "malformed"]),
        ("no such event type", 404, [PROBLEM, 404, "not_found"]),
        ("no instant", 400, [PROBLEM, 400, "malformed"]),
        ("keep alive", 200, [200]),
        ("large body", 200, []),
        ("body in chunks", 201, ["created"]),
    ]


@pytest.fixture(scope="module")
def commands() -> Iterator[Callable[[str], list[str]]]:
    """How to run a program; asking for one that cannot run here skips the test."""
    with short_lived_folder() as folder:
        makers = {"curl": _curl, "go": lambda: _go(folder), "java": _java, "node": _node, "python": _python}
        made: dict[str, list[str]] = {}

        def command(program: str) -> list[str]:
            if program not in made:
                made[program] = makers[program]()
            return made[program]

        yield command


def _curl() -> list[str]:
    _need("curl")
    if "HTTP2" not in _printed("curl", "--version"):
        pytest.skip("curl is installed without HTTP/2")
    return ["bash", str(PROGRAMS / "curl" / "walk.sh")]


def _go(folder: Path) -> list[str]:
    _need("go")
    without_network = {"CGO_ENABLED": "0", "GOFLAGS": "-mod=mod -buildvcs=false", "GOPROXY": "off", "GOTOOLCHAIN": "local"}
    version = _printed("go", "env", "GOVERSION").strip().removeprefix("go")
    if tuple(map(int, version.split(".")[:2])) < (1, 24):
        pytest.skip(f"go is installed as {version}; HTTP/2 without TLS needs 1.24")
    built = subprocess.run(
        ["go", "build", "-o", str(folder / "walk"), "."],
        cwd=PROGRAMS / "go",
        env={**os.environ, **without_network},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
        start_new_session=True,
    )
    assert built.returncode == 0, built.stderr
    return [str(folder / "walk")]


def _java() -> list[str]:
    try:
        java = find_java()
    except StackError as error:
        pytest.skip(f"java is not installed: {error}")
    if "jdk.compiler" not in _printed(str(java.executable), "--list-modules"):
        pytest.skip(f"java is installed without its compiler: {java.executable}")
    return [str(java.executable), str(PROGRAMS / "java" / "Walk.java")]


def _node() -> list[str]:
    _need("node")
    if int(_printed("node", "--version").removeprefix("v").split(".")[0]) < 18:
        pytest.skip("node is installed without fetch: it needs 18")
    return ["node", str(PROGRAMS / "node" / "walk.mjs")]


def _python() -> list[str]:
    return [sys.executable, str(PROGRAMS / "python" / "walk.py")]


def _need(tool: str) -> None:
    if shutil.which(tool) is None:
        pytest.skip(f"{tool} is not installed")


def _printed(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout


def walk(command: list[str], walker: Walker, url: str, **variables: str) -> None:
    """Run the program to its end, and compare what it has seen."""
    name = f"walk-{uuid4().hex[:12]}"
    direct = {"NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1"}
    done = subprocess.run(
        [*command, url, name, walker.how],
        stdin=subprocess.DEVNULL,
        env={**os.environ, **direct, **variables},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
        start_new_session=True,
    )
    said = f"{done.stdout}\n{done.stderr}"
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert [(line["step"], line["status"], line["seen"]) for line in lines] == seen_by_all(name), said
    assert {line["protocol"] for line in lines} == {walker.speaks}
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("walker", PLAIN, ids=str)
def test_a_client_walks_through_a_node(walker: Walker, cluster: RunningStack, commands: Any) -> None:
    command = commands(walker.program)
    with proxy_to(cluster.urls[0]) as proxy:
        walk(command, walker, proxy.url)
    assert proxy.connections <= walker.connections
    _check_what_was_said(walker, proxy)


def _check_what_was_said(walker: Walker, proxy: Proxy) -> None:
    """That the client did what makes it worth a test."""
    if walker.speaks == HTTP2:
        assert proxy.heard.startswith(b"PRI * HTTP/2.0\r\n")
        return
    heard = bytes(proxy.heard).lower()
    assert b"transfer-encoding: chunked" in heard
    assert (b"upgrade: h2c" in heard) == (str(walker) in ("java default", "curl --http2"))
    if walker.program == "curl":
        assert b"expect: 100-continue" in heard
        assert b"HTTP/1.1 100 Continue" in proxy.answered


@pytest.fixture(scope="module")
def encrypted(node_of: Callable[..., AbstractContextManager[Places]]) -> Iterator[tuple[str, Path]]:
    """A node with a certificate of a private CA, and that CA."""
    with short_lived_folder() as folder:
        certificate, authority = make_signed_certificate(folder)
        with node_of(MEANTIME_TLS_CERT=str(certificate.cert), MEANTIME_TLS_KEY=str(certificate.key)) as places:
            yield places.nodes[0].url, authority


@pytest.mark.parametrize("walker", ENCRYPTED, ids=str)
def test_a_client_walks_through_a_node_over_tls(walker: Walker, encrypted: tuple[str, Path], commands: Any) -> None:
    command, (url, authority) = commands(walker.program), encrypted
    trusting = dict.fromkeys(("SSL_CERT_FILE", "CURL_CA_BUNDLE", "NODE_EXTRA_CA_CERTS"), str(authority))
    with proxy_to(url) as proxy:
        walk(command, walker, proxy.url, **trusting)
    assert proxy.connections <= walker.connections
