"""ZooKeeper, from the jars that Spark brings along: one server, or several that elect a leader."""

import socket
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from meantime.stack.folder import Folder
from meantime.stack.java.archive import ClassArchive
from meantime.stack.java.jars import spark_home
from meantime.stack.java.jvm import FEW_ARENAS, LOGGING, java_command
from meantime.stack.java.runtime import LIGHT, Java
from meantime.stack.model import HOST, Spec

TICK_MS = 500
"""Sessions may be as short as two ticks: a killed node leaves within seconds."""


LONGEST_SESSION_MS = 10_000
"""In an ensemble: so long after PostgreSQL's primary and its agent are gone another one can take over."""


@dataclass(frozen=True, slots=True)
class Server:
    """Its port for clients; in an ensemble also those for its followers and for elections."""

    name: str
    port: int
    peer: int = 0
    election: int = 0


def zookeeper(folder: Folder, java: Java, server: Server, ensemble: Sequence[Server] = ()) -> Spec:
    home = folder.path / server.name
    return Spec(
        kind="zookeeper",
        name=server.name,
        command=java_command(
            ClassArchive(java, class_path()),
            heap="256m",
            home=home,
            main=("org.apache.zookeeper.server.quorum.QuorumPeerMain", str(home / "zoo.cfg")),
            options=(*LIGHT, "-Dzookeeper.jmx.log4j.disable=true"),
        ),
        log=folder.logs / f"{server.name}.log",
        env=FEW_ARENAS,
        probe=lambda: answers(server.port),
        prepare=lambda: _prepare(home, server, ensemble),
        stop_within=10.0,
    )


def answers(port: int) -> str | None:
    try:
        serving = mode(port)
    except OSError:
        return "its port to open"
    return None if serving else "it to serve requests"


def mode(port: int) -> str | None:
    """`standalone`, `leader` or `follower`, once it serves; before, a server says that it does not serve requests."""
    with socket.create_connection((HOST, port), timeout=2) as connection:
        connection.sendall(b"srvr")
        answer = connection.makefile("rb").read().decode(errors="replace")
    return next((line.partition(": ")[2] for line in answer.splitlines() if line.startswith("Mode: ")), None)


def class_path() -> str:
    """Only what the server loads: with all of Spark on the class path it would take twice as long to start."""
    jars = spark_home() / "jars"
    names = (
        "zookeeper-",
        "slf4j-api-",
        "log4j-api-",
        "log4j-core-",
        "log4j-slf4j2-",
        "metrics-core-",
        "netty-",
        "snappy-",
        "commons-",
    )
    return ":".join(str(jar) for jar in sorted(jars.glob("*.jar")) if jar.name.startswith(names))


def _prepare(home: Path, server: Server, ensemble: Sequence[Server]) -> None:
    (home / "data").mkdir(parents=True, exist_ok=True)
    (home / "log4j2.properties").write_text(LOGGING)
    if ensemble:
        (home / "data" / "myid").write_text(f"{ensemble.index(server) + 1}\n")
    settings = {**_settings(home, server.port), **_ensemble_settings(ensemble)}
    (home / "zoo.cfg").write_text("".join(f"{key}={value}\n" for key, value in settings.items()))


def _settings(home: Path, port: int) -> dict[str, object]:
    return {
        "tickTime": TICK_MS,
        "maxSessionTimeout": 60_000,
        "dataDir": home / "data",
        "clientPort": port,
        "clientPortAddress": HOST,
        "maxClientCnxns": 0,
        "admin.enableServer": "false",
        "4lw.commands.whitelist": "srvr,ruok,mntr,cons,dump",
        "autopurge.snapRetainCount": 3,
        "autopurge.purgeInterval": 1,
    }


def _ensemble_settings(ensemble: Sequence[Server]) -> dict[str, object]:
    if not ensemble:
        return {}
    servers = {f"server.{n}": f"{HOST}:{one.peer}:{one.election}" for n, one in enumerate(ensemble, start=1)}
    return {"initLimit": 20, "syncLimit": 6, "maxSessionTimeout": LONGEST_SESSION_MS, **servers}
