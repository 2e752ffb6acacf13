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
    ("MEANTIME_URL", "commands, workers, Spark", "nodes, separated by commas"),
    ("MEANTIME_KEY", "commands, workers, Spark", "API key"),
    ("MEANTIME_CA", "commands, workers, Spark, SDK", "PEM file with the authorities that sign the nodes' certificates"),
    ("MEANTIME_INSECURE", "commands, workers, Spark, SDK", "`true` sends the key without TLS beyond this machine"),
    ("MEANTIME_DATA", "commands", "data directory of the stack; default .meantime"),
    ("MEANTIME_PRODUCER_GROUP", "commands, Spark", "who you are to topics; default `default`"),
    ("MEANTIME_CACHE", "stack", "what is fetched once for all stacks; default meantime in ~/.cache"),
    ("MEANTIME_IVY_SETTINGS", "stack", "an Ivy settings file that says where jars come from"),
    ("MEANTIME_FIRST_KEY", "migrate", "a key of your own making that may do everything"),
    ("MEANTIME_CHECKPOINT", "futures", "where Spark keeps pending timers"),
    (
        "MEANTIME_BUNDLE",
        "futures, pipelines, Spark",
        "what executors get this package from: `meantime pipeline bundle` makes it",
    ),
    ("MEANTIME_FUTURES_NICE", "futures", "how far to step back behind other processes"),
    ("MEANTIME_HEALTH_PORT", "processes of timers", "answer /health and /ready on this port"),
    ("MEANTIME_WORKER_SESSION_TIMEOUT", "workers", "seconds after which a silent worker loses its queues"),
    ("MEANTIME_WORKER_SETTLE", "workers", "seconds to wait for more workers before queues are assigned again"),
    ("MEANTIME_WORKER_THREADS", "workers", "most jobs at once that are plain functions"),
    ("MEANTIME_WORKER_METRICS_PORT", "workers", "serve metrics for Prometheus on this port"),
    ("MEANTIME_CONFIG", "nodes", "a TOML file with settings"),
    ("MEANTIME_TOPIC", "consume --exec", "given to the command: the topic"),
    ("MEANTIME_ID", "consume --exec", "given to the command: the message's id"),
    ("MEANTIME_ATTEMPTS", "consume --exec", "given to the command: which attempt it is"),
    ("MEANTIME_REASON", "consume --exec", "given to the command: why the message failed before, if it did"),
)
"""Beside the settings of nodes, each of which is a variable as well."""


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
        _explain(["variable", "of", "meaning"], _variables(), json)
    elif topic is None:
        print_line("meantime --help lists the commands; meantime help exit-codes and meantime help variables explain more.")
    else:
        raise NotFound(f"there is no help on {topic!r}; there is: {', '.join(TOPICS)}")


def _variables() -> list[list[object]]:
    from meantime.config import Config, describe

    known = {name for name, _, _ in VARIABLES}
    settings: list[list[object]] = [
        [one.variable, "nodes", one.about] for one in describe(Config(), {}) if one.variable not in known
    ]
    return [list[object](row) for row in VARIABLES] + settings


def _explain(columns: list[str], rows: list[list[object]], json: bool) -> None:
    if json:
        print_json([dict(zip(columns, row, strict=True)) for row in rows])
    else:
        print_table(columns, rows)
