"""The application that workers of the fault suite run: it writes down which message it was given, before and after.

One line a step, appended in one write, so that what a killed process was doing is known.
"""

import asyncio
import os
import time
from typing import Any

import msgspec

from meantime.runtime import die_with_parent
from meantime.workers.app import App, Message

NAME = os.environ.get("CHAOS_APP", "chaos")
RUNS = os.environ.get("CHAOS_RUNS", os.devnull)
WORKER = f"{os.environ.get('CHAOS_WORKER', 'worker')}/{os.getpid()}"

# Workers end with the suite, also when that is killed.
if "CHAOS_PID" in os.environ:
    die_with_parent(int(os.environ["CHAOS_PID"]))

app = App(NAME)


class RunLine(msgspec.Struct, frozen=True):
    """One line of the file."""

    step: str
    worker: str
    partition: int
    number: int
    at_ms: float


def write(step: str, message: Message) -> None:
    line = RunLine(step, WORKER, int(message.partition), message.event["n"], time.time_ns() / 1e6)
    handle = os.open(RUNS, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        os.write(handle, msgspec.json.encode(line) + b"\n")
    finally:
        os.close(handle)


@app.job(os.environ.get("CHAOS_JOBS", "chaos.jobs"))
async def work(message: Message, context: Any) -> None:
    write("began", message)
    await asyncio.sleep(0.002)
    write("ended", message)
