"""ZooKeeper, from the jars that Spark brings along."""

import socket
from pathlib import Path

from meantime.stack.folder import Folder
from meantime.stack.java.archive import ClassArchive
from meantime.stack.java.jars import spark_home
from meantime.stack.java.jvm import LOGGING, java_command
from meantime.stack.java.runtime import LIGHT, Java
from meantime.stack.model import HOST, Spec

TICK_MS = 500
"""Sessions may be as short as two ticks: a killed node leaves within seconds."""


def zookeeper(folder: Folder, java: Java, port: int) -> Spec:
    home = folder.path / "zookeeper"
    return Spec(
        kind="zookeeper",
        name="zookeeper",
        command=java_command(
            ClassArchive(java, class_path()),
            heap="256m",
            home=home,
            main=("org.apache.zookeeper.server.quorum.QuorumPeerMain", str(home / "zoo.cfg")),
            options=(*LIGHT, "-Dzookeeper.jmx.log4j.disable=true"),
        ),
        log=folder.logs / "zookeeper.log",
        probe=lambda: answers(port),
        prepare=lambda: _prepare(home, port),
        stop_within=10.0,
    )


def answers(port: int) -> str | None:
    """A standalone server reports its mode once it serves; before, it says that it does not serve requests."""
    try:
        with socket.create_connection((HOST, port), timeout=2) as connection:
            connection.sendall(b"srvr")
            answer = connection.makefile("rb").read()
    except OSError:
        return "its port to open"
    return None if b"Mode:" in answer else "it to serve requests"


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


def _prepare(home: Path, port: int) -> None:
    (home / "data").mkdir(parents=True, exist_ok=True)
    (home / "log4j2.properties").write_text(LOGGING)
    settings = {
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
    (home / "zoo.cfg").write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
