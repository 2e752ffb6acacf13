"""`meantime completion` and `meantime help`."""

from enum import StrEnum
from typing import Annotated

import typer

from meantime.cli.exit_codes import EXITS
from meantime.cli.output import print_json, print_line, print_table
from meantime.cli.session import Json
from meantime.errors import NotFound

TOPICS = ("exit-codes", "variables")

VARIABLES = (
    ("MEANTIME_URL", "nodes, separated by commas"),
    ("MEANTIME_KEY", "API key"),
    ("MEANTIME_DATA", "data directory of the stack; default .meantime"),
    ("MEANTIME_PRODUCER_GROUP", "who you are to topics; default `default`"),
    ("MEANTIME_ZOOKEEPER", "ZooKeeper as host:port/root"),
    ("MEANTIME_KAFKA", "Kafka clusters; brokers by ',', clusters by ';'"),
    ("MEANTIME_POSTGRES", "PostgreSQL as a URI"),
)


class Shell(StrEnum):
    bash = "bash"
    zsh = "zsh"
    fish = "fish"


def register(root: typer.Typer) -> None:
    root.command(rich_help_panel="More")(completion)
    root.command("help", rich_help_panel="More")(guide)


def completion(shell: Annotated[Shell, typer.Argument(help="Which shell.")]) -> None:
    """Print the completion script of a shell. It also completes the names of topics, event types and storages.

    Example: meantime completion bash > ~/.local/share/bash-completion/completions/meantime
    """
    from typer.completion import get_completion_script  # type: ignore[attr-defined]

    print_line(get_completion_script(prog_name="meantime", complete_var="_MEANTIME_COMPLETE", shell=shell.value))


def guide(topic: Annotated[str | None, typer.Argument(help="exit-codes or variables.")] = None, json: Json = False) -> None:
    """Explain exit codes or environment variables.

    Example: meantime help exit-codes
    """
    if topic == "exit-codes":
        _explain(["code", "meaning", "errors"], [[exit.code, exit.meaning, ", ".join(exit.errors)] for exit in EXITS], json)
    elif topic == "variables":
        _explain(["variable", "meaning"], [list(pair) for pair in VARIABLES], json)
    elif topic is None:
        print_line("meantime --help lists the commands; meantime help exit-codes and meantime help variables explain more.")
    else:
        raise NotFound(f"there is no help on {topic!r}; there is: {', '.join(TOPICS)}")


def _explain(columns: list[str], rows: list[list[object]], json: bool) -> None:
    if json:
        print_json([dict(zip(columns, row, strict=True)) for row in rows])
    else:
        print_table(columns, rows)
