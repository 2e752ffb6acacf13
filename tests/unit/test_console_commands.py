"""The commands that the console shows to be copied are commands that there are."""

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from meantime.cli.main import build

SOURCES = Path(__file__).parents[2] / "console" / "src"
SHOWN = re.compile(r"""(?:[`"']|<code>|: )(meantime [a-z][^`\n]*?)(?:`|"\s*(?:>|/|$)|</code>|" \})""", re.MULTILINE)
PLACEHOLDER = re.compile(r"\$\{[^}]*\}")


def shown() -> list[str]:
    texts = [file.read_text("utf-8") for file in sorted(SOURCES.rglob("*.tsx"))]
    found = {PLACEHOLDER.sub("name", command) for text in texts for command in SHOWN.findall(text)}
    return sorted(found - {"meantime --help"})


def test_there_are_some() -> None:
    assert len(shown()) > 8


@pytest.mark.parametrize("command", shown())
def test_a_command_and_its_options_exist(command: str) -> None:
    _, *words = shlex.split(command)
    found: Any = get_command(build())
    while words and hasattr(found, "commands"):
        assert words[0] in found.commands, f"there is no command {words[0]!r}"
        found = found.commands[words.pop(0)]
    options = {option for parameter in found.params for option in parameter.opts}
    assert {word for word in words if word.startswith("-")} <= options
