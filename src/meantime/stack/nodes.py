"""Nodes of the embedded stack, and the schema that they need."""

import sys
from collections.abc import Mapping

import httpx

from meantime.stack.folder import Folder
from meantime.stack.model import Node, Places, Spec


def environment(places: Places) -> dict[str, str]:
    """How any process of the stack finds the services."""
    return {
        "MEANTIME_ZOOKEEPER": places.zookeeper.partition("/")[0],
        "MEANTIME_KAFKA": ";".join(places.kafka),
        "MEANTIME_POSTGRES": places.postgres,
        # People try retention out here; a node on its own keeps the cautious default.
        "MEANTIME_MIN_RETENTION_MS": "1000",
    }


def migration(folder: Folder, places: Places) -> Spec:
    return Spec(
        kind="migrate",
        name="migrate",
        command=(sys.executable, "-m", "meantime", "migrate"),
        log=folder.logs / "migrate.log",
        env=environment(places),
        depends=("postgres",),
        once=True,
    )


def node(folder: Folder, places: Places, which: Node, depends: tuple[str, ...], extra: Mapping[str, str]) -> Spec:
    return Spec(
        kind="node",
        name=which.id,
        command=(sys.executable, "-m", "meantime", "node", "--id", which.id, "--port", which.url.rpartition(":")[2]),
        log=folder.logs / f"{which.id}.log",
        env={**environment(places), **extra},
        depends=depends,
        probe=lambda: answers(which.url),
        stop_within=20.0,
    )


def answers(url: str) -> str | None:
    """Alive first, then ready; a node that is alive says itself what it still waits for."""
    try:
        if httpx.get(f"{url}/health", timeout=2, trust_env=False).status_code != 200:
            return "it to be healthy"
        answer = httpx.get(f"{url}/ready", timeout=5, trust_env=False)
    except httpx.HTTPError:
        return "it to answer HTTP"
    return None if answer.status_code == 200 else _reason(answer)


def _reason(answer: httpx.Response) -> str:
    try:
        return f"it to be ready ({answer.json()['detail']})"
    except (ValueError, KeyError, TypeError):
        return "it to be ready"
