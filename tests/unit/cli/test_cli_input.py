import io
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from meantime.cli.input import InputLine, batches, items, parse
from meantime.cli.message_files import When, message, rows_of_csv
from meantime.errors import Invalid


def texts(data: bytes) -> list[tuple[str, bytes]]:
    return [(item.place, item.text) for item in parse(io.BytesIO(data), "f")]


def test_lines_are_items_and_know_where_they_stood() -> None:
    assert texts(b'{"a":1}\n\n  {"b":2}\r\n') == [("f:1", b'{"a":1}'), ("f:3", b'{"b":2}')]


def test_an_array_is_taken_apart_however_it_is_laid_out() -> None:
    assert texts(b'[\n  {"a": 1},\n  {"b": [2]}\n]\n') == [("f[1]", b'{"a": 1}'), ("f[2]", b'{"b": [2]}')]
    assert texts(b"[]") == []


def test_an_array_that_is_none_is_refused_by_name() -> None:
    with pytest.raises(Invalid, match="f begins like a JSON array"):
        texts(b'[{"a":1},')


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(Invalid, match="No such file"):
        list(items([tmp_path / "nothing"]))


def test_batches_are_full_but_the_last() -> None:
    source = [InputLine(str(n), b"") for n in range(5)]
    assert [len(batch) for batch in batches(source, 2, linger=5)] == [2, 2, 1]
    assert list(batches([], 2)) == []


def test_a_batch_is_handed_on_when_the_source_pauses() -> None:
    seen = threading.Event()

    def slow() -> Iterator[InputLine]:
        yield InputLine("1", b"")
        assert seen.wait(60)
        yield InputLine("2", b"")

    arriving = batches(slow(), 100, linger=0.01)
    assert [item.place for item in next(arriving)] == ["1"]
    seen.set()
    assert [item.place for item in next(arriving)] == ["2"]


def test_what_is_wrong_with_the_source_is_raised_after_what_came_before() -> None:
    def broken() -> Iterator[InputLine]:
        yield InputLine("1", b"")
        raise Invalid("no more")

    arriving = batches(broken(), 10, linger=5)
    assert len(next(arriving)) == 1
    with pytest.raises(Invalid, match="no more"):
        next(arriving)


NOW = When(now=1000.0)


@pytest.mark.parametrize(
    ("line", "at_ms", "after_ms"),
    [
        (b'{"at_ms": 5}', 5, None),
        (b'{"after_ms": "50"}', None, 50),
        (b'{"after": "1m"}', None, 60_000),
        (b'{"at": "now"}', 1_000_000, None),
        (b'{"after": 3}', None, 3000),
    ],
)
def test_a_line_says_when_in_one_of_four_ways(line: bytes, at_ms: int | None, after_ms: int | None) -> None:
    new = message(InputLine("f:1", line), NOW)
    assert (new.at_ms, new.after_ms) == (at_ms, after_ms)
    assert new.id


def test_a_line_without_an_instant_gets_that_of_the_command_line() -> None:
    assert message(InputLine("f:1", b"{}"), When(0.0, after="5s")).after_ms == 5000
    assert message(InputLine("f:1", b'{"at_ms": 7}'), When(0.0, after="5s")).at_ms == 7


@pytest.mark.parametrize(
    "line",
    [b"nonsense", b"[]", b"{}", b'{"at_ms": 1, "after_ms": 1}', b'{"at_ms": "x"}', b'{"after": "x"}', b'{"after": "3"}'],
)
def test_a_line_that_makes_no_sense_says_why(line: bytes) -> None:
    with pytest.raises(Invalid):
        message(InputLine("f:1", line), NOW)


def test_a_misspelt_name_in_a_line_is_refused() -> None:
    with pytest.raises(Invalid, match="'boddy' is not known here; did you mean body"):
        message(InputLine("f:1", b'{"after": "5s", "boddy": 1}'), NOW)


def test_the_columns_of_csv_become_id_instant_and_body(tmp_path: Path) -> None:
    file = tmp_path / "x.csv"
    file.write_text('id,after,body\na,5s,"{""n"": 1}"\nb,5s,plain text\n')
    first, second = (message(item, NOW) for item in rows_of_csv(file))
    assert (first.id, first.after_ms, first.body) == ("a", 5000, {"n": 1})
    assert second.body == "plain text"


def test_a_row_of_csv_that_does_not_fit_the_header_is_refused_and_kept_whole(tmp_path: Path) -> None:
    file = tmp_path / "x.csv"
    file.write_text("id,after,body\na,5s\nb,5s,hello,world\n")
    short, long = rows_of_csv(file)
    assert (short.text, long.text) == (b'["a","5s"]', b'["b","5s","hello","world"]')
    for item in (short, long):
        with pytest.raises(Invalid, match="more or fewer cells than the header"):
            message(item, NOW)


def test_without_a_body_column_the_other_columns_are_the_body(tmp_path: Path) -> None:
    file = tmp_path / "x.csv"
    file.write_text("email,at_ms,name\na@b.c,9,Ada\n")
    (item,) = rows_of_csv(file)
    assert item.place == f"{file}:2"
    assert message(item, NOW).body == {"email": "a@b.c", "name": "Ada"}
