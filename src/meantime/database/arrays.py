"""Arrays as PostgreSQL reads them in binary form.

psycopg adapts a list element by element, which costs more than the statement that it is for; these wrappers hold the
finished bytes.
"""

import struct
from collections.abc import Sequence
from typing import ClassVar

from psycopg.abc import AdaptContext, Buffer
from psycopg.adapt import Dumper
from psycopg.pq import Format

_LENGTHS = tuple(struct.pack("!i", length) for length in range(2048))
_INT4, _INT8, _FLOAT8, _TEXT, _BYTEA, _BOOL = 23, 20, 701, 25, 17, 16


class Packed:
    """The finished bytes of an array parameter."""

    __slots__ = ("data",)

    def __init__(self, data: bytes) -> None:
        self.data = data


class Int4s(Packed):
    __slots__ = ()


class Int8s(Packed):
    __slots__ = ()


class Float8s(Packed):
    __slots__ = ()


class Texts(Packed):
    __slots__ = ()


class Bytes(Packed):
    __slots__ = ()


class Bools(Packed):
    __slots__ = ()


def _header(oid: int, length: int) -> bytes:
    return struct.pack("!iiiii", 1, 0, oid, length, 1)


def _fixed(oid: int, code: str, width: int, values: Sequence[float]) -> bytes:
    count = len(values)
    if count and values.count(values[0]) == count:
        return _header(oid, count) + struct.pack("!i" + code, width, values[0]) * count
    interleaved: list[float] = [width] * (2 * count)
    interleaved[1::2] = values
    return _header(oid, count) + struct.pack("!" + ("i" + code) * count, *interleaved)


def _varying(oid: int, values: Sequence[bytes]) -> bytes:
    """The hottest code of a client. Values of one size, as ids mostly are, are joined by what stands before each of them."""
    if len(set(map(len, values))) == 1:
        length = _length(values[0])
        return _header(oid, len(values)) + length + length.join(values)
    pieces = [b""] * (2 * len(values))
    pieces[::2] = map(_length, values)
    pieces[1::2] = values
    return _header(oid, len(values)) + b"".join(pieces)


def _length(value: bytes) -> bytes:
    size = len(value)
    return _LENGTHS[size] if size < len(_LENGTHS) else struct.pack("!i", size)


def int4s(values: Sequence[int]) -> Int4s:
    return Int4s(_fixed(_INT4, "i", 4, values))


def int8s(values: Sequence[int]) -> Int8s:
    return Int8s(_fixed(_INT8, "q", 8, values))


def float8s(values: Sequence[float]) -> Float8s:
    return Float8s(_fixed(_FLOAT8, "d", 8, values))


def bools(values: Sequence[bool]) -> Bools:
    return Bools(_fixed(_BOOL, "?", 1, values))


def texts(values: Sequence[str]) -> Texts:
    return Texts(_varying(_TEXT, [value.encode() for value in values]))


def byte_strings(values: Sequence[bytes]) -> Bytes:
    return Bytes(_varying(_BYTEA, values))


class _PackedDumper(Dumper):
    format: ClassVar[Format] = Format.BINARY  # type: ignore[misc]

    def dump(self, obj: Packed) -> Buffer:
        return obj.data


class _Int4sDumper(_PackedDumper):
    oid = 1007


class _Int8sDumper(_PackedDumper):
    oid = 1016


class _Float8sDumper(_PackedDumper):
    oid = 1022


class _TextsDumper(_PackedDumper):
    oid = 1009


class _BytesDumper(_PackedDumper):
    oid = 1001


class _BoolsDumper(_PackedDumper):
    oid = 1000


def teach(context: AdaptContext) -> None:
    """Let a connection send these arrays."""
    for kind, dumper in (
        (Int4s, _Int4sDumper),
        (Int8s, _Int8sDumper),
        (Float8s, _Float8sDumper),
        (Texts, _TextsDumper),
        (Bytes, _BytesDumper),
        (Bools, _BoolsDumper),
    ):
        context.adapters.register_dumper(kind, dumper)
