"""A process that steps back does so as a whole, whether or not the system groups processes by session."""

import json
import subprocess
import sys

CODE = """
import json, os
from pathlib import Path
from meantime.runtime import step_back

def group():
    "What the group is told to be; nothing where there are no groups, and in the first session of a system, which has none."
    file = Path("/proc/self/autogroup")
    words = file.read_text().split() if file.exists() else []
    return int(words[-1]) if words else None

before = group()
step_back(7)
print(json.dumps({"before": before, "after": group(), "process": os.nice(0)}))
"""


def stepped_back(*, own_session: bool) -> dict[str, int | None]:
    command = [sys.executable, "-c", CODE]
    done = subprocess.run(command, start_new_session=own_session, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def test_the_group_of_a_process_with_a_session_of_its_own_is_nice_too():
    said = stepped_back(own_session=True)
    assert said["process"] == 7
    assert said["after"] == (None if said["before"] is None else 7)


def test_the_group_of_a_session_that_others_share_is_left_alone():
    said = stepped_back(own_session=False)
    assert said["process"] == 7
    assert said["after"] == said["before"]
