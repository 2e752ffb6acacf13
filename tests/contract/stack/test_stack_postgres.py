"""New databases of the real PostgreSQL: the first is set up, the others are copies with passwords of their own."""

import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from meantime.stack.services import postgres_data
from meantime.stack.services.account import give, lend_account, open_tree

Make = Callable[[str], Path]


@pytest.fixture
def make(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Make:
    """Makes the data of a database in a folder of its own."""
    monkeypatch.setenv("MEANTIME_CACHE", str(folder / "cache"))
    account = lend_account(folder, postgres_data.binaries())
    if account:
        open_tree(postgres_data.binaries().parent, account.groups)

    def make(name: str) -> Path:
        home = folder / name
        home.mkdir(mode=0o700)
        give(home, account)
        postgres_data.create(home, f"secret-of-{name}", account)
        return home

    return make


def verifiers(data: Path) -> set[bytes]:
    """What is stored of passwords, wherever in the data."""
    pages = [file.read_bytes() for file in data.rglob("*") if file.is_file()]
    found = (page[at : at + 133] for page in pages for at in _places(page, b"SCRAM-SHA-256$"))
    return set(found)


def _places(page: bytes, what: bytes) -> list[int]:
    at, found = page.find(what), []
    while at >= 0:
        found.append(at)
        at = page.find(what, at + 1)
    return found


def test_a_copy_is_like_the_first_but_for_its_password(make: Make, folder: Path) -> None:
    first, second = make("one"), make("two")
    assert [path.name for path in first.iterdir()] == [path.name for path in second.iterdir()] == ["data"]
    made, copied = ({path.relative_to(home): path.lstat() for path in home.rglob("*")} for home in (first, second))
    assert made.keys() >= {Path("data/PG_VERSION"), Path("data/global/pg_control")}
    assert {path for path in made if "pg_wal" not in path.parts} == {path for path in copied if "pg_wal" not in path.parts}
    assert {(s.st_uid, stat.S_IMODE(s.st_mode)) for s in made.values()} == {
        (s.st_uid, stat.S_IMODE(s.st_mode)) for s in copied.values()
    }
    kept = next((folder / "cache" / "postgres").glob("*/PG_VERSION")).parent
    assert verifiers(second / "data") - verifiers(first / "data"), "the copy has a password of its own"
    assert not (verifiers(first / "data") - verifiers(kept)) & verifiers(second / "data"), "nobody has that of the first"
