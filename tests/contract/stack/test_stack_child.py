"""Supervised processes that run to their end: they tell how far they have come, and optional ones may fail."""

import sys
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
