"""Three PostgreSQL, each under an agent of Patroni: one is the primary, and a commit is acknowledged when standbys have it.

Which one leads is decided in ZooKeeper. The data of all members are copies of one, so they can follow each other from the
start; a member that has lost its data gets a copy of the primary's from Patroni. A server outlives its agent: the next agent
finds it running and goes on with it.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from meantime.errors import StackError
from meantime.files import write_whole
from meantime.stack.file_lock import file_lock
from meantime.stack.folder import Folder
from meantime.stack.model import HOST, Account, Spec
from meantime.stack.services.account import INSIDE, give, lend_account, make_runnable
from meantime.stack.services.patroni_agent import agent_command
from meantime.stack.services.postgres import SETTINGS, answers, password, uri
from meantime.stack.services.postgres_data import USER, copy, create, installed, program

PRIMARY_WITHIN = 90.0

_CLUSTER = {
    # The least that Patroni allows; ZooKeeper grants no more than its own limit, which is shorter.
    "ttl": 20,
    "loop_wait": 2,
    "retry_timeout": 3,
    "primary_start_timeout": 0,
    "synchronous_mode": "quorum",
    "synchronous_mode_strict": True,
    # Both standbys have what is acknowledged; only one of them while the other is away. If one of the two were enough, a
    # primary whose agent stands still could go on with the help of the one while the other has taken its place already.
    "synchronous_node_count": 2,
    # Without ZooKeeper the primary stays one for as long as all members hear of it.
    "failsafe_mode": True,
}

_SHARED = {"max_connections": SETTINGS["max_connections"], "wal_keep_size": "256MB"}
"""What has to be the same for all members."""


@dataclass(frozen=True, slots=True)
class PostgresMember:
    """Its name, the port of its PostgreSQL, and that of its agent."""

    name: str
    port: int
    agent: int


def member(
    folder: Folder, me: PostgresMember, members: Sequence[PostgresMember], zookeeper: str, depends: tuple[str, ...]
) -> Spec:
    home = folder.path / me.name
    account = lend_account()
    homes = [folder.path / other.name for other in members]
    return Spec(
        kind="postgres",
        name=me.name,
        command=agent_command("../patroni.yml", account),
        log=folder.logs / f"{me.name}.log",
        # Where libpq would look for files of the user; root's own home is closed to the lent account.
        env={"HOME": INSIDE} if account else {},
        depends=depends,
        probe=lambda: answers(uri(folder, me.port)),
        prepare=lambda: _prepare(homes, home, _settings(me, home, password(folder), zookeeper, account), account),
        folder=home / "data",
        server_pid_file=home / "data" / "postmaster.pid",
        stop_within=30.0,
    )


def until_writable(address: str, within: float = PRIMARY_WITHIN) -> None:
    """Return when one of the members is the primary."""
    deadline = time.monotonic() + within
    while answers(address) is not None:
        if time.monotonic() > deadline:
            raise StackError(f"none of the PostgreSQL members became the primary within {within:g} s")
        time.sleep(0.2)


def _prepare(homes: Sequence[Path], home: Path, settings: dict[str, Any], account: Account | None) -> None:
    make_runnable(installed(), account)
    # All members are prepared at once, and the first one makes the data of all.
    with file_lock(home.parent / "postgres.lock"):
        for each in homes:
            each.mkdir(mode=0o700, exist_ok=True)
            give(each, account)
        if not any((each / "data").exists() for each in homes):
            _create_all(homes, settings["postgresql"]["authentication"]["superuser"]["password"], account)
        _make_empty(home / "data", account)
    write_whole(home / "patroni.yml", msgspec.json.encode(settings), 0o600)
    give(home / "patroni.yml", account)


def _create_all(homes: Sequence[Path], secret: str, account: Account | None) -> None:
    first, *others = homes
    create(first, secret, account)
    for other in others:
        copy(first / "data", other, account)


def _make_empty(data: Path, account: Account | None) -> None:
    """What is not there is copied from the primary by Patroni, into an empty folder."""
    if not data.exists():
        data.mkdir(mode=0o700)
        give(data, account)


def _settings(me: PostgresMember, home: Path, secret: str, zookeeper: str, account: Account | None) -> dict[str, Any]:
    """JSON is YAML, too."""
    data = INSIDE if account else str(home / "data")
    login = {"username": USER, "password": secret}
    at = f"{HOST}:{me.port}"
    return {
        "scope": "meantime",
        "namespace": "/patroni",
        "name": me.name,
        "log": {"level": "WARNING"},
        "restapi": {"listen": f"{HOST}:{me.agent}", "connect_address": f"{HOST}:{me.agent}", "authentication": login},
        "zookeeper": {"hosts": zookeeper.split(",")},
        "bootstrap": {
            "dcs": {**_CLUSTER, "postgresql": {"use_pg_rewind": True, "parameters": _SHARED}},
        },
        "postgresql": {
            "listen": at,
            "connect_address": at,
            "bin_dir": str(Path(program("postgres", account)).parent),
            "data_dir": data,
            # Patroni would take dots out of a path; a copy of the data has no use for it.
            "pgpass": f"{data}/pgpass",
            "authentication": {"superuser": login, "replication": login},
            "parameters": _parameters(),
        },
    }


def _parameters() -> dict[str, Any]:
    """As for a server of its own, except what Patroni sets; three of them share the memory of one machine."""
    own = {name: value for name, value in SETTINGS.items() if name not in ("listen_addresses", "max_connections")}
    # By default a standby that finds its primary not ready yet asks again after 5 s.
    return {**own, "shared_buffers": "96MB", "max_wal_size": "1GB", "wal_retrieve_retry_interval": "200ms"}
