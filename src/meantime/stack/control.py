"""Looking at a stack and stopping it from outside."""

import signal
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

import msgspec

from meantime.config import without_password
from meantime.errors import StackError
from meantime.stack import processes
from meantime.stack.folder import Folder, StackState, StateFile
from meantime.stack.model import HOST, Event, Leaders, Places, Row, Tell

STOP_WITHIN = 90.0


@dataclass(frozen=True, slots=True)
class Condition:
    """A stack as it is now."""

    state: StackState
    running: bool
    alive: tuple[Row, ...]


def look(folder: Folder) -> Condition:
    state = folder.read()
    return Condition(
        state=state,
        running=folder.is_locked(),
        alive=tuple(row for row in state.processes if processes.is_alive(row.mark)),
    )


class NodeStatus(msgspec.Struct, frozen=True):
    id: str
    url: str
    pid: int | None


class ProcessStatus(msgspec.Struct, frozen=True):
    kind: str
    name: str
    pid: int | None
    log: str
    state: str
    alive: bool
    restarts: int
    address: str
    role: str = ""
    """Among the replicas of a service."""
    server_pid: int | None = None
    """Of the PostgreSQL that an agent looks after."""


class Status(msgspec.Struct, frozen=True):
    """What `meantime status --json` prints."""

    nodes: tuple[NodeStatus, ...]
    zookeeper: str
    kafka: tuple[str, ...]
    postgres: str
    console: str | None
    processes: tuple[ProcessStatus, ...]
    ready: bool
    data: str
    auth: bool
    replicas: int = 1
    durable: bool = False
    leaders: Leaders | None = None
    key: str | None = None


def status(folder: Folder, *, secrets: bool = False) -> Status:
    """The whole picture of a running stack; one that does not run is an error. Without `secrets` it has no key, and
    PostgreSQL's password is not in its address, but in a file that the address names."""
    condition = look(folder)
    places = condition.state.places
    if not condition.running or places is None:
        raise StackError(_not_running(folder, condition))
    postgres = places.postgres if secrets else with_passfile(places.postgres, folder.postgres_passfile)
    addresses = _addresses(condition.state, places, postgres)
    pids = {row.name: row.mark.pid for row in condition.alive if row.mark}
    return Status(
        nodes=tuple(NodeStatus(node.id, node.url, pids.get(node.id)) for node in places.nodes),
        zookeeper=places.zookeeper,
        kafka=places.kafka,
        postgres=postgres,
        console=places.console or (f"{places.nodes[0].url}/console/" if places.nodes else None),
        processes=tuple(
            _process(row, row.name in pids, addresses.get(row.name, ""))
            for row in sorted(condition.state.processes, key=_order)
        ),
        ready=condition.state.ready,
        data=str(folder.path),
        auth=condition.state.auth,
        replicas=condition.state.replicas,
        durable=condition.state.durable,
        key=folder.first_key.read_text() if secrets and condition.state.auth else None,
    )


def with_passfile(uri: str, file: Path) -> str:
    """An address that any program on libpq can use who may read the file, and that may be shown."""
    shown = without_password(uri)
    return f"{shown}{'&' if '?' in shown else '?'}{urlencode({'passfile': str(file)})}"


def _addresses(state: StackState, places: Places, postgres: str) -> dict[str, str]:
    """Where each process listens."""
    hosts = {row.name: f"{HOST}:{state.ports[row.name]}" for row in state.processes if row.kind in ("zookeeper", "kafka")}
    database = {"postgres": postgres} if state.replicas == 1 else _members(state, postgres)
    services = {**hosts, **database, "console": places.console or ""}
    if state.replicas == 1:
        services["zookeeper"] = places.zookeeper
    return {**services, **{node.id: node.url for node in places.nodes}}


def _members(state: StackState, postgres: str) -> dict[str, str]:
    """Each member by itself, whether it takes writes or not."""
    parts = urlsplit(postgres)
    login = parts.netloc.rpartition("@")[0]
    passfile = urlencode([(name, value) for name, value in parse_qsl(parts.query) if name == "passfile"])
    rows = (row for row in state.processes if row.kind == "postgres")
    places = {row.name: f"{login}@{HOST}:{state.ports[row.name]}" for row in rows}
    return {name: urlunsplit(parts._replace(netloc=place, query=passfile)) for name, place in places.items()}


def _process(row: Row, alive: bool, address: str) -> ProcessStatus:
    pid = row.mark.pid if row.mark and alive else None
    server = processes.server_of(Path(row.server_pid_file)) if row.server_pid_file else None
    return ProcessStatus(
        kind=row.kind,
        name=row.name,
        pid=pid,
        log=row.log,
        state=row.state,
        alive=alive,
        restarts=row.restarts,
        address=address,
        server_pid=server.pid if server else None,
    )


def _order(row: Row) -> tuple[int, str]:
    return row.level, row.name


def _not_running(folder: Folder, condition: Condition) -> str:
    if condition.alive:
        names = ", ".join(row.name for row in condition.alive)
        return (
            f"the supervisor of {folder.path} was killed and left {names} running: `meantime up` starts the stack again, "
            "`meantime down` stops them"
        )
    if condition.running:
        return f"the stack in {folder.path} is just starting: ask again in a moment"
    return f"no stack is running in {folder.path}: start one with `meantime up`, or name its directory with --data"


def down(folder: Folder, tell: Tell) -> bool:
    """Stop everything of the stack; whether there was anything to stop."""
    if not folder.path.is_dir():
        return False
    stopped = folder.is_locked() and _ask_supervisor(folder, tell)
    with folder.locked():
        state_file = StateFile(folder)
        left = processes.stop_leftovers(state_file.state.processes, lambda text: tell(Event("note", "", text)))
        state_file.change(supervisor=None, ready=False, processes=())
    return stopped or left > 0


def _ask_supervisor(folder: Folder, tell: Tell) -> bool:
    """By its own signal; by force when it does not answer, and what it leaves is then stopped by the table."""
    supervisor = folder.read().supervisor
    if supervisor is None or not processes.is_alive(supervisor):
        raise StackError(
            f"{folder.path} is locked by a program that is no supervisor, or by one that is just starting: try again"
        )
    tell(Event("note", "", f"stopping the stack in {folder.path} (supervisor pid {supervisor.pid})"))
    processes.send(supervisor, signal.SIGTERM)
    if not processes.wait_gone(supervisor, STOP_WITHIN):
        tell(Event("note", "", "the supervisor does not answer: killing it"))
        processes.send(supervisor, signal.SIGKILL)
        processes.wait_gone(supervisor, 5.0)
    return True
