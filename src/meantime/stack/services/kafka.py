"""Kafka in KRaft mode: each embedded cluster is one process that is broker and controller at once."""

import base64
import subprocess
import uuid
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from meantime.errors import StackError
from meantime.stack.folder import Folder
from meantime.stack.java.archive import ClassArchive
from meantime.stack.java.jars import jars_folder
from meantime.stack.java.jvm import LOGGING, java_command
from meantime.stack.java.runtime import LIGHT, Java
from meantime.stack.model import HOST, Spec

NODE_ID = 1


@dataclass(frozen=True, slots=True)
class Listeners:
    broker: int
    controller: int


def kafka(folder: Folder, java: Java, name: str, ports: Listeners) -> Spec:
    home = folder.path / name
    classes = ClassArchive(java, class_path())
    storage_tool = java_command(classes, heap="128m", home=home, main=("kafka.tools.StorageTool",), options=LIGHT)
    return Spec(
        kind="kafka",
        name=name,
        command=java_command(
            classes,
            heap="768m",
            home=home,
            main=("kafka.Kafka", str(home / "server.properties")),
        ),
        log=folder.logs / f"{name}.log",
        probe=lambda: answers(f"{HOST}:{ports.broker}"),
        prepare=lambda: _prepare(home, ports, storage_tool),
        stop_within=30.0,
    )


def class_path() -> str:
    return f"{jars_folder('kafka')}/*"


def answers(bootstrap: str) -> str | None:
    """A broker lists itself in the metadata only after it has joined its controller and recovered its logs."""
    client = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0, "reconnect.backoff.max.ms": 200})
    try:
        metadata = client.list_topics(timeout=2)
    except KafkaException:
        return "the broker to answer"
    return None if metadata.brokers else "the broker to register"


def _prepare(home: Path, ports: Listeners, storage_tool: tuple[str, ...]) -> None:
    home.mkdir(parents=True, exist_ok=True)
    (home / "log4j2.properties").write_text(LOGGING)
    properties = home / "server.properties"
    properties.write_text("".join(f"{key}={value}\n" for key, value in _settings(home, ports).items()))
    if not (home / "data" / "meta.properties").exists():
        _format(home, properties, storage_tool)


def _new_id() -> str:
    """A cluster's id as Kafka writes it; a leading dash would look like an option."""
    return "M" + base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")[1:]


def _format(home: Path, properties: Path, tool: tuple[str, ...]) -> None:
    """By Kafka's own tool: 0.8 s of Java (1.2 s without a class archive), once for a data directory."""
    done = subprocess.run(
        [*tool, "format", "-t", _new_id(), "-c", str(properties)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    if done.returncode != 0:
        raise StackError(f"cannot set up the storage of {home.name}: {(done.stderr or done.stdout).strip()[-500:]}")


def _settings(home: Path, ports: Listeners) -> dict[str, object]:
    return {
        "process.roles": "broker,controller",
        "node.id": NODE_ID,
        "controller.quorum.voters": f"{NODE_ID}@{HOST}:{ports.controller}",
        "controller.listener.names": "CONTROLLER",
        "listeners": f"PLAINTEXT://{HOST}:{ports.broker},CONTROLLER://{HOST}:{ports.controller}",
        "advertised.listeners": f"PLAINTEXT://{HOST}:{ports.broker}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "log.dirs": home / "data",
        "auto.create.topics.enable": "false",
        "num.partitions": 1,
        "default.replication.factor": 1,
        "offsets.topic.replication.factor": 1,
        "offsets.topic.num.partitions": 3,
        "transaction.state.log.replication.factor": 1,
        "transaction.state.log.min.isr": 1,
        "transaction.state.log.num.partitions": 3,
        "share.coordinator.state.topic.replication.factor": 1,
        "share.coordinator.state.topic.min.isr": 1,
        "group.initial.rebalance.delay.ms": 0,
        # A killed broker may come back only when the controller has given up on its former self.
        "broker.heartbeat.interval.ms": 500,
        "broker.session.timeout.ms": 4_000,
        # A record from far ahead must be refused: that is how a sealed topic is told from an open one.
        "log.message.timestamp.after.max.ms": 3_600_000,
        # The embedded stack allows retention by the second, and the default looks only every five minutes.
        "log.retention.check.interval.ms": 1_000,
        # By default the controller collects changes for 25 ms; publishers would wait that long in every switch.
        "controller.quorum.append.linger.ms": 0,
        # Nobody follows this controller, so nobody has to be told twice a second that nothing has changed.
        "metadata.max.idle.interval.ms": 0,
        "log.cleaner.dedupe.buffer.size": 16 * 1024 * 1024,
        "num.network.threads": 2,
        "num.io.threads": 4,
    }
