import os
import signal
import subprocess
import sys

import pytest

from meantime.stack import processes
from meantime.stack.child import how_it_ended, pause
from meantime.stack.model import ProcessIdentity, Row


@pytest.fixture
def sleeper():
    with subprocess.Popen(["sleep", "60"], start_new_session=True) as process:
        yield process
        process.kill()


def row(mark: ProcessIdentity | None, level: int = 0, name: str = "sleeper") -> Row:
    return Row("node", name, mark, "", "ready", 0, signal.SIGTERM, 0.3, level)


def test_a_living_process_is_recognised(sleeper):
    mark = processes.identity_of(sleeper.pid)
    assert mark is not None
    assert processes.is_alive(mark)


def test_a_reused_pid_is_not_taken_for_the_process_that_had_it(sleeper):
    assert not processes.is_alive(ProcessIdentity(sleeper.pid, "another birth"))


def test_a_dead_process_that_nobody_reaped_counts_as_gone(sleeper):
    mark = processes.identity_of(sleeper.pid)
    assert mark is not None
    os.kill(sleeper.pid, signal.SIGKILL)
    assert processes.wait_gone(mark, 2.0)


def test_leftovers_are_stopped_and_named(sleeper):
    said: list[str] = []
    assert processes.stop_leftovers((row(processes.identity_of(sleeper.pid)), row(None)), said.append) == 1
    assert sleeper.wait(60) == -signal.SIGTERM
    assert said == [f"stopping sleeper (pid {sleeper.pid}), left behind by a supervisor that was killed"]


def test_a_stranger_with_the_pid_of_a_leftover_is_left_alone(sleeper):
    assert processes.stop_leftovers((row(ProcessIdentity(sleeper.pid, "another birth")),), print) == 0
    assert sleeper.poll() is None


def test_what_does_not_stop_in_time_is_killed():
    program = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(flush=True); time.sleep(60)"
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, start_new_session=True) as deaf:
        assert deaf.stdout is not None
        deaf.stdout.readline()
        processes.stop_leftovers((row(processes.identity_of(deaf.pid)),), lambda _: None)
        assert deaf.wait(60) == -signal.SIGKILL


def test_pauses_between_restarts_grow_to_a_limit():
    assert [pause(failures) for failures in (1, 2, 3, 4, 20)] == [0.5, 1.0, 2.0, 4.0, 30.0]


def test_an_end_is_told_in_words():
    assert how_it_ended(-9) == "killed by SIGKILL"
    assert how_it_ended(1) == "ended with exit code 1"
