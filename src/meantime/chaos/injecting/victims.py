"""From the name in a plan to the process that has that part at this moment."""

from collections.abc import Callable
from dataclasses import dataclass

from meantime.chaos.injecting.plan import AGENT, PRIMARY, STANDBY, ZOOKEEPER_FOLLOWER, ZOOKEEPER_LEADER
from meantime.chaos.injecting.stage import Stage, family


@dataclass(frozen=True, slots=True)
class Victim:
    """`pids` are the processes of one name; `main` is the one whose death is the death of all."""

    name: str
    main: int
    pids: tuple[int, ...]


def find(stage: Stage, target: str, workers: Callable[[], dict[str, int]]) -> Victim | None:
    """`None` when nobody has that part just now."""
    if target in (pids := workers()):
        return Victim(target, pids[target], tuple(family(pids[target])))
    name = resolve(stage, target)
    row = stage.processes().get(name) if name else None
    if row is None or row.pid is None or name is None:
        return None
    if target == AGENT:
        return Victim(f"the agent of {name}", row.pid, (row.pid,))
    if row.server_pid:
        # The server's death is what its agent is there for; frozen, both stand still, as their machine would.
        return Victim(name, row.server_pid, (row.pid, *family(row.server_pid)))
    return Victim(name, row.pid, tuple(family(row.pid)))


def resolve(stage: Stage, target: str) -> str | None:
    """The name of the process."""
    if target not in (AGENT, PRIMARY, STANDBY, ZOOKEEPER_LEADER, ZOOKEEPER_FOLLOWER):
        return target
    known = stage.leaders()
    if known is None:
        return None
    if target in (AGENT, PRIMARY):
        return known.postgres.primary
    if target == ZOOKEEPER_LEADER:
        return known.zookeeper
    service, leader = ("postgres", known.postgres.primary) if target == STANDBY else ("zookeeper", known.zookeeper)
    others = (name for name, row in stage.processes().items() if row.kind == service and name != leader)
    return next(iter(sorted(others)), None)
