"""An object store in a process of its own, kept in memory."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import httpx

from meantime.stack.ports import choose

BUCKET = "pipelines"
KEYS = {"AWS_ACCESS_KEY_ID": "tests", "AWS_SECRET_ACCESS_KEY": "tests-secret"}


@contextmanager
def object_store() -> Iterator[dict[str, str]]:
    """The variables that name the store; it has one empty bucket."""
    port = choose(set())
    url = f"http://127.0.0.1:{port}"
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    quiet = subprocess.DEVNULL
    with subprocess.Popen(command, stdout=quiet, stderr=quiet, env={**os.environ, **KEYS}, start_new_session=True) as server:
        try:
            _make_bucket(f"{url}/{BUCKET}", server)
            yield {**KEYS, "AWS_ENDPOINT_URL": url, "AWS_REGION": "us-east-1"}
        finally:
            server.kill()


def _make_bucket(url: str, server: "subprocess.Popen[bytes]") -> None:
    deadline = time.monotonic() + 60
    while True:
        try:
            assert httpx.put(url, trust_env=False).status_code == 200
            return
        except httpx.TransportError:
            assert server.poll() is None, "the object store has ended"
            assert time.monotonic() < deadline, "the object store does not come up"
            time.sleep(0.1)
