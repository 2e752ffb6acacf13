"""A stack for as long as a block of code runs: for tests and the tour."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from meantime.errors import StackError
from meantime.stack.background import launch
from meantime.stack.folder import Folder
from meantime.stack.model import Places, StackOptions, Tell

STOP_WITHIN = 120.0


@contextmanager
def running(
    data: Path,
    *,
    nodes: int = 0,
    kafka: int = 1,
    replicas: int = 1,
    port: int | None = None,
    migrate: bool = True,
    timers: bool = False,
    node_env: dict[str, str] | None = None,
    wait_for_late: bool = True,
    tell: Tell = lambda _: None,
) -> Iterator[Places]:
    """Start a stack in `data`, give its addresses, stop it at the end, also if this process is killed.

    Without `wait_for_late` the Spark job of timers may still be starting when the block begins.
    """
    options = StackOptions(
        data=str(data),
        nodes=nodes,
        kafka=kafka,
        replicas=replicas,
        port=port,
        migrate=migrate,
        timers=timers,
        node_env=node_env or {},
        until_eof=True,
        wait_for_late=wait_for_late,
    )
    supervisor = launch(options, tell)
    try:
        places = Folder(data).read().places
        if places is None:
            raise StackError(f"the stack in {data} came up without telling where")
        yield places
    finally:
        assert supervisor.stdin is not None
        supervisor.stdin.close()
        supervisor.wait(timeout=STOP_WITHIN)
