"""The value of a request, and the schema of it that other clients are given."""

import re
from importlib.resources import files

import pytest

from meantime.cli.main import run
from meantime.timers.future import FIELDS, decode, encode
from meantime.timers.model import Future

SCHEMA = files("meantime.timers").joinpath("future.proto").read_text("utf-8")
FIELD = re.compile(r"^  (?:repeated )?(string|bytes) (\w+) = (\d+);", re.MULTILINE)


def test_the_schema_that_is_shipped_has_the_fields_that_are_read() -> None:
    kinds = {9: "string", 12: "bytes"}
    assert FIELD.findall(SCHEMA) == [(kinds[kind], name, str(number)) for number, (name, kind) in enumerate(FIELDS, start=1)]
    assert "message Future {" in SCHEMA


def test_the_schema_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["timers", "proto"]) == 0
    assert capsys.readouterr().out == SCHEMA


def test_what_is_encoded_is_decoded_and_a_length_of_two_bytes_is_one_too() -> None:
    future = Future("calls", "key", b"x" * 300)
    assert decode(encode(future)) == future
    assert decode(b"\x0a\x85\x00calls\x12\x83\x00key\x1a\xac\x02" + b"x" * 300) == future
    assert decode(b"\x0a\xff") is None


def test_headers_go_with_a_callback_and_most_have_none() -> None:
    future = Future("calls", "key", b"x", ("schedule", "nightly", "schedule-version", "3"))
    assert decode(encode(future)) == future
    assert decode(encode(Future("calls", "key", b"x"))) == Future("calls", "key", b"x", ())
