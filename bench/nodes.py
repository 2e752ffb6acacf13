"""What nodes and their supervisor do against the clock, on a stack of its own.

    python bench/nodes.py                   everything
    python bench/nodes.py --only drift      parts: barrier drift restart

Absolute numbers depend on the machine and on what else runs on it; the targets are for one that has nothing else to do.
"""

import argparse
import asyncio
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from uuid import uuid4

import httpx

from meantime.coordination.barrier import open_barrier
from meantime.coordination.session import SessionOptions, open_session
from meantime.coordination.switch_steps import SwitchSteps
from meantime.stack import control
from meantime.stack.background import launch
from meantime.stack.folder import Folder
from meantime.stack.model import Places, StackOptions
from meantime.stack.services.nodes import environment
from meantime.stack.session import running

PARTICIPANT = Path(__file__).parents[1] / "tests" / "support" / "barrier_participant.py"
NODES = {"node-1", "node-2", "node-3"}
ROUNDS = 5


# How long until all of three processes have acknowledged a step of a switch


def barrier(places: Places, switches: int = 100) -> None:
    """Two participants are processes of their own, the third is this one, which switches."""
    hosts = f"{places.zookeeper.partition('/')[0]}/bench-{uuid4().hex}"
    with participant(hosts, "node-2"), participant(hosts, "node-3"):
        took_ms = asyncio.run(_steps_ms(hosts, switches))
    count = len(took_ms)
    p50, p99 = took_ms[count // 2], took_ms[count * 99 // 100]
    print(f"barrier: {count} steps until all of 3 acknowledged: p50 {p50:.1f} ms, p99 {p99:.1f} ms (target 50)")


@contextmanager
def participant(hosts: str, name: str) -> Iterator[None]:
    command = [sys.executable, str(PARTICIPANT), hosts, name, "6"]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
    try:
        yield
    finally:
        process.communicate(timeout=20)


async def _steps_ms(hosts: str, switches: int) -> list[float]:
    async def react(version: int, locked: frozenset[str]) -> None:
        pass

    async with open_session(SessionOptions(hosts)) as session, open_barrier(session, "node-1", react) as barrier:
        await barrier.wait_registered()
        async with asyncio.timeout(30):
            while set(await barrier.acknowledgements()) != NODES:  # noqa: ASYNC110 - nothing tells of it
                await asyncio.sleep(0.05)
        steps, took_ms = SwitchSteps(session), []
        for _ in range(switches):
            await steps.prepare()
            for step in (steps.begin("switch", "orders", b"bench"), steps.end("switch", "orders")):
                started = time.perf_counter()
                await barrier.wait_for(await step, timeout=30)
                took_ms.append((time.perf_counter() - started) * 1000)
        return sorted(took_ms)


# How long a node whose clock is wrong goes on before it is degraded


def drift(places: Places) -> None:
    took = sorted(_until_degraded(places, f"skewed-{number}") for number in range(ROUNDS))
    print(f"drift: degraded after {took[ROUNDS // 2]:.2f} s, {took[-1]:.2f} s at most (target 3)")


def _until_degraded(places: Places, id: str) -> float:
    """Seconds from its first answer to the one that says so."""
    with ExitStack() as opened:
        command = [sys.executable, "-m", "meantime", "node", "--id", id, "--port", "18080", "--clock-skew-ms", "5000"]
        env = os.environ | environment(places)
        node = opened.enter_context(subprocess.Popen(command, env=env, stderr=subprocess.DEVNULL))
        opened.callback(node.terminate)
        http = opened.enter_context(httpx.Client(base_url="http://127.0.0.1:18080", trust_env=False, verify=False))
        began = _when(lambda: http.get("/health").status_code == 200)
        return _when(lambda: "clock_drift" in http.get("/ready").text) - began


def _when(holds) -> float:  # type: ignore[no-untyped-def]
    """The instant at which it holds."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        try:
            if holds():
                return time.monotonic()
        except httpx.HTTPError:
            pass
        time.sleep(0.02)
    raise TimeoutError("it has not happened within a minute")


# How long an `up` takes after the supervisor was killed


def restart(_: Places) -> None:
    with tempfile.TemporaryDirectory(prefix="meantime-bench-") as folder:
        options = StackOptions(data=f"{folder}/data", nodes=0, migrate=False)
        launch(options, lambda _: None)
        stack = Folder(Path(options.data))
        supervisor = stack.read().supervisor
        assert supervisor is not None
        os.kill(supervisor.pid, signal.SIGKILL)
        _when(lambda: not stack.is_locked())
        began = time.monotonic()
        launch(options, lambda _: None)
        print(f"restart: up again {time.monotonic() - began:.1f} s after the supervisor was killed (target 20)")
        control.down(stack, lambda _: None)


PARTS = {"barrier": barrier, "drift": drift, "restart": restart}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", choices=PARTS, help="one part")
    only = parser.parse_args().only
    with tempfile.TemporaryDirectory(prefix="meantime-bench-") as folder, running(Path(folder) / "data", nodes=3) as places:
        for name, part in PARTS.items():
            if only in (None, name):
                part(places)


if __name__ == "__main__":
    main()
