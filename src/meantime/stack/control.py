"""Looking at a stack and stopping it from outside."""

import signal
from dataclasses import dataclass

import msgspec

from meantime.errors import StackError
from meantime.stack import processes
from meantime.stack.folder import Folder, StackState, StateFile
from meantime.stack.model import Event, Row, Tell

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


def status(folder: Folder) -> Status:
    """The whole picture of a running stack; one that does not run is an error."""
    condition = look(folder)
    places = condition.state.places
    if not condition.running or places is None:
        raise StackError(_not_running(folder, condition))
    pids = {row.name: row.mark.pid for row in condition.alive if row.mark}
    return Status(
        nodes=tuple(NodeStatus(node.id, node.url, pids.get(node.id)) for node in places.nodes),
        zookeeper=places.zookeeper,
        kafka=places.kafka,
        postgres=places.postgres,
        console=places.console,
        processes=tuple(_process(row, row.name in pids) for row in sorted(condition.state.processes, key=_order)),
        ready=condition.state.ready,
        data=str(folder.path),
    )


def _process(row: Row, alive: bool) -> ProcessStatus:
    pid = row.mark.pid if row.mark and alive else None
    return ProcessStatus(row.kind, row.name, pid, row.log, row.state, alive, row.restarts)


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
