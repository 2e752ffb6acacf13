"""Looking at a stack and stopping it from outside."""

import signal
from dataclasses import dataclass

from meantime.errors import StackError
from meantime.stack import processes
from meantime.stack.folder import Folder, Ledger, Memory
from meantime.stack.model import Event, Row, Tell

STOP_WITHIN = 120.0


@dataclass(frozen=True, slots=True)
class Condition:
    """A stack as it is now."""

    memory: Memory
    running: bool
    alive: tuple[Row, ...]


def look(folder: Folder) -> Condition:
    memory = folder.read()
    return Condition(
        memory=memory,
        running=folder.is_locked(),
        alive=tuple(row for row in memory.processes if processes.is_alive(row.mark)),
    )


def down(folder: Folder, tell: Tell) -> bool:
    """Stop everything of the stack; whether there was anything to stop."""
    if not folder.path.is_dir():
        return False
    stopped = folder.is_locked() and _ask_supervisor(folder, tell)
    with folder.locked():
        ledger = Ledger(folder)
        left = processes.stop_leftovers(ledger.memory.processes, lambda text: tell(Event("note", "", text)))
        ledger.change(supervisor=None, ready=False, processes=())
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
