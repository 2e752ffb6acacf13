"""Writes the pages of docs/reference that the code already knows: commands, the HTTP API, settings, errors and metrics.

`make docs` runs it; a unit test fails while a committed page differs from what the code says. The pages depend on the code
alone: not on the terminal, the environment or the machine.
"""

import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import msgspec
from prometheus_client.metrics import MetricWrapperBase
from prometheus_client.registry import Collector
from typer.main import get_command

from meantime import errors
from meantime.api.openapi import document
from meantime.api.problems import STATUS
from meantime.api.schema import schema_routes
from meantime.api.table import TABLE
from meantime.cli.commands.help import VARIABLES
from meantime.cli.exit_codes import EXITS, exit_of
from meantime.cli.main import build
from meantime.config import PREFIX, Config

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "meantime"
FOLDER = ROOT / "docs" / "reference"
NOTE = "<!-- Written by `make docs` from the code. Do not edit it here. -->"

SHARED_OPTIONS = ("--url", "--key", "--data", "--json")


def pages() -> dict[str, str]:
    """Every page by its file name."""
    return {
        "cli.md": cli(),
        "configuration.md": configuration(),
        "errors.md": error_codes(),
        "http-api.md": http_api(),
        "metrics.md": metrics(),
    }


# -- The command line ----------------------------------------------------------------------------------------------------


def cli() -> str:
    root = get_command(build())
    commands = list(_commands(root, ()))
    shown = {name: text for text, name in _shared(commands).items()}
    lines = [
        "# Which commands are there, and what do they take?",
        "",
        NOTE,
        "",
        "Every command, in the order of `meantime --help`. `meantime COMMAND --help` prints the same.",
        "How a command ends is in [errors and exit codes](errors.md).",
        "",
        "## Options that most commands have",
        "",
        "Where a command below is marked *cluster*, it takes these, too:",
        "",
        *_table(("option", "meaning"), [(f"`{name}`", text) for name, text in shown.items()]),
        "",
        "## Environment variables",
        "",
        *_table(("variable", "of", "meaning"), [(f"`{name}`", of, _cell(text)) for name, of, text in VARIABLES]),
        "",
    ]
    for path, command in commands:
        lines += _command(path, command)
    return "\n".join(lines).rstrip() + "\n"


