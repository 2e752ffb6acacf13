"""How deep JSON may be nested, whatever it is made of and wherever in a body it stands."""

import pytest

from meantime.errors import Malformed
from meantime.json_depth import AT_ONCE, MOST_DEEP, check_depth, check_small


def arrays(depth: int) -> bytes:
    return b"[" * depth + b"]" * depth


def objects(depth: int) -> bytes:
    return b'{"a":' * depth + b"1" + b"}" * depth


def mixed(depth: int) -> bytes:
    return b'{"a":[' * (depth // 2) + arrays(depth % 2) + b"]}" * (depth // 2)


@pytest.mark.parametrize("nested", [arrays, objects, mixed])
async def test_what_is_as_deep_as_the_limit_is_taken_and_one_more_is_not(nested) -> None:
    await check_depth(nested(MOST_DEEP))
    check_small(nested(MOST_DEEP))
    for depth in (MOST_DEEP + 1, 2 * MOST_DEEP, 20_000):
        with pytest.raises(Malformed):
            await check_depth(nested(depth))
        with pytest.raises(Malformed):
            check_small(nested(depth))


@pytest.mark.parametrize("nested", [arrays, objects, mixed])
async def test_a_large_body_is_as_deep_as_its_deepest_part(nested) -> None:
    """It is looked at in pieces."""
    long = b'"%b"' % (b"x" * AT_ONCE)
    await check_depth(b",".join([b"[" + long, nested(MOST_DEEP - 1), long, long + b"]"]))
    with pytest.raises(Malformed):
        await check_depth(b",".join([b"[" + long, nested(MOST_DEEP), long, long + b"]"]))


async def test_what_opens_in_one_piece_and_closes_in_another_counts() -> None:
    long = b'"%b",' % (b"x" * AT_ONCE)
    with pytest.raises(Malformed):
        await check_depth(b"[" * 150 + long + arrays(60) + b"]" * 150 + long)


async def test_brackets_in_texts_do_not_count() -> None:
    await check_depth(b'["%b"]' % (b"[" * 1000))
    await check_depth(b'["\\"%b"]' % (b"{" * 1000))
