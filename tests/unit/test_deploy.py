"""What the files in deploy/ name is there: commands, options, variables, ports. The tools that read them check the rest
(`make deploy-check`)."""

import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.main import get_command

from meantime.cli.commands.help import VARIABLES
from meantime.cli.main import build
from meantime.config import PREFIX, Config

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
FILES = sorted(path for path in DEPLOY.rglob("*") if path.is_file())
TEMPLATES = DEPLOY / "helm" / "meantime" / "templates"
SETTINGS = {PREFIX + key.upper() for key in Config.__struct_fields__}
KNOWN = SETTINGS | {name for name, *_ in VARIABLES}
OF_COMPOSE = {"MEANTIME_IMAGE", "MEANTIME_SPARK_IMAGE"}
PROCESSES = {"node", "oscillator", "dispatcher", "ledger", "futures", "migrate"}


def commands() -> dict[str, set[str]]:
    """Every command with its options."""
    group: Any = get_command(build())
    return {
        name: {option for parameter in command.params for option in parameter.opts}
        for name, command in group.commands.items()
    }


def called() -> Iterator[tuple[str, list[str]]]:
    """Arguments of `meantime` in every file, by the file's name."""
    compose = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
    for name, service in compose["services"].items():
        if "command" in service:
            yield f"compose.yaml {name}", service["command"]
    for unit in sorted((DEPLOY / "systemd").glob("*.service")):
        for line in re.findall(r"^ExecStart=/opt/meantime/bin/meantime (.*)$", unit.read_text(), re.MULTILINE):
            yield unit.name, line.split()
    for template in sorted(TEMPLATES.glob("*.yaml")):
        text = template.read_text()
        for line in re.findall(r"^ +args: \[(.*)\]$", text, re.MULTILINE):
            for kind in ("oscillator", "dispatcher", "ledger") if "{{ $kind }}" in line else ("",):
                yield template.name, line.replace("{{ $kind }}", kind).split(", ")
        for block in re.findall(r"^ +args:\n((?: +(?:-|#) .*\n)+)", text, re.MULTILINE):
            yield template.name, [item for item in re.findall(r"- (\S+)", block) if not item.startswith("{{")]


def test_every_command_and_option_is_there_and_every_process_is_run_everywhere() -> None:
    known = commands()
    found: dict[str, set[str]] = {}
    for file, (command, *arguments) in called():
        assert command in known, file
        assert {one for one in arguments if one.startswith("--")} <= known[command], file
        found.setdefault(file.partition(" ")[0].partition("-")[0].partition(".")[0], set()).add(command)
    assert found["compose"] == found["meantime"] == PROCESSES
    assert set.union(*(commands for file, commands in found.items() if file not in ("compose", "meantime"))) == PROCESSES


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.relative_to(DEPLOY).as_posix())
def test_every_variable_is_known(file: Path) -> None:
    named = set(re.findall(r"\bMEANTIME_[A-Z_]+[A-Z]", file.read_text("utf-8"))) - OF_COMPOSE
    assert named - {"MEANTIME_X"} <= KNOWN


def test_ports_agree() -> None:
    container = (DEPLOY / "Containerfile").read_text()
    assert f"EXPOSE {Config().port}\n" in container
    assert f"MEANTIME_PORT={Config().port} " in container
    values = yaml.safe_load((DEPLOY / "helm" / "meantime" / "values.yaml").read_text())
    assert values["nodes"]["port"] == Config().port
    compose = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]
    nodes = [service for name, service in compose.items() if name.startswith("node-")]
    assert {port.rpartition(":")[2] for node in nodes for port in node["ports"]} == {str(Config().port)}
    assert all(port.startswith("127.0.0.1:") for node in nodes for port in node["ports"])
    health = set(
        re.findall(r"containerPort: (\d+)|MEANTIME_HEALTH_PORT\n +value: \"(\d+)\"", (TEMPLATES / "timers.yaml").read_text())
    )
    assert {one or other for one, other in health} == {compose["ledger-1"]["environment"]["MEANTIME_HEALTH_PORT"]}


def test_the_image_starts_a_node_without_root_and_has_a_health_check() -> None:
    text = (DEPLOY / "Containerfile").read_text()
    last = text[text.rindex("FROM ") :]
    assert 'ENTRYPOINT ["meantime"]' in last
    assert 'CMD ["node"]' in last
    assert "\nUSER 10001:10001\n" in last
    assert 'CMD ["meantime-health"]' in last
    assert "meantime" in tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    copied = {name for line in re.findall(r"^COPY (?!--)(.*) \S+$", text, re.MULTILINE) for name in line.split()}
    kept = {line[1:] for line in (ROOT / ".containerignore").read_text().splitlines() if line.startswith("!")}
    assert copied == kept
    assert all((ROOT / name).exists() for name in copied)


def test_the_chart_is_of_this_release_and_holds_no_secret() -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    chart = yaml.safe_load((DEPLOY / "helm" / "meantime" / "Chart.yaml").read_text())
    assert chart["appVersion"] == version
    assert not any(re.search(r"^kind: Secret$", template.read_text(), re.MULTILINE) for template in TEMPLATES.glob("*.yaml"))
    for variable in ("POSTGRES", "ZOOKEEPER_AUTH", "KAFKA_SETTINGS"):
        assert f'include "meantime.secret" (list "MEANTIME_{variable}"' in (TEMPLATES / "_helpers.tpl").read_text()


def test_every_value_of_the_chart_is_described_by_its_schema() -> None:
    values = yaml.safe_load((DEPLOY / "helm" / "meantime" / "values.yaml").read_text())
    schema = json.loads((DEPLOY / "helm" / "meantime" / "values.schema.json").read_text())
    assert values.keys() <= schema["properties"].keys()
    assert values["futures"].keys() <= schema["properties"]["futures"]["properties"].keys()
    assert schema["additionalProperties"] is False


def test_the_health_check_asks_the_port_that_the_process_has() -> None:
    asked = subprocess.run(
        [sys.executable, DEPLOY / "meantime-health"],
        env={"MEANTIME_HEALTH_PORT": "1", "MEANTIME_TLS_CERT": "x"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert asked.returncode == 1
    assert asked.stderr.startswith("http://127.0.0.1:1/health: ")
