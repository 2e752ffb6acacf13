"""A storage is a Kafka cluster and how to reach it; every client of Kafka takes its settings from one."""

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Storage:
    id: str
    bootstrap_servers: str
    settings: dict[str, str] = field(default_factory=dict)
    default: bool = False
    storage_type: str = "kafka"


def client_config(storage: Storage) -> dict[str, Any]:
    """What every client of this storage starts from; consumers and producers add their own."""
    return {
        **storage.settings,
        "bootstrap.servers": storage.bootstrap_servers,
        "client.id": storage.settings.get("client.id", "meantime"),
        "log_level": 2,
        "reconnect.backoff.ms": 50,
        "reconnect.backoff.max.ms": 1000,
    }