def _commands(group: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    for name, command in group.commands.items():
        if not command.hidden:
            yield (*path, name), command
            if hasattr(command, "commands"):
                yield from _commands(command, (*path, name))


def _shared(commands: list[tuple[tuple[str, ...], Any]]) -> dict[str, str]:
    """What the options of a cluster mean, told once."""
    show = next(command for path, command in commands if path == ("topics", "show"))
    return {_cell(one.help): one.opts[0] for one in show.params if one.opts[0] in SHARED_OPTIONS}


def _command(path: tuple[str, ...], command: Any) -> list[str]:
    about, examples = _told(command.help or "")
    own = [one for one in command.params if not one.hidden and one.name != "help"]
    on_cluster = {one.opts[0] for one in own} >= set(SHARED_OPTIONS)
    if on_cluster:
        own = [one for one in own if one.opts[0] not in SHARED_OPTIONS]
    arguments = [one for one in own if one.param_type_name == "argument"]
    options = [one for one in own if one.param_type_name == "option"]
    usage = " ".join(("meantime", *path, *(_argument(one) for one in arguments)))
    lines = [f"{'#' * (1 + len(path))} `{usage}`", "", *about, ""]
    if on_cluster:
        lines += ["*cluster*", ""]
    if arguments:
        lines += [*_table(("argument", "meaning"), [(f"`{_argument(one)}`", _meaning(one)) for one in arguments]), ""]
    if options:
        rows = [(_option(one), _default(one), _meaning(one)) for one in options]
        lines += [*_table(("option", "default", "meaning"), rows), ""]
    if examples:
        lines += ["```text", *examples, "```", ""]
    return lines


def _told(text: str) -> tuple[list[str], list[str]]:
    """What a help text says, and its examples by themselves."""
    paragraphs = [" ".join(part.split()) for part in text.split("\n\n")]
    examples = [part.removeprefix("Example:").strip() for part in paragraphs if part.startswith("Example:")]
    about = [part for part in paragraphs if part and not part.startswith("Example:")]
    return "\n\n".join(about).split("\n"), examples


def _argument(one: Any) -> str:
    name = (one.metavar or one.name.upper()).strip("[]").removesuffix("]...").replace("ID…", "ID")
    text = name if name.endswith("...") or one.nargs != -1 else f"{name}..."
    return text if one.required else f"[{text}]"


def _option(one: Any) -> str:
    names = ", ".join(f"`{name}`" for name in (*one.opts, *one.secondary_opts))
    if one.is_flag or one.count:
        return names
    return f"{names} {_cell(_kind(one))}"


def _kind(one: Any) -> str:
    if one.metavar:
        return str(one.metavar)
    if choices := getattr(one.type, "choices", None):
        return " or ".join(str(getattr(choice, "value", choice)) for choice in choices)
    name = one.type.name.partition(" ")[0]
    return {"int": "number", "integer": "number", "float": "number", "path": "path"}.get(name, "text")


def _default(one: Any) -> str:
    if one.required:
        return "needed"
    if one.is_flag:
        yes, no = one.opts[0], (one.secondary_opts or [""])[0]
        return {True: f"`{yes}`", False: f"`{no}`" if no else ""}.get(one.default, "")
    value = one.default
    if value is None or value in ([], ()):
        return ""
    return f"`{getattr(value, 'value', value)}`"


def _meaning(one: Any) -> str:
    bounds = [f"at least {one.type.min}"] if getattr(one.type, "min", None) is not None else []
    bounds += [f"at most {one.type.max}"] if getattr(one.type, "max", None) is not None else []
    found = [_cell(one.help or "")]
    found += [f"({', '.join(bounds)})"] if bounds else []
    found += [f"Variable: `{one.envvar}`."] if one.envvar else []
    return " ".join(found)


# -- Settings ------------------------------------------------------------------------------------------------------------


def configuration() -> str:
    hints = msgspec.structs.fields(Config)
    rows = [_setting(field) for field in hints]
    return "\n".join(
        [
            "# Which settings are there?",
            "",
            NOTE,
            "",
            "Nodes and the processes of timers read these. A default gives way to the TOML file (`--config`, or",
            "`MEANTIME_CONFIG`), the file to the environment, the environment to a flag. In the file a setting is a",
            "top-level key. `meantime config` prints each one with its value and where the value came from; secrets",
            "are hidden.",
            "",
            *_table(("key", "variable", "default", "meaning"), rows),
            "",
        ]
    )


def _setting(field: msgspec.structs.FieldInfo) -> tuple[str, str, str, str]:
    about = field.type.__metadata__[0]
    limits = [f"{name} {value}" for name, value in (("at least", about.ge), ("at most", about.le)) if value is not None]
    limits += [f"more than {about.gt}"] if about.gt is not None else []
    meaning = _cell(about.description) + (f" ({', '.join(limits)})" if limits else "")
    default = field.default_factory() if field.default is msgspec.NODEFAULT else field.default
    shown = "" if default == {} else str(default).lower() if isinstance(default, bool) else str(default)
    return f"`{field.name}`", f"`{PREFIX}{field.name.upper()}`", f"`{shown}`" if shown else "empty", meaning


# -- Errors --------------------------------------------------------------------------------------------------------------


def error_codes() -> str:
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, errors.MeantimeError)]
    rows = [_error(kind) for kind in kinds]
    return "\n".join(
        [
            "# What does an error code or an exit code mean?",
            "",
            NOTE,
            "",
            "An error over HTTP is a document `application/problem+json` with `type`, `title`, `status`, `detail`, `code`",
            "and `retryable`, and beside them what the caller needs next. In Python it is an exception of",
            "`meantime.errors` with the same `code`. On the command line it is an exit code. Codes never change; scripts",
            "may rely on them.",
            "",
            "## Exit codes",
            "",
            *_table(
                ("code", "meaning", "what helps"), [(str(one.code), _cell(one.meaning), _cell(one.advice)) for one in EXITS]
            ),
            "",
            "## Error codes",
            "",
            "*Again* says whether the same call may succeed later.",
            "",
            *_table(("code", "class", "status", "exit", "again", "meaning"), rows),
            "",
        ]
    )


