"""The command `meantime`: puts the groups of commands together and turns errors into exit codes.

Each module of commands offers `register(app)`, and is imported only for one of its commands, or for what concerns them all,
like `--help`. What it needs beyond the command line itself is imported where it is used: help must not wait for drivers.
"""

import os
import sys
import warnings
from collections.abc import Sequence
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.exceptions import TyperException
from typer.main import get_command

from meantime import __version__
from meantime.cli.exit_codes import FAILED, INTERRUPTED, READER_GONE, advice_for, epilog, exit_of
from meantime.cli.output import drop_output, watch_the_reader
from meantime.errors import MeantimeError
from meantime.extras import missing_extra

COMMANDS = {
    "stack": ("up", "down", "status"),
    "node": ("node", "nodes", "migrate", "config", "demo", "keys"),
    "streams.event_types": ("event-types",),
    "streams.publish": ("publish",),
    "streams.tail": ("tail",),
    "streams.subscriptions": ("subscriptions",),
    "streams.switch": ("switch",),
    "streams.storages": ("storages",),
    "topics.topics": ("topics",),
    "topics.schedule": ("schedule",),
    "topics.consume": ("consume",),
    "topics.load": ("load",),
    "schedules.schedules": ("schedules",),
    "timers": ("oscillator", "futures", "dispatcher", "ledger", "timers"),
    "workers": ("worker", "apps"),
    "pipelines": ("pipeline",),
    "console": ("console",),
    "audit": ("audit",),
    "bench": ("bench",),
    "chaos": ("chaos",),
    "help": ("completion", "help"),
}
"""The modules, and which of them has which command."""

EXTRAS = {"up": "stack", "demo": "stack", "chaos": "stack", "futures": "spark", "pipeline": "spark"}
"""What has to be installed for commands that need more than nodes do."""


def main() -> None:
    if sys.stdout is not None:
        watch_the_reader()
    sys.exit(run(sys.argv[1:]))


def run(arguments: Sequence[str]) -> int:
    """Run one command; its exit code."""
    with warnings.catch_warnings():
        warnings.showwarning = _warn
        return _run(arguments)


def _run(arguments: Sequence[str]) -> int:  # noqa: PLR0911 - one for each way to end
    try:
        command = get_command(build(*arguments[:1]))
        ended = command.main(list(arguments), prog_name="meantime", standalone_mode="--json" not in arguments)
        return _flushed(ended if isinstance(ended, int) else 0)
    except TyperException as error:
        return _report({"code": "usage", "detail": error.format_message(), "retryable": False}, error.exit_code)
    except typer.Abort:
        return _report({"code": "aborted", "detail": "not confirmed", "retryable": False}, FAILED)
    except SystemExit as end:
        return _flushed(end.code if isinstance(end.code, int) else int(end.code is not None))
    except KeyboardInterrupt:
        return INTERRUPTED
    except MeantimeError as error:
        return _complain(error, arguments)
    except ImportError as error:
        asked = arguments[0] if arguments else ""
        return _complain(missing_extra(error, f"meantime {asked}", EXTRAS.get(asked)), arguments)


def build(*asked: str) -> typer.Typer:
    """All commands; with the name of one only those beside which it is."""
    app = typer.Typer(
        no_args_is_help=True,
        epilog=epilog(),
        context_settings={"help_option_names": ["-h", "--help"]},
        pretty_exceptions_enable=False,
        rich_markup_mode="rich",
    )
    app.callback()(root)
    for name in [name for name, commands in COMMANDS.items() if set(asked) & set(commands)] or COMMANDS:
        import_module(f"meantime.cli.commands.{name}").register(app)
    return app


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(__version__)
        raise typer.Exit


def _behind_the_command(given: str | bool | None, option: typer.CallbackParam) -> None:
    if given:
        raise typer.BadParameter(
            f"{option.opts[0]} stands behind the command, as in `meantime topics list {option.opts[0]}`"
        )


Misplaced = Annotated[str | None, typer.Option(hidden=True, callback=_behind_the_command)]


def root(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", is_eager=True, callback=_print_version)
    ] = False,
    url: Misplaced = None,
    key: Misplaced = None,
    data: Misplaced = None,
    json: Annotated[bool, typer.Option("--json", hidden=True, callback=_behind_the_command)] = False,
) -> None:
    """Meantime: an event broker with a sense of time.

    Commands find the cluster by --url and --key, then by MEANTIME_URL and MEANTIME_KEY, then by the running stack of
    --data or MEANTIME_DATA (default: .meantime in this folder).

    First steps:

    $ meantime up --detach

    $ meantime topics create reminders

    $ meantime schedule reminders '{"hello": "world"}' --after 5s

    $ meantime consume reminders
    """


def _warn(message: Warning | str, *_: object, **__: object) -> None:
    typer.echo(f"warning: {message}", err=True)


def _complain(error: MeantimeError, arguments: Sequence[str]) -> int:
    code = exit_of(error).code
    if "--json" in arguments:
        return _report({"code": error.code, "detail": error.detail, "retryable": error.retryable, **error.extras}, code)
    typer.echo(f"error: {error.detail}", err=True)
    with_key = bool(os.environ.get("MEANTIME_KEY")) or any(given.split("=")[0] == "--key" for given in arguments)
    if advice := advice_for(error, with_key=with_key):
        typer.echo(f"  try: {advice}", err=True)
    return code


def _report(error: dict[str, Any], code: int) -> int:
    """What went wrong, for scripts."""
    import msgspec

    typer.echo(msgspec.json.encode({"error": error}, enc_hook=str).decode(), err=True)
    return code


def _flushed(code: int) -> int:
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        drop_output()
        return READER_GONE
    return code
