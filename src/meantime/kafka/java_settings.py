"""A storage's settings as Kafka's Java client takes them: Spark's own connector is such a client.

Settings are written down once, in the words of librdkafka. What the Java client has no word for is an error that names it,
unless it only tunes librdkafka: a connection must never be less safe than it was asked to be.
"""

from collections.abc import Callable, Mapping
from pathlib import Path

from meantime.errors import Invalid
from meantime.kafka.settings import Storage

SAME = frozenset(
    {
        "client.id",
        "client.rack",
        "client.dns.lookup",
        "connections.max.idle.ms",
        "metadata.max.age.ms",
        "socket.connection.setup.timeout.ms",
        "compression.type",
        "ssl.keystore.password",
        "ssl.key.password",
    }
)
RENAMED = {
    "compression.codec": "compression.type",
    "socket.send.buffer.bytes": "send.buffer.bytes",
    "socket.receive.buffer.bytes": "receive.buffer.bytes",
}
ONLY_TUNES_LIBRDKAFKA = frozenset(
    {
        "api.version.fallback.ms",
        "api.version.request",
        "api.version.request.timeout.ms",
        "broker.address.family",
        "broker.address.ttl",
        "broker.version.fallback",
        "compression.level",
        "socket.blocking.max.ms",
        "socket.keepalive.enable",
        "socket.max.fails",
        "socket.nagle.disable",
        "socket.timeout.ms",
        "statistics.interval.ms",
    }
)
LOGIN_MODULES = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
}


def java_settings(storage: Storage, read: Callable[[str], str] = lambda path: Path(path).read_text()) -> dict[str, str]:
    """Everything that the Java client needs to reach a storage, its address included. `read` opens files with
    certificates: where librdkafka takes two files, the Java client takes what is in them."""
    left = dict(storage.settings)
    try:
        found = {"bootstrap.servers": storage.bootstrap_servers, **_sasl(left), **_tls(left, read)}
    except OSError as error:
        raise Invalid(f"storage {storage.id!r}: cannot read {error.filename}: {error.strerror}") from error
    for name, value in left.items():
        if name in SAME or name in RENAMED:
            found[RENAMED.get(name, name)] = value
        elif name not in ONLY_TUNES_LIBRDKAFKA:
            raise Invalid(
                f"storage {storage.id!r}: Kafka's Java client, and so Spark, has nothing like {name!r}", setting=name
            )
    return found


def connector_options(storage: Storage) -> dict[str, str]:
    """The same as options of Spark's Kafka connector."""
    return {f"kafka.{name}": value for name, value in java_settings(storage).items()}


def _sasl(left: dict[str, str]) -> dict[str, str]:
    found = {}
    if protocol := left.pop("security.protocol", None):
        found["security.protocol"] = protocol.upper()
    if not found.get("security.protocol", "").startswith("SASL"):
        return found
    given = left.pop("sasl.mechanism", None)
    mechanism = left.pop("sasl.mechanisms", given) or "GSSAPI"
    if mechanism not in LOGIN_MODULES:
        raise Invalid(f"sasl.mechanism {mechanism!r} cannot be used with Kafka's Java client here", setting="sasl.mechanism")
    user, password = _quoted(left.pop("sasl.username", "")), _quoted(left.pop("sasl.password", ""))
    login = f"{LOGIN_MODULES[mechanism]} required username={user} password={password};"
    return {**found, "sasl.mechanism": mechanism, "sasl.jaas.config": login}


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _tls(left: dict[str, str], read: Callable[[str], str]) -> dict[str, str]:
    found: dict[str, str] = {}
    if location := left.pop("ssl.ca.location", None):
        found |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": location}
    if certificates := left.pop("ssl.ca.pem", None):
        found |= {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": certificates}
    found |= _client_certificate(left, read)
    if algorithm := left.pop("ssl.endpoint.identification.algorithm", None):
        found["ssl.endpoint.identification.algorithm"] = "" if algorithm == "none" else algorithm
    if left.get("enable.ssl.certificate.verification", "true") == "true":
        left.pop("enable.ssl.certificate.verification", None)
    return found


def _client_certificate(left: dict[str, str], read: Callable[[str], str]) -> Mapping[str, str]:
    if location := left.pop("ssl.keystore.location", None):
        return {"ssl.keystore.type": "PKCS12", "ssl.keystore.location": location}
    certificate, key = _pem(left, "ssl.certificate", read), _pem(left, "ssl.key", read)
    if certificate is None and key is None:
        return {}
    if certificate is None or key is None:
        raise Invalid("a certificate and its key go together: ssl.certificate.… and ssl.key.…")
    return {"ssl.keystore.type": "PEM", "ssl.keystore.certificate.chain": certificate, "ssl.keystore.key": key}


def _pem(left: dict[str, str], name: str, read: Callable[[str], str]) -> str | None:
    location, content = left.pop(f"{name}.location", None), left.pop(f"{name}.pem", None)
    return read(location) if location else content
