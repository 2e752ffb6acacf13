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
    ca: str | None = None
    insecure: bool = False


def client_of(broker: Broker) -> "Client":
    # Tasks import this module too, and speak to nobody but Kafka: they should not wait for what they do not need.
    from meantime.sdk.client import Client

    group, ca = broker.producer_group, broker.ca
    return Client(broker.url, broker.key, producer_group=group, ca=ca, insecure=broker.insecure or None)
