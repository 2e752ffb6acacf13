import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from typer.main import get_command

import meantime
from meantime import errors
from meantime.cli.commands.topics.load import fitting_step
from meantime.cli.exit_codes import EXITS, advice_for, exit_of
from meantime.cli.main import COMMANDS, build, run

NOWHERE = "http://127.0.0.1:1"


@pytest.fixture(autouse=True)
def _no_stack(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in list(os.environ):
        if name.startswith("MEANTIME_"):
            monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)


def test_every_error_has_an_exit_code_of_its_kind() -> None:
    assert exit_of(errors.NotFound()).code == 5
    assert exit_of(errors.Unreachable()).code == 8
    assert exit_of(errors.StorageUnavailable()).code == 8
    assert exit_of(errors.MeantimeError()).code == 1


def test_the_table_names_only_errors_that_exist() -> None:
    existing = {kind.code for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, Exception)}
    assert {code for exit in EXITS for code in exit.errors} <= existing


def test_an_unknown_code_ends_like_the_class_above_it() -> None:
    error = errors.Conflict("leased by w1")
    error.__dict__["code"] = "brand_new"
    assert exit_of(error).code == 6


def test_exit_codes_are_unique() -> None:
    codes = [exit.code for exit in EXITS]
    assert len(set(codes)) == len(codes)


def test_an_error_is_said_without_a_traceback_and_with_what_to_do(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["topics", "list", "--url", "nonsense"]) == 4
    assert capsys.readouterr().err == "error: 'nonsense' is not the address of a node; write it as http://host:port\n"


def test_who_had_a_key_is_not_told_to_give_one() -> None:
    lacks_scope = errors.Forbidden("this key lacks the scope 'publish:orders'", required_scope="publish:orders")
    assert "--scope publish:orders" in advice_for(lacks_scope, with_key=True)
    assert "--key" not in advice_for(lacks_scope, with_key=True)
    assert "--key" in advice_for(errors.Unauthenticated(), with_key=False)
    assert "another key" in advice_for(errors.Unauthenticated("this key is not known"), with_key=True)


def test_where_no_key_would_help_none_is_advised() -> None:
    assert advice_for(errors.Forbidden("storage 'default' cannot be deleted: it is the default"), with_key=False) == ""


def test_without_a_stack_it_says_how_to_name_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["topics", "list"]) == 3
    assert "meantime up" in capsys.readouterr().err


def test_with_json_an_error_is_json_too(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["topics", "list", "--json"]) == 3
    assert msgspec.json.decode(capsys.readouterr().err)["error"]["code"] == "stack"


@pytest.mark.parametrize(
    "arguments",
    [
        ["nonsense"],
        ["schedule", "t", "1", "--url", NOWHERE],
        ["schedule", "t", "1", "--after", "1s", "--at", "now", "--url", NOWHERE],
        ["schedule", "t", "1", "--after", "soon", "--url", NOWHERE],
        ["topics", "delete", "t", "--url", NOWHERE],
        ["tail", "orders", "--cursor", "0", "--url", NOWHERE],
        ["up", "--replicas", "2"],
        ["chaos", "--replicas", "2"],
        ["chaos", "nonsense"],
        ["chaos", "--faults", "fire"],
        ["chaos", "--for", "5"],
    ],
)
def test_a_wrong_command_line_ends_with_2(arguments: list[str]) -> None:
    assert run(arguments) == 2


@pytest.mark.parametrize("option", [("--url", NOWHERE), ("--key", "k"), ("--data", "d"), ("--json",)])
def test_an_option_that_stands_before_the_command_is_told_where_it_belongs(
    option: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([*option, "topics", "list"]) == 2
    assert f"{option[0]} stands behind the command" in " ".join(capsys.readouterr().err.replace("│", " ").split())


def test_the_version_and_the_exit_codes_can_be_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--version"]) == 0
    assert run(["help", "exit-codes", "--json"]) == 0
    version, _, table = capsys.readouterr().out.partition("\n")
    assert version.count(".") == 2
    assert len(msgspec.json.decode(table)) == len(EXITS)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts_are_printed(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["completion", shell]) == 0
    assert "_MEANTIME_COMPLETE" in capsys.readouterr().out


def commands(group: Any, *names: str) -> Iterator[tuple[str, Any]]:
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, *names, name)
        else:
            yield " ".join((*names, name)), command


