"""Nodes of the embedded stack, and the schema that they need."""

import sys
from collections.abc import Callable, Mapping

import httpx

from meantime.access.keys import new_key
from meantime.stack.folder import Folder
from meantime.stack.model import HOST, NodeAddress, Places, Spec


def environment(places: Places) -> dict[str, str]:
    """How any process of the stack finds the services."""
    return {
        "MEANTIME_ZOOKEEPER": places.zookeeper.partition("/")[0],
        "MEANTIME_KAFKA": ";".join(places.kafka),
        "MEANTIME_POSTGRES": places.postgres,
        # People try retention out here; a node on its own keeps the cautious default.
        "MEANTIME_MIN_RETENTION_MS": "1000",
    }


def with_keys(folder: Folder) -> dict[str, str]:
    """Nodes that ask for keys, and a first one that may do everything; it stays in the data directory."""
    if not folder.first_key.exists():
        folder.write_secret(folder.first_key, new_key())
    return {"MEANTIME_AUTH": "true", "MEANTIME_FIRST_KEY": folder.first_key.read_text()}


def migration(
    folder: Folder,
    places: Places,
    extra: Mapping[str, str],
    depends: tuple[str, ...],
    prepare: Callable[[], None] | None = None,
) -> Spec:
    return Spec(
        kind="migrate",
        name="migrate",
        command=(sys.executable, "-m", "meantime", "migrate"),
        log=folder.logs / "migrate.log",
        env={**environment(places), **extra},
        depends=depends,
        prepare=prepare,
        once=True,
    )


def node(folder: Folder, places: Places, which: NodeAddress, depends: tuple[str, ...], extra: Mapping[str, str]) -> Spec:
    host, _, port = which.url.removeprefix("http://").rpartition(":")
    command = (sys.executable, "-m", "meantime", "node", "--id", which.id, "--port", port)
    return Spec(
        kind="node",
        name=which.id,
        command=command if host == HOST else (*command, "--host", host),
        log=folder.logs / f"{which.id}.log",
        env={**environment(places), **extra},
        depends=depends,
        probe=lambda: answers(which.url),
        stop_within=20.0,
    )


def answers(url: str) -> str | None:
    """Alive first, then ready; a node that is alive says itself what it still waits for."""
    try:
        if _get(f"{url}/health", within=2).status_code != 200:
            return "it to be healthy"
        answer = _get(f"{url}/ready", within=5)
    except httpx.HTTPError:
        return "it to answer HTTP"
    return None if answer.status_code == 200 else _reason(answer)


def _get(url: str, within: float) -> httpx.Response:
    """Without what is needed for TLS, which takes longer to set up than all the rest, many times in every start."""
    return httpx.get(url, timeout=within, trust_env=False, verify=False)


def _reason(answer: httpx.Response) -> str:
    try:
        return f"it to be ready ({answer.json()['detail']})"
    except (ValueError, KeyError, TypeError):
        return "it to be ready"
