"""Which consumer a stretch of a stream gets; consumers of a storage that does not answer will do."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from meantime.streams.model import Storage
from meantime.streams.readers import Readers

HERE, THERE = (Storage(id, f"127.0.0.1:{port}") for id, port in (("here", 1), ("there", 2)))


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(2) as executor:
        yield executor


async def test_a_consumer_that_was_given_back_is_taken_again_in_its_storage_only(threads: ThreadPoolExecutor) -> None:
    readers = Readers(threads, lambda: True)
    first = await readers.take(HERE, ["adopted"])
    await readers.give_back(first, sound=True)
    other = await readers.take(THERE, [])
    again = await readers.take(HERE, [])
    assert other is not first
    assert again is first
    assert again.foreign == frozenset()
    for reader in (other, again):
        await readers.give_back(reader, sound=True)
    await readers.close_spare()


async def test_nothing_is_kept_when_no_timeline_lies_ahead(threads: ThreadPoolExecutor) -> None:
    ahead = True
    readers = Readers(threads, lambda: ahead)
    first, second = await readers.take(HERE, []), await readers.take(HERE, [])
    await readers.give_back(first, sound=True)
    ahead = False
    await readers.give_back(second, sound=True)
    for closed in (first, second):
        with pytest.raises(RuntimeError, match="closed"):
            closed.take(0)


async def test_a_consumer_that_failed_is_not_used_again(threads: ThreadPoolExecutor) -> None:
    readers = Readers(threads, lambda: True)
    first = await readers.take(HERE, [])
    await readers.give_back(first, sound=False)
    with pytest.raises(RuntimeError, match="closed"):
        first.take(0)
    second = await readers.take(HERE, [])
    assert second is not first
    await readers.give_back(second, sound=False)
