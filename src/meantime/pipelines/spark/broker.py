"""Where the API of a cluster is, and a client for it."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from meantime.sdk.client import Client


@dataclass(frozen=True, slots=True)
class Broker:
    """Where the API is and how to speak to it."""

    url: str
    key: str | None = None
    producer_group: str = "default"


def client_of(broker: Broker) -> "Client":
    # Tasks import this module too, and speak to nobody but Kafka: they should not wait for what they do not need.
    from meantime.sdk.client import Client

    return Client(broker.url, broker.key, producer_group=broker.producer_group)
