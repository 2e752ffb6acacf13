"""Named queries: SQL lives in `.sql` files, Python holds names only.

A file is a series of blocks. Each starts with a line `-- name: <name>`; comment lines after it say why, the rest is one
statement with psycopg's named placeholders.
"""

import re
from collections.abc import Mapping
from importlib.resources import files
from types import MappingProxyType

_BLOCK = re.compile(r"^-- name: *(\w+) *$", re.MULTILINE)


def load(package: str, resource: str) -> Mapping[str, str]:
    """All queries of a `.sql` file beside the modules of `package`, by name."""
    return parse(files(package).joinpath(resource).read_text("utf-8"))


def parse(text: str) -> Mapping[str, str]:
    parts = _BLOCK.split(text)
    queries: dict[str, str] = {}
    for name, body in zip(parts[1::2], parts[2::2], strict=True):
        if name in queries:
            raise ValueError(f"query {name!r} is defined twice")
        queries[name] = _statement(body)
    return MappingProxyType(queries)


def _statement(body: str) -> str:
    lines = [line for line in body.splitlines() if not line.lstrip().startswith("--")]
    return "\n".join(lines).strip().removesuffix(";")
