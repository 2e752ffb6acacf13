"""New databases of the real PostgreSQL: the first is set up, the others are copies with passwords of their own."""

import shutil
import stat
import subprocess
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from meantime.stack import ports
from meantime.stack.folder import Folder
from meantime.stack.services import account, postgres, postgres_data

Make = Callable[[str], Path]


@pytest.fixture
def make(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Make:
    """Makes the data of a database in a folder of its own."""
    monkeypatch.setenv("MEANTIME_CACHE", str(folder / "cache"))
    lent = account.lend_account()
    account.make_runnable(postgres_data.installed(), lent)

    def make(name: str) -> Path:
        home = folder / name
        home.mkdir(mode=0o700)
        account.give(home, lent)
        postgres_data.create(home, f"secret-of-{name}", lent)
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


def test_folders_that_are_not_ours_keep_their_modes_also_when_only_root_may_enter_them(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A private folder stands before the data, and one before the programs."""
    private, reachable = folder / "private", folder / "reachable"
    for path in (private, reachable):
        path.mkdir()
    monkeypatch.setenv("MEANTIME_CACHE", str(private / "cache"))
    monkeypatch.setattr(account, "_REACHABLE", (reachable,))
    found = postgres_data.installed()
    programs = replace(found, root=private / "programs")
    for part in found.parts:
        shutil.copytree(found.root / part, programs.root / part, symlinks=True)
    monkeypatch.setattr(postgres_data, "installed", lambda: programs)
    monkeypatch.setattr(postgres, "installed", lambda: programs)
    for path in (private, programs.root):
        path.chmod(0o700)
    for path in (folder, reachable):
        path.chmod(0o755)
    data = private / "data"
    data.mkdir(mode=0o700)
    before = modes(data, programs.root)
    port = ports.choose(set())

    spec = postgres.postgres(Folder(data), port)
    assert spec.prepare is not None
    assert spec.probe is not None
    spec.prepare()
    lent = account.popen_account(spec.account)
    with subprocess.Popen(spec.command, cwd=spec.folder, stderr=subprocess.DEVNULL, **lent) as server:
        deadline = time.monotonic() + 60
        while spec.probe() is not None and server.poll() is None and time.monotonic() < deadline:
            time.sleep(0.1)
        missing = spec.probe()
        server.send_signal(spec.stop_signal)
    assert missing is None
    assert server.returncode == 0
    assert modes(data, programs.root) == before
    assert (account.runnable(programs, spec.account) == programs.root) == (spec.account is None)


def modes(*paths: Path) -> dict[Path, tuple[int, int, int]]:
    found = {path: path.stat() for leaf in paths for path in (leaf, *leaf.parents)}
    return {path: (status.st_mode, status.st_uid, status.st_gid) for path, status in found.items()}
