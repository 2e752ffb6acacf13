"""How long until all of three processes have acknowledged a step of a switch: `python bench/barrier.py HOSTS [SWITCHES]`.

HOSTS is a running ZooKeeper, `host:port`; a root of its own is used and left behind. Two participants are processes of their
own, the third is this one, which switches.
"""

import asyncio
import subprocess
import sys
import time
import uuid
from pathlib import Path

from meantime.coordination.barrier import open_barrier
from meantime.coordination.session import SessionOptions, open_session
from meantime.coordination.switch_steps import SwitchSteps

PARTICIPANT = Path(__file__).parents[1] / "tests" / "support" / "barrier_participant.py"
NODES = {"node-1", "node-2", "node-3"}


async def measure(hosts: str, switches: int) -> list[float]:
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


def main() -> None:
    hosts = f"{sys.argv[1]}/bench-{uuid.uuid4().hex}"
    switches = int(sys.argv[2]) if len(sys.argv) > 2 else 100
    command = [sys.executable, str(PARTICIPANT), hosts]
    started = [
        subprocess.Popen([*command, name, "6"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
        for name in ("node-2", "node-3")
    ]
    try:
        took_ms = asyncio.run(measure(hosts, switches))
    finally:
        for process in started:
            process.communicate(timeout=20)
    count = len(took_ms)
    p50, p99 = took_ms[count // 2], took_ms[count * 99 // 100]
    print(f"{count} steps until all of 3 acknowledged: p50 {p50:.1f} ms, p99 {p99:.1f} ms, max {took_ms[-1]:.1f} ms")


if __name__ == "__main__":
    main()