def _error(kind: type[errors.MeantimeError]) -> tuple[str, ...]:
    bare = kind.__new__(kind)
    status = str(STATUS.get(kind.code, "")) or ("500" if kind is errors.MeantimeError else "–")
    about = " ".join((kind.__doc__ or "").split())
    again = "yes" if kind.retryable else "no"
    return f"`{kind.code}`", f"`{kind.__name__}`", status, str(exit_of(bare).code), again, _cell(about)


# -- Metrics -------------------------------------------------------------------------------------------------------------

SERVED_BY = {
    "A node (`GET /metrics`)": r"(?!workers|pipelines)",
    "A worker (`meantime worker run --metrics-port`)": r"workers\.",
    "A pipeline (`meantime pipeline … --metrics-port`)": r"pipelines\.(?!timers\.)",
}
"""Who answers with which metrics, by the modules that they are in."""


def metrics() -> str:
    lines = [
        "# Which metrics are there?",
        "",
        NOTE,
        "",
        "All are in the text format of Prometheus, beside those that its client has for any Python process.",
        "Times are seconds. A histogram has `_bucket`, `_sum` and `_count`. `meantime_build_info` is in every process. "
        "Names that",
        "users give are labels for the first 200 of each metric, the others are `other`; they end with what they name.",
        "[Watch the system](../howto/watch-the-system.md) has rules for alerts.",
        "",
    ]
    modules = _modules_with_metrics()
    for title, belonging in SERVED_BY.items():
        found = [import_module(f"meantime.{module}") for module in modules if re.match(belonging, module)]
        rows = sorted({row for module in found for one in vars(module).values() for row in _metric(one)})
        lines += [f"## {title}", "", *_table(("metric", "kind", "labels", "meaning"), rows), ""]
    return "\n".join(lines)


def _modules_with_metrics() -> list[str]:
    """Those that register something, by their names below the package."""
    files = [file for file in sorted(SOURCE.rglob("*.py")) if REGISTERS.search(file.read_text("utf-8"))]
    return [".".join(file.relative_to(SOURCE).with_suffix("").parts) for file in files]


REGISTERS = re.compile(r"registry=REGISTRY|REGISTRY\.register")


def _metric(one: Any) -> Iterator[tuple[str, str, str, str]]:
    if isinstance(one, MetricWrapperBase):
        yield from (_family(family, one._labelnames) for family in one.describe())
    elif Collector in type(one).__mro__:
        yield from (_family(family, getattr(family, "_labelnames", ())) for family in one.collect())


def _family(family: Any, labels: tuple[str, ...]) -> tuple[str, str, str, str]:
    name = f"{family.name}_total" if family.type == "counter" else family.name
    return f"`{name}`", family.type, ", ".join(f"`{label}`" for label in labels), _cell(family.documentation)


# -- Markdown ------------------------------------------------------------------------------------------------------------


def _table(head: tuple[str, ...], rows: list[Any]) -> list[str]:
    return [_row(head), _row(("---",) * len(head)), *(_row(row) for row in rows)]


def _row(cells: tuple[str, ...]) -> str:
    return f"| {' | '.join(cells)} |"


def _cell(text: str) -> str:
    """A text on one line; outside of code, what Markdown would take for a sign of its own is marked as plain."""
    pieces = " ".join(text.split()).replace("|", "\\|").split("`")
    pieces[::2] = [re.sub(r"([<*])", r"\\\1", piece) for piece in pieces[::2]]
    return "`".join(pieces)


# -- The HTTP API --------------------------------------------------------------------------------------------------------


