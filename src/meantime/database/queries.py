"""Named queries: SQL lives in `.sql` files, Python holds names only.

A file is a series of blocks. Each starts with a line `-- name: <name>`; comment lines after it say why, the rest is one
statement with psycopg's named placeholders. What several statements share is a block `-- fragment: <name>` above them. It is
put in where a line of theirs is `{<name>}` or `{<name> <word>=<text>}`; the text stands where the fragment says `{<word>}`.
"""

import re
from collections.abc import Mapping
from importlib.resources import files
from types import MappingProxyType

_BLOCK = re.compile(r"^-- (name|fragment): *(\w+) *$", re.MULTILINE)
_INCLUDE = re.compile(r"^( *)\{(\w+)(?: (\w+)=(.*))?\}$", re.MULTILINE)


def load(package: str, resource: str) -> Mapping[str, str]:
    """All queries of a `.sql` file beside the modules of `package`, by name."""
    return parse(files(package).joinpath(resource).read_text("utf-8"))


def parse(text: str) -> Mapping[str, str]:
    parts = _BLOCK.split(text)
    blocks: dict[str, dict[str, str]] = {"name": {}, "fragment": {}}
    for kind, name, body in zip(parts[1::3], parts[2::3], parts[3::3], strict=True):
        if name in blocks[kind]:
            raise ValueError(f"{kind} {name!r} is defined twice")
        blocks[kind][name] = _with_fragments(_statement(body), blocks["fragment"])
    return MappingProxyType(blocks["name"])


def _with_fragments(statement: str, fragments: Mapping[str, str]) -> str:
    def included(line: re.Match[str]) -> str:
        indent, name, word, text = line.groups()
        if name not in fragments:
            raise ValueError(f"there is no fragment {name!r} above {{{name}}}")
        fragment = fragments[name]
        if word:
            fragment = fragment.replace(f"{{{word}}}", text)
        return indent + fragment

    return _INCLUDE.sub(included, statement)


def _statement(body: str) -> str:
    lines = [line for line in body.splitlines() if not line.lstrip().startswith("--")]
    return "\n".join(lines).strip().removesuffix(";")
