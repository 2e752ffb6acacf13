"""Arrays as PostgreSQL reads them."""

from collections.abc import Callable
from typing import Any

import pytest
from psycopg.adapt import PyFormat, Transformer

from meantime.database.arrays import Packed, bools, byte_strings, float8s, int8s, texts


@pytest.mark.parametrize(
    ("packed", "values"),
    [
        (texts, ["one", "size"]),
        (texts, ["äö", "abcd"]),
        (texts, ["same", "same"]),
        (byte_strings, [b"x" * 3000, b"", b"y"]),
        (byte_strings, [b"x" * 3000, b"y" * 3000]),
        (int8s, [1 << 40, -(1 << 40)]),
        (int8s, [1 << 40] * 3),
        (float8s, [0.1, 2.0]),
        (bools, [True, False, True]),
    ],
)
def test_arrays_are_packed_as_the_driver_packs_them(packed: Callable[[Any], Packed], values: list[Any]) -> None:
    assert packed(values).data == bytes(Transformer().get_dumper(values, PyFormat.BINARY).dump(values) or b"")