def http_api() -> str:
    lines = [
        "# Which HTTP calls are there, who may make them, and what do they take?",
        "",
        NOTE,
        "",
        "Every call, in the order of the table that nodes route by (`api/table.py`). [HTTP](http.md) says what all have in",
        "common. A field is followed by `?` where it may be left out. `/schema` of a node shows the same, and",
        "`/schema/openapi.json` is for machines.",
        "",
    ]
    described = document([*TABLE, *schema_routes(TABLE)])
    schemas = described["components"]["schemas"]
    groups: dict[str, list[str]] = {}
    for path, methods in described["paths"].items():
        for method, operation in methods.items():
            groups.setdefault(operation["tags"][0], []).extend(_operation(method, path, operation, schemas))
    for name, rows in groups.items():
        lines += [f"## {name.capitalize()}", "", *rows]
    return "\n".join(lines).rstrip() + "\n"


def _operation(method: str, path: str, operation: dict[str, Any], schemas: dict[str, Any]) -> list[str]:
    lines = [f"### `{method.upper()} {path}`", "", _sentence(operation), ""]
    facts = [("scope", f"`{operation['x-scope']}`" if "x-scope" in operation else "nobody is asked who they are")]
    for place in ("query", "header"):
        if found := [_parameter(one) for one in operation.get("parameters", ()) if one["in"] == place]:
            facts.append((place, ", ".join(found)))
    if body := operation.get("requestBody"):
        facts.append(("body", _shape(body["content"]["application/json"]["schema"], schemas)))
    for status, answer in operation["responses"].items():
        if status.startswith("2"):
            content = answer.get("content")
            kinds = (
                [f"{_shape(one['schema'], schemas)} ({kind})" for kind, one in content.items()] if content else ["no body"]
            )
            facts.append((status, ", ".join(kinds).replace(" (application/json)", "")))
    return [*lines, *(f"- {name}: {_cell(text)}" for name, text in facts), ""]


def _sentence(operation: dict[str, Any]) -> str:
    summary = operation["summary"] if operation["summary"].endswith("?") else f"{operation['summary']}."
    return f"{summary} {operation.get('description', '')}".strip()


def _parameter(one: dict[str, Any]) -> str:
    default = one["schema"].get("default")
    shown = f" = {default}" if default is not None else ""
    return f"`{one['name']}{'' if one.get('required') else '?'}{shown}`"


def _shape(schema: dict[str, Any], schemas: dict[str, Any]) -> str:
    """The fields of an object, without what is inside of them."""
    if "$ref" in schema:
        schema = schemas[schema["$ref"].rpartition("/")[2]]
    if "items" in schema:
        return f"an array of {_shape(schema['items'], schemas)}"
    if "properties" not in schema:
        return "JSON" if schema.get("type") not in ("string",) else "text"
    required = set(schema.get("required", ()))
    return "`{" + ", ".join(name + ("" if name in required else "?") for name in schema["properties"]) + "}`"


# -- The table of the API in ARCHITECTURE.md -----------------------------------------------------------------------------

BEGIN, END = "<!-- table: written by `make docs` from api/table.py -->", "<!-- end of the table -->"


def architecture(text: str) -> str:
    """ARCHITECTURE.md with the table as it is now."""
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    rows = [
        (
            f"`{route.method} {route.path}`",
            route.scope.text if route.scope else "anyone",
            f"`{route.handler.__module__.removeprefix('meantime.')}.{route.handler.__name__}`",
            ", ".join(str(status) for status in route.answers) + (" stream" if route.streams else ""),
        )
        for route in TABLE
    ]
    table = "\n".join(_table(("call", "who may", "handler", "answers"), rows))
    return f"{before}{BEGIN}\n\n{table}\n\n{END}{after}"


def main() -> None:
    overview = ROOT / "ARCHITECTURE.md"
    overview.write_text(architecture(overview.read_text("utf-8")), "utf-8")
    for name, text in pages().items():
        file = FOLDER / name
        if not file.exists() or file.read_text("utf-8") != text:
            file.write_text(text, "utf-8")
            print(f"wrote {file.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
