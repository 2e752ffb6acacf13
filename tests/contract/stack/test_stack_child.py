"""Supervised processes that run to their end: they tell how far they have come, and optional ones may fail."""

import asyncio
import errno
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from meantime.errors import StackError
from meantime.stack import child
from meantime.stack.child import Child
from meantime.stack.folder import Folder, StateFile
from meantime.stack.model import Event, Spec

SLOW = "import time; print('10 of 46', flush=True); time.sleep(1)"


def once(folder: Path, program: str, told: list[Event], *, optional: bool = False) -> Child:
    command = (sys.executable, "-c", program)
    spec = Spec(kind="test", name="test", command=command, log=folder / "logs" / "test.log", once=True, optional=optional)
    return Child(spec, 0, StateFile(Folder(folder)), told.append)


async def test_a_process_that_runs_to_its_end_tells_the_last_line_of_its_log(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(child, "_TELL_EVERY", 0.1)
    told: list[Event] = []
    await once(folder, SLOW, told).start()
    assert "its end (10 of 46)" in {event.detail for event in told if event.kind == "waiting"}
    assert told[-1].kind == "ready"
    assert StateFile(Folder(folder)).state.processes == ()


async def test_an_optional_process_that_fails_is_noted_and_another_one_is_an_error(folder: Path) -> None:
    told: list[Event] = []
    await once(folder, "raise SystemExit(3)", told, optional=True).start()
    assert StateFile(Folder(folder)).state.processes == ()
    assert (told[-1].kind, told[-1].detail) == ("note", "did not work: ended with exit code 3")
    with pytest.raises(StackError, match="test did not come up: ended with exit code 3"):
        await once(folder, "raise SystemExit(3)", told).start()


async def test_a_process_whose_disk_is_in_trouble_when_it_is_started_again_is_tried_until_it_works(folder: Path) -> None:
    """A read-only disk of one service ended the supervisor, and with it all the others."""
    told: list[Event] = []
    starts: list[int] = []

    def prepare() -> None:
        starts.append(len(starts))
        if len(starts) in (2, 3):
            raise OSError(errno.EROFS, "Read-only file system")

    spec = Spec(kind="test", name="test", command=("sleep", "60"), log=folder / "logs" / "test.log", prepare=prepare)
    one = Child(spec, 0, StateFile(Folder(folder)), told.append)
    await one.start()
    keeping = asyncio.create_task(one.keep())
    try:
        (row,) = Folder(folder).read().processes
        assert row.mark
        os.kill(row.mark.pid, signal.SIGKILL)
        async with asyncio.timeout(60):
            while "again (restart" not in "".join(event.detail for event in told if event.kind == "ready"):
                assert not keeping.done(), keeping.exception()
                await asyncio.sleep(0.05)
        assert len([event for event in told if "Read-only" in event.detail]) == 2
    finally:
        keeping.cancel()
        await one.stop()


async def test_a_process_that_is_slow_has_more_time_with_every_try(folder: Path) -> None:
    """A broker that reads its log again on a busy machine was ended after the same time whenever it was started."""
    began = 0.0

    def prepare() -> None:
        nonlocal began
        began = time.monotonic()

    def probe() -> str | None:
        return None if time.monotonic() - began > 0.9 else "its log to be read"

    log = folder / "logs" / "test.log"
    spec = Spec(kind="test", name="test", command=("sleep", "60"), log=log, prepare=prepare, probe=probe, ready_within=0.3)
    one = Child(spec, 0, StateFile(Folder(folder)), lambda _: None)
    await one.start()
    await one.stop()


async def test_a_process_whose_preparation_takes_too_long_is_tried_again(folder: Path) -> None:
    """On a machine that is busy enough it ended the supervisor with a traceback."""
    told: list[Event] = []

    def prepare() -> None:
        if not [event for event in told if event.kind == "died"]:
            raise subprocess.TimeoutExpired("format", 60.0)

    spec = Spec(kind="test", name="test", command=("sleep", "60"), log=folder / "logs" / "test.log", prepare=prepare)
    one = Child(spec, 0, StateFile(Folder(folder)), told.append)
    await one.start()
    await one.stop()
    assert "what prepares it has not ended within 60 s; trying again" in [event.detail for event in told]
