"""A process that steps back does so as a whole, whether or not the system groups processes by session."""

import subprocess
import sys
from pathlib import Path

CODE = """
from pathlib import Path
from meantime.priority import step_back
import os
step_back(7)
group = Path("/proc/self/autogroup")
print(os.nice(0), group.read_text().split()[-1] if group.exists() else 7)
"""


def said(*, own_session: bool) -> list[int]:
    command = [sys.executable, "-c", CODE]
    done = subprocess.run(command, start_new_session=own_session, capture_output=True, text=True, check=True)
    return [int(word) for word in done.stdout.split()]


def test_the_group_of_a_process_with_a_session_of_its_own_is_nice_too():
    assert said(own_session=True) == [7, 7]


def test_the_group_of_a_session_that_others_share_is_left_alone():
    group = Path("/proc/self/autogroup")
    before = int(group.read_text().split()[-1]) if group.exists() else 7
    assert said(own_session=False) == [7, before]
