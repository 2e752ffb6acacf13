"""The examples of the guides, run as a reader would run them: every fenced `python` and `bash` block, in order."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from conftest import RunningStack

pytestmark = pytest.mark.takes(seconds=40)

DOCS = Path(__file__).parents[2] / "docs"
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def script(page: str, language: str) -> str:
    """All blocks of a language, with names that no other page uses."""
    texts = [text for kind, text in BLOCK.findall((DOCS / f"{page}.md").read_text()) if kind == language]
    return re.sub(r"\b(orders|users|reminders)\b", rf"\1-{page}", "\n".join(texts))


def run(command: list[str], cluster: RunningStack, folder: Path) -> None:
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = os.environ | {"MEANTIME_DATA": str(cluster.folder.path), "PATH": path}
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


def test_the_guide_to_the_client_runs_as_it_is_written(cluster: RunningStack, tmp_path: Path) -> None:
    lines = script("sdk", "python").replace("http://127.0.0.1:8080", cluster.urls[0])
    run([sys.executable, "-c", lines], cluster, tmp_path)


def test_the_guide_to_the_command_line_runs_as_it_is_written(cluster: RunningStack, tmp_path: Path) -> None:
    run(["bash", "-euxo", "pipefail", "-c", script("cli", "bash")], cluster, tmp_path)


def test_the_guide_to_streams_runs_as_it_is_written(cluster: RunningStack, tmp_path: Path) -> None:
    lines = script("streams", "bash").replace("http://127.0.0.1:8080", cluster.urls[0])
    run(["bash", "-euxo", "pipefail", "-c", lines], cluster, tmp_path)
