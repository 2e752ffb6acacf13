import pytest

from meantime.database.queries import parse


def test_queries_are_found_by_name_without_their_comments() -> None:
    queries = parse("-- about the file\n\n-- name: one\n-- why it is so\nSELECT 1;\n\n-- name: two\nSELECT 2\n  AS x\n")
    assert queries == {"one": "SELECT 1", "two": "SELECT 2\n  AS x"}


def test_a_name_cannot_stand_twice() -> None:
    with pytest.raises(ValueError, match="twice"):
        parse("-- name: a\nSELECT 1\n-- name: a\nSELECT 2\n")
