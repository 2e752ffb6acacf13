"""A bar chart as a PNG, drawn by hand: one colour a series, stacked, a red line where the capacity is.

A few rectangles and digits need no plotting library.
"""

import struct
import zlib
from collections.abc import Sequence

WIDTH, HEIGHT = 960, 360
LEFT, RIGHT, TOP, BOTTOM = 64, 16, 28, 28
PAPER, INK, GRID, LIMIT = (255, 255, 255), (60, 60, 60), (228, 228, 228), (214, 39, 40)
COLOURS = ((31, 119, 180), (44, 160, 44), (255, 127, 14), (148, 103, 189), (23, 190, 207), (140, 86, 75))

Colour = tuple[int, int, int]

_FONT = {
    "0": (7, 5, 5, 5, 7),
    "1": (2, 6, 2, 2, 7),
    "2": (7, 1, 7, 4, 7),
    "3": (7, 1, 7, 1, 7),
    "4": (5, 5, 7, 1, 1),
    "5": (7, 4, 7, 1, 7),
    "6": (7, 4, 7, 5, 7),
    "7": (7, 1, 1, 1, 1),
    "8": (7, 5, 7, 5, 7),
    "9": (7, 5, 7, 1, 7),
    ":": (0, 2, 0, 2, 0),
    "-": (0, 0, 7, 0, 0),
    ".": (0, 0, 0, 0, 2),
}
_SCALE = 2


class Canvas:
    def __init__(self, width: int = WIDTH, height: int = HEIGHT) -> None:
        self.width, self.height = width, height
        self._rows = [bytearray(PAPER * width) for _ in range(height)]

    def box(self, left: int, top: int, width: int, height: int, colour: Colour) -> None:
        first, last = max(left, 0), min(left + width, self.width)
        if last <= first:
            return
        stripe = bytes(colour) * (last - first)
        for y in range(max(top, 0), min(top + height, self.height)):
            self._rows[y][3 * first : 3 * last] = stripe

    def text(self, left: int, top: int, words: str, colour: Colour = INK) -> None:
        """Digits and what stands between them; anything else is a gap."""
        for index, letter in enumerate(words):
            for y, bits in enumerate(_FONT.get(letter, (0,) * 5)):
                for x in range(3):
                    if bits & (4 >> x):
                        self.box(left + (index * 4 + x) * _SCALE, top + y * _SCALE, _SCALE, _SCALE, colour)

    def png(self) -> bytes:
        header = struct.pack(">IIBBBBB", self.width, self.height, 8, 2, 0, 0, 0)
        pixels = zlib.compress(b"".join(b"\0" + row for row in self._rows), 6)
        return b"\x89PNG\r\n\x1a\n" + _chunk(b"IHDR", header) + _chunk(b"IDAT", pixels) + _chunk(b"IEND", b"")


def text_width(words: str) -> int:
    return len(words) * 4 * _SCALE


def bar_chart(series: Sequence[Sequence[int]], labels: tuple[str, str], limit: float | None = None) -> bytes:
    """Slots from left to right; `labels` stand below the first and the last, `limit` is per slot."""
    canvas = Canvas()
    slots = max((len(one) for one in series), default=0)
    totals = [sum(one[index] for one in series if index < len(one)) for index in range(slots)]
    top = max([*totals, limit or 0, 1])
    _frame(canvas, top, labels)
    for index in range(slots):
        _stack(canvas, series, index, slots, top)
    if limit is not None:
        canvas.box(LEFT, _height_of(limit, top), WIDTH - LEFT - RIGHT, 2, LIMIT)
    return canvas.png()


def _frame(canvas: Canvas, top: float, labels: tuple[str, str]) -> None:
    for quarter in range(5):
        y = _height_of(top * quarter / 4, top)
        canvas.box(LEFT, y, WIDTH - LEFT - RIGHT, 1, GRID if quarter else INK)
        words = f"{top * quarter / 4:.0f}"
        canvas.text(LEFT - 8 - text_width(words), y - 5, words)
    canvas.text(LEFT, HEIGHT - BOTTOM + 10, labels[0])
    canvas.text(WIDTH - RIGHT - text_width(labels[1]), HEIGHT - BOTTOM + 10, labels[1])


def _stack(canvas: Canvas, series: Sequence[Sequence[int]], index: int, slots: int, top: float) -> None:
    room = WIDTH - LEFT - RIGHT
    left, right = LEFT + index * room // slots, LEFT + (index + 1) * room // slots
    reached = 0
    for number, one in enumerate(series):
        count = one[index] if index < len(one) else 0
        if count:
            upper, lower = _height_of(reached + count, top), _height_of(reached, top)
            gap = 1 if right - left > 2 else 0
            canvas.box(left, upper, max(1, right - left - gap), max(1, lower - upper), COLOURS[number % len(COLOURS)])
        reached += count


def _height_of(value: float, top: float) -> int:
    return HEIGHT - BOTTOM - round((HEIGHT - TOP - BOTTOM) * value / top)


def _chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))
