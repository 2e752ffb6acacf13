"""The examples of the guides, run as a reader would run them: every fenced `python` and `bash` block, in order."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from conftest import RunningStack, StackOf

DOCS = Path(__file__).parents[2] / "docs"
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(page: str, language: str) -> list[str]:
    return [text for kind, text in BLOCK.findall((DOCS / page).read_text()) if kind == language]


@pytest.fixture(scope="module")
def stack(stack_of: StackOf) -> Iterator[RunningStack]:
    with stack_of(nodes=1, kafka=2) as running:
        yield running


def run(command: list[str], stack: RunningStack, folder: Path) -> None:
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = os.environ | {"MEANTIME_DATA": str(stack.folder.path), "PATH": path}
    done = subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        env=environment,
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"


def test_the_guide_to_the_client_runs_as_it_is_written(stack: RunningStack, tmp_path: Path) -> None:
    script = "\n".join(blocks("sdk.md", "python")).replace("http://127.0.0.1:8080", stack.urls[0])
    run([sys.executable, "-c", script], stack, tmp_path)


def test_the_guide_to_the_command_line_runs_as_it_is_written(stack: RunningStack, tmp_path: Path) -> None:
    run(["bash", "-euxo", "pipefail", "-c", "\n".join(blocks("cli.md", "bash"))], stack, tmp_path)
