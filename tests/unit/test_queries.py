import pytest

from meantime.database.queries import parse


def test_queries_are_found_by_name_without_their_comments() -> None:
    queries = parse("-- about the file\n\n-- name: one\n-- why it is so\nSELECT 1;\n\n-- name: two\nSELECT 2\n  AS x\n")
    assert queries == {"one": "SELECT 1", "two": "SELECT 2\n  AS x"}


def test_a_name_cannot_stand_twice() -> None:
    with pytest.raises(ValueError, match="twice"):
        parse("-- name: a\nSELECT 1\n-- name: a\nSELECT 2\n")


def test_a_fragment_is_put_in_where_it_is_named() -> None:
    queries = parse(
        "-- fragment: due\n-- Why.\nSELECT 1 {lock}\n-- fragment: all\nFROM (\n  {due}\n)\n"
        "-- name: locked\n{all lock=FOR UPDATE}\n-- name: free\n{due lock=}\n"
    )
    assert queries == {"locked": "FROM (\n  SELECT 1 FOR UPDATE\n)", "free": "SELECT 1 "}


def test_a_fragment_that_is_not_there_is_named() -> None:
    with pytest.raises(ValueError, match="no fragment 'due'"):
        parse("-- name: one\n{due}\n")
