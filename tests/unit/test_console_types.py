"""What the console knows of the API is what the table of the API says now."""

import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path.append(str(ROOT / "tools"))

import console_types  # noqa: E402


def test_the_types_of_the_console_are_those_of_the_table() -> None:
    committed = console_types.FILE.read_text("utf-8")
    assert committed == console_types.module(), "the table has changed: run `make docs`, and commit what it writes"


def test_objects_arrays_and_choices_are_types_of_their_own() -> None:
    schema = {
        "type": "object",
        "properties": {
            "id": {"type": "string"},
            "X-Group": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
            "pair": {"type": "array", "prefixItems": [{"type": "integer"}, {"type": "string"}]},
            "state": {"enum": ["done", "failed"]},
            "rest": {"type": "object", "additionalProperties": {"type": "number"}},
        },
        "required": ["id"],
    }
    assert console_types._type(schema) == (
        '{ id: string; "X-Group"?: number | null; pair?: [number, string]; state?: "done" | "failed"; '
        "rest?: Record<string, number> }"
    )
