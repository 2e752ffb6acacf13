"""A storage is a Kafka cluster and how to reach it; every client of Kafka takes its settings from one.

Settings are those of librdkafka, but only the ones that say how to reach a cluster: nothing that would weaken what the
broker promises, run a program or load a library. Secrets go in and never come out.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from meantime.errors import Invalid
from meantime.names import has_nul

DEFAULT = "default"
"""The id of the first cluster that a process is configured with."""

ALLOWED = re.compile(
    r"security\.protocol|client\.(id|rack|dns\.lookup)|broker\.address\.(family|ttl)|enable\.ssl\.certificate\.verification"
    r"|socket\.[a-z.]+|connections\.max\.idle\.ms|metadata\.max\.age\.ms|api\.version\.[a-z.]+|broker\.version\.fallback"
    r"|sasl\.[a-z.]+|https\.[a-z.]+|ssl\.[a-z.0-9]+|compression\.(type|codec|level)|statistics\.interval\.ms"
)
DANGEROUS = re.compile(r"sasl\.kerberos\.kinit\.cmd|ssl\.engine\.[a-z.]+|ssl_engine[a-z_]*")
SHOWN_OF_SASL = frozenset({"sasl.mechanism", "sasl.mechanisms", "sasl.oauthbearer.method", "sasl.kerberos.service.name"})
SECRET = re.compile(r"password|secret|token|\.pem$|ssl\.key|keystore|assertion|config$")


@dataclass(frozen=True, slots=True)
class Storage:
    id: str
    bootstrap_servers: str
    settings: dict[str, str] = field(default_factory=dict, hash=False, repr=False)
    default: bool = False
    storage_type: str = "kafka"


def client_config(storage: Storage, client_id: str = "meantime") -> dict[str, Any]:
    """What every client of this storage starts from; consumers and producers add their own."""
    return {
        "client.id": client_id,
        **storage.settings,
        "bootstrap.servers": storage.bootstrap_servers,
        "log_level": 2,
        "reconnect.backoff.ms": 50,
        "reconnect.backoff.max.ms": 1000,
    }


ONE_AFTER_THE_OTHER: Mapping[str, Any] = {
    "acks": "all",
    "enable.idempotence": True,
    "max.in.flight.requests.per.connection": 1,
}
"""What every producer that is no transaction's adds. A broker takes the first request of a producer to a partition whatever
its number. If the very first one has to be repeated and the second was taken meanwhile, the records of the first are lost,
and the client says that they were written."""


def configured_storages(clusters: Sequence[str], settings: Mapping[str, Any]) -> list[Storage]:
    """The clusters that a process is configured with: the first is `default` and has the settings, the others are
    `kafka-2` and so on."""
    ids = [DEFAULT, *(f"kafka-{number}" for number in range(2, len(clusters) + 1))]
    given = checked_settings(settings, "kafka_settings")
    return [
        Storage(id, servers, given if id == DEFAULT else {}, default=id == DEFAULT)
        for id, servers in zip(ids, clusters, strict=False)
    ]


def checked_settings(given: Mapping[str, Any], field: str) -> dict[str, str]:
    """Settings as librdkafka takes them; `Invalid` names the one that cannot be set, and never its value."""
    for name, value in given.items():
        if has_nul(value):
            raise Invalid(f"{field}: {name!r} has the character U+0000")
        if not ALLOWED.fullmatch(name) or DANGEROUS.fullmatch(name):
            raise Invalid(f"{field}: {name!r} cannot be set for a storage")
    return {name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in given.items()}


def is_secret(name: str) -> bool:
    return (name.startswith("sasl.") and name not in SHOWN_OF_SASL) or SECRET.search(name) is not None


def asks_for_credentials(settings: Mapping[str, str]) -> bool:
    """Whether a cluster with these settings lets nobody in who comes without more than an address."""
    return settings.get("security.protocol", "plaintext").lower() != "plaintext"