def test_every_command_has_an_example_that_begins_with_itself() -> None:
    for name, command in commands(get_command(build())):
        assert "Example: " in command.help, name
        assert f"meantime {name}" in command.help, name


@pytest.mark.parametrize("module", COMMANDS)
def test_a_command_is_looked_for_in_the_module_that_has_it(module: str) -> None:
    for name in COMMANDS[module]:
        assert set(get_command(build(name)).commands) == set(COMMANDS[module])


def test_whatever_is_no_command_brings_them_all() -> None:
    everything = {name for names in COMMANDS.values() for name in names}
    for asked in ([], ["--help"], ["nonsense"]):
        assert set(get_command(build(*asked)).commands) == everything


def test_a_reader_that_goes_away_is_no_error() -> None:
    script = "import sys; from meantime.cli.main import run; sys.exit(run(['help', 'exit-codes']))"
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run([sys.executable, "-c", script], stdout=write, stderr=subprocess.PIPE, check=False)
    os.close(write)
    assert (done.returncode, done.stderr) == (141, b"")


def test_the_command_line_does_not_load_drivers_or_http() -> None:
    script = "import sys, meantime.cli.main as m; m.build(); print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.split()
    assert not {"httpx", "psycopg", "confluent_kafka", "h2", "httptools", "kazoo", "pyspark", "structlog"} & set(loaded)


@pytest.mark.parametrize(("ahead", "step"), [(2, 0.1), (60, 5), (3600, 300), (86_400, 3600), (604_800, 43_200)])
def test_the_chart_fits_on_a_screen(ahead: float, step: float) -> None:
    assert fitting_step(ahead) == step


@pytest.mark.parametrize("span", [("--step", "0"), ("--for", "0"), ("--for", "0", "--step", "0s")])
def test_a_look_ahead_of_no_length_is_a_wrong_command_line(span: tuple[str, ...]) -> None:
    assert run(["load", "reminders", *span, "--url", "http://127.0.0.1:1"]) == 2


@pytest.mark.parametrize("given", ["0", "0s", "-5s", "500ms", "1.5s"])
@pytest.mark.parametrize("option", ["--step", "--for"])
def test_slots_of_timers_are_whole_seconds(option: str, given: str) -> None:
    assert run(["timers", "load", option, given, "--url", NOWHERE]) == 2


def test_a_step_of_no_length_is_refused_by_name(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["timers", "load", "--step", "0", "--url", NOWHERE]) == 2
    assert "--step must be 1 s or more" in capsys.readouterr().err


def test_a_file_for_rejects_that_cannot_be_written_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "none" / "rejects.ndjson"
    assert run(["publish", "orders", "-e", "{}", "--rejects", str(file), "--url", "http://127.0.0.1:1"]) == 4
    assert f"cannot write {file}" in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments",
    [("topics", "create", "--json"), ("timers", "set", "x", "--nope", "--json"), ("topics", "nope", "--json")],
)
def test_with_json_a_mistake_of_the_command_line_is_json(
    arguments: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(arguments) == 2
    told = capsys.readouterr()
    assert json.loads(told.err)["error"]["code"] == "usage"
    assert told.out == ""


def test_a_reader_that_has_gone_is_no_traceback() -> None:
    read, write = os.pipe()
    os.close(read)
    command = [sys.executable, "-m", "meantime", "help", "variables"]
    ended = subprocess.run(command, stdout=write, stderr=subprocess.PIPE, text=True, timeout=60, check=False)
    os.close(write)
    assert (ended.returncode, ended.stderr) == (141, "")


def test_help_lists_every_variable_that_is_read(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["help", "variables", "--json"]) == 0
    listed = [row["variable"] for row in json.loads(capsys.readouterr().out)]
    sources = Path(meantime.__file__).parent.rglob("*.py")
    read = {name for source in sources for name in re.findall(r"\bMEANTIME_[A-Z_]*[A-Z]\b", source.read_text())}
    assert read - {"MEANTIME_FAULT_POINT"} <= set(listed)
    assert len(set(listed)) == len(listed)
