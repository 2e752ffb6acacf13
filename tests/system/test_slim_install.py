"""What `pip install meantime` brings: the client library and the command line, and words for what it does not bring."""

import json
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

from conftest import RunningStack
from meantime.extras import EXTRAS

pytestmark = [pytest.mark.takes(seconds=40), pytest.mark.timeout(300)]

ROOT = Path(__file__).parents[2]
MOST_BYTES = 30 << 20
Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with nothing but the wheel and what it asks for."""
    folder = tmp_path_factory.mktemp("slim")
    subprocess.run([sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder], cwd=ROOT, check=True)
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder / "venv"], check=True)
    (wheel,) = folder.glob("*.whl")
    install = [sys.executable, "-m", "pip", "--python", folder / "venv" / "bin" / "python", "install", "--quiet", wheel]
    subprocess.run([*install, "--constraint", constraints(folder)], check=True)
    return folder / "venv"


def constraints(folder: Path) -> Path:
    """The versions that everything else here is tested with."""
    pinned = [line.partition(" ")[0] for line in (ROOT / "requirements.lock").read_text().splitlines() if "==" in line]
    file = folder / "constraints.txt"
    file.write_text("\n".join(line for line in pinned if line[0].isalpha()))
    return file


@pytest.fixture
def run(home: Path, tmp_path: Path) -> Run:
    def command(program: str, *arguments: str) -> "subprocess.CompletedProcess[str]":
        line = [str(home / "bin" / program), *arguments]
        return subprocess.run(line, cwd=tmp_path, env={}, capture_output=True, text=True, timeout=120, check=False)

    return command


def test_it_is_small(home: Path) -> None:
    installed = sum(file.stat().st_size for file in home.rglob("site-packages/**/*") if file.is_file())
    assert installed <= MOST_BYTES


def test_commands_about_a_cluster_work_and_so_does_the_library(run: Run, cluster: RunningStack) -> None:
    url = cluster.urls[0]
    assert run("meantime", "topics", "create", "slim", "--url", url).returncode == 0
    assert run("meantime", "schedule", "slim", '{"n": 1}', "--after", "0", "--url", url).returncode == 0
    taken = run("meantime", "consume", "slim", "--limit", "1", "--json", "--url", url)
    assert json.loads(taken.stdout)["body"] == {"n": 1}, taken.stderr
    assert run("meantime", "nodes", "--url", url).returncode == 0
    assert run("meantime", "--help").returncode == 0
    assert "message Future {" in run("meantime", "timers", "proto").stdout
    script = f"from meantime import App, Client\nwith Client({url!r}) as client: print(len(client.nodes()))"
    assert run("python", "-c", script).stdout == f"{len(cluster.urls)}\n"


@pytest.mark.parametrize(
    ("extra", "command"),
    [
        ("stack", ("up",)),
        ("stack", ("demo",)),
        ("node", ("node",)),
        ("node", ("keys", "list", "--postgres", "postgresql://nowhere")),
        ("node", ("worker", "run", "jobs:app")),
        ("node", ("ledger",)),
        ("spark", ("pipeline", "buffer", "--from", "a", "--to", "b", "--delay", "1h")),
    ],
)
def test_a_command_whose_extra_is_missing_says_which(run: Run, extra: str, command: tuple[str, ...]) -> None:
    ended = run("meantime", *command)
    assert ended.returncode == 3, ended.stderr
    assert f"pip install 'meantime[{extra}]'" in ended.stderr
    assert "Traceback" not in ended.stderr


@pytest.mark.parametrize(
    "code", ["from meantime.pipelines import session; session('x')", "from meantime.pipelines import register"]
)
def test_pipelines_without_spark_say_so(run: Run, code: str) -> None:
    assert "pip install 'meantime[spark]'" in run("python", "-c", code).stderr.splitlines()[-1]


def test_every_package_of_an_extra_is_known_by_its_module() -> None:
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    names = {"google": "protobuf", "psycopg_pool": "psycopg"}
    for extra, modules in EXTRAS.items():
        asked = {one.partition("[")[0].partition("~")[0].partition(">")[0].partition("=")[0] for one in declared[extra]}
        known = {names.get(module, module).replace("_", "-") for module in modules}
        assert asked - {"meantime"} <= known | {"yoyo-migrations"}, extra
