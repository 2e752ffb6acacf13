"""The peer of the edge: granian with an application that answers everything with the same few bytes, twice."""

import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any


async def asgi(scope: dict[str, Any], receive: Any, send: Any) -> None:
    if scope["type"] == "http":
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"application/json")]})
        await send({"type": "http.response.body", "body": b'{"status":"up"}'})


async def rsgi(scope: Any, protocol: Any) -> None:
    protocol.response_str(200, [("content-type", "application/json")], '{"status":"up"}')


class Missing(Exception):
    """What has to be installed first."""


def granian(given: str | None) -> list[str]:
    """How it is called."""
    if given is not None:
        return [given]
    if find_spec("granian") is not None:
        return [sys.executable, "-m", "granian"]
    if found := shutil.which("granian"):
        return [found]
    raise Missing("granian is not installed: pip install 'granian~=2.8' uvloop, or say where it is with --granian")


@contextmanager
def running_peer(command: list[str], interface: str) -> Iterator[str]:
    """One worker on uvloop, as a node is one process; gives its URL."""
    port = _free_port()
    options = ["--interface", interface, "--host", "127.0.0.1", "--port", str(port), "--workers", "1", "--loop", "uvloop"]
    options += ["--no-ws", "--log-level", "error", "--working-dir", str(Path(__file__).parent)]
    peer = subprocess.Popen([*command, *options, f"{Path(__file__).stem}:{interface}"], start_new_session=True)
    try:
        _wait_for(port)
        yield f"http://127.0.0.1:{port}"
    finally:
        peer.terminate()
        peer.wait(20)


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def _wait_for(port: int) -> None:
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            time.sleep(0.05)
        else:
            return
    raise TimeoutError("granian does not answer")
