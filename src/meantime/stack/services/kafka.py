"""Kafka in KRaft mode: each embedded cluster is one process that is broker and controller at once, or several of these.

With several, every topic has a copy on each, and a write is acknowledged when two have it.
"""

import base64
import subprocess
import uuid
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from meantime.errors import StackError
from meantime.files import write_whole
from meantime.stack.folder import Folder
from meantime.stack.java.archive import ClassArchive
from meantime.stack.java.jars import jars_folder
from meantime.stack.java.jvm import FEW_ARENAS, LOGGING, java_command
from meantime.stack.java.runtime import LIGHT, Java
from meantime.stack.model import HOST, Spec

NODE_ID = 1
"""Of the broker of a cluster that has only one."""
FORMATTED_WITHIN = 240.0
ANSWERS_WITHIN = 5.0
"""Of a broker that lives; on a machine that is busy with many of them two seconds were not enough."""


@dataclass(frozen=True, slots=True)
class Listeners:
    broker: int
    controller: int


@dataclass(frozen=True, slots=True)
class Cluster:
    """What the brokers of a cluster have in common; their ids count from 1 on. One that is alone needs to know nobody."""

    id: str | None = None
    brokers: tuple[Listeners, ...] = ()
    durable: bool = False
    """Whether brokers write to the disk before they acknowledge, for machines that lose power."""

    def id_of(self, ports: Listeners) -> int:
        return self.brokers.index(ports) + 1 if self.brokers else NODE_ID


ALONE = Cluster()

DURABLE = {"log.flush.interval.messages": 1}
"""Otherwise Kafka leaves it to the system when what is written reaches the disk."""


def kafka(folder: Folder, java: Java, name: str, ports: Listeners, cluster: Cluster = ALONE) -> Spec:
    home = folder.path / name
    classes = ClassArchive(java, class_path())
    storage_tool = java_command(classes, heap="128m", home=home, main=("kafka.tools.StorageTool",), options=LIGHT)
    return Spec(
        kind="kafka",
        name=name,
        command=java_command(
            classes,
            heap="512m" if cluster.brokers else "768m",
            home=home,
            main=("kafka.Kafka", str(home / "server.properties")),
        ),
        log=folder.logs / f"{name}.log",
        env=FEW_ARENAS,
        probe=lambda: answers(f"{HOST}:{ports.broker}"),
        prepare=lambda: _prepare(home, ports, storage_tool, cluster),
        # The last of several that stop finds no majority any more to take its leave from, and waits for one.
        stop_within=12.0 if cluster.brokers else 30.0,
    )


def cluster_id(folder: Folder, cluster: str) -> str:
    """The same for all brokers of a cluster, made with the first."""
    file = folder.path / f"{cluster}.id"
    if not file.exists():
        folder.path.mkdir(parents=True, exist_ok=True)
        write_whole(file, _new_id().encode())
    return file.read_text()


def class_path() -> str:
    return f"{jars_folder('kafka')}/*"


def answers(bootstrap: str) -> str | None:
    """A broker lists itself in the metadata only after it has joined its controller and recovered its logs."""
    client = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0, "reconnect.backoff.max.ms": 200})
    try:
        metadata = client.list_topics(timeout=ANSWERS_WITHIN)
    except KafkaException:
        return "the broker to answer"
    return None if metadata.brokers else "the broker to register"


def partitions_led(bootstrap: str) -> Counter[int]:
    """Of how many partitions each broker is the leader, by its id; nothing while no broker answers."""
    client = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    try:
        topics = client.list_topics(timeout=3).topics.values()
    except KafkaException:
        return Counter()
    return Counter(partition.leader for topic in topics for partition in topic.partitions.values())


def _prepare(home: Path, ports: Listeners, storage_tool: tuple[str, ...], cluster: Cluster = ALONE) -> None:
    home.mkdir(parents=True, exist_ok=True)
    (home / "log4j2.properties").write_text(LOGGING)
    properties = home / "server.properties"
    settings = {**_settings(home, ports), **_replicated(ports, cluster), **(DURABLE if cluster.durable else {})}
    properties.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
    if not (home / "data" / "meta.properties").exists():
        _format(home, properties, storage_tool, cluster.id or _new_id())


def _new_id() -> str:
    """A cluster's id as Kafka writes it; a leading dash would look like an option."""
    return "M" + base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")[1:]


def _format(home: Path, properties: Path, tool: tuple[str, ...], id: str) -> None:
    """By Kafka's own tool: 0.8 s of Java (1.2 s without a class archive), once for a data directory."""
    done = subprocess.run(
        [*tool, "format", "-t", id, "-c", str(properties)],
        capture_output=True,
        text=True,
        timeout=FORMATTED_WITHIN,
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
        "broker.heartbeat.interval.ms": 1_000,
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


def _replicated(ports: Listeners, cluster: Cluster) -> dict[str, object]:
    """A copy on each of several brokers, two of which have what is acknowledged; that of Kafka's own topics included."""
    if not cluster.brokers:
        return {}
    voters = (f"{cluster.id_of(one)}@{HOST}:{one.controller}" for one in cluster.brokers)
    owners = ("default", "offsets.topic", "transaction.state.log", "share.coordinator.state.topic")
    return {
        "node.id": cluster.id_of(ports),
        "controller.quorum.voters": ",".join(voters),
        **{f"{owner}.replication.factor": len(cluster.brokers) for owner in owners},
        "min.insync.replicas": 2,
        "transaction.state.log.min.isr": 2,
        "share.coordinator.state.topic.min.isr": 2,
        # As Kafka has it: controllers that follow have to hear that the leader is alive.
        "metadata.max.idle.interval.ms": 500,
    }
