"""Settings of a node: defaults < TOML file < environment < flags.

Every key is declared once, with its meaning; `meantime config` prints this declaration with the value in force and where it
came from. In the environment a key is spelled `MEANTIME_<KEY>`; in the TOML file it is a top-level key.
"""

import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import msgspec
from msgspec import Meta

from meantime.errors import Invalid
from meantime.names import is_loopback

PREFIX = "MEANTIME_"


def _about(text: str, **limits: Any) -> Meta:
    return Meta(description=text, **limits)


class Config(msgspec.Struct, frozen=True, kw_only=True):
    id: Annotated[str, _about("Name of this node; keep it over restarts.", pattern="^[0-9A-Za-z._-]{1,64}$")] = "node-1"
    host: Annotated[str, _about("Address to listen on. Beyond loopback, authentication and TLS must be on.")] = "127.0.0.1"
    port: Annotated[int, _about("HTTP port; 0 takes a free one.", ge=0, le=65535)] = 8080
    unix_socket: Annotated[str, _about("Path of a Unix socket to listen on besides; only this user may connect.")] = ""
    public_url: Annotated[
        str, _about("Address under which other nodes and clients reach this node; made from host and port if empty.")
    ] = ""

    zookeeper: Annotated[
        str,
        _about("ZooKeeper servers as host:port,host:port, with an optional /path that takes the place of zookeeper_root."),
    ] = "127.0.0.1:2181"
    zookeeper_root: Annotated[str, _about("Path below which everything is kept.", pattern="^/[^/].*[^/]$")] = "/meantime"
    zookeeper_auth: Annotated[str, _about("user:password for digest ACLs on all that is created; empty for open ACLs.")] = ""
    session_timeout: Annotated[float, _about("Seconds after which a silent node is taken for dead.", ge=1, le=60)] = 6.0
    kafka: Annotated[
        str, _about("Kafka clusters: brokers separated by ',', clusters by ';'. The first is the default storage.")
    ] = "127.0.0.1:9092"
    kafka_settings: Annotated[
        dict[str, str | int | float | bool],
        _about("Settings of librdkafka for the default storage (SASL, TLS, client.id): a table; JSON in the environment."),
    ] = {}
    postgres: Annotated[str, _about("PostgreSQL as a URI; several hosts by ','.")] = "postgresql://127.0.0.1:5432/meantime"
    postgres_pool: Annotated[int, _about("Most connections to PostgreSQL.", ge=2, le=200)] = 16

    auth: Annotated[bool, _about("Ask for API keys. May be off on loopback only.")] = False
    tls_cert: Annotated[str, _about("PEM file with the certificate chain; switches TLS on together with tls_key.")] = ""
    tls_key: Annotated[str, _about("PEM file with the private key.")] = ""
    tls_ca: Annotated[
        str, _about("PEM file with the CAs whose client certificates are required; also trusted for peers.")
    ] = ""
    tls_peer_ca: Annotated[
        str, _about("PEM file with the CAs that sign the other nodes; no certificate is asked of clients. Else tls_ca.")
    ] = ""
    insecure: Annotated[
        bool, _about("Take keys without TLS beyond loopback: only where something in front of the node speaks TLS.")
    ] = False

    max_body_bytes: Annotated[int, _about("Largest request body, after decompression.", ge=1024)] = 64 * 1024 * 1024
    max_bodies_bytes: Annotated[
        int, _about("Bytes of all request bodies in memory at once; beyond it requests are answered with 503.", ge=1024)
    ] = 256 * 1024 * 1024
    max_header_bytes: Annotated[int, _about("Largest request line and headers together.", ge=1024)] = 64 * 1024
    header_timeout: Annotated[float, _about("Seconds a client may take to send its headers.", gt=0)] = 10.0
    body_timeout: Annotated[float, _about("Seconds a client may take to send its body.", gt=0)] = 60.0
    max_connections: Annotated[int, _about("Most connections at once; more are answered with 503.", ge=1)] = 4096
    stop_timeout: Annotated[float, _about("Seconds that requests in flight have to finish at a stop.", ge=0)] = 10.0

    drift_limit_ms: Annotated[int, _about("Difference from cluster time at which a node becomes degraded.", ge=10)] = 500
    clock_source: Annotated[
        str,
        _about(
            "Where this node has its time from: system, or ntp:<host>[:<port>],… for NTP servers.",
            pattern=r"^(system|ntp:[^\s,]+(,[^\s,]+)*)$",
        ),
    ] = "system"
    clock_skew_ms: Annotated[int, _about("For tests: make this node's clock wrong by so much.")] = 0
    clock_skew_for: Annotated[float, _about("For tests: seconds after which the skew goes away; 0 is never.", ge=0)] = 0.0

    publish_wait_for: Annotated[
        float, _about("Seconds that a publisher waits for a running switch before it gets 503.", ge=0)
    ] = 30.0
    barrier_timeout: Annotated[
        float, _about("Seconds that a switch waits for the nodes' acknowledgements where all of them must.", gt=0)
    ] = 15.0
    switch_overtake_after: Annotated[
        float,
        _about("Seconds after which a switch goes on without nodes that do not answer, once the old topic is sealed.", ge=0),
    ] = 0.3
    min_retention_ms: Annotated[int, _about("Smallest retention of an event type.", ge=1000)] = 3_600_000
    apps_namespace: Annotated[
        str, _about("Where applications live in ZooKeeper: a path, or a name below zookeeper_root.", min_length=1)
    ] = "apps"
    timers_storage: Annotated[
        str,
        _about("Storage where timers and their callbacks live: one of `kafka` (default, kafka-2, …) or a registered one."),
    ] = "default"
    timers_lead: Annotated[int, _about("Seconds by which ticks and due timers run ahead of the clock.", ge=2, le=60)] = 5
    timers_near: Annotated[
        int, _about("Seconds ahead within which dispatchers take timers straight from their requests.", ge=15, le=600)
    ] = 90
    timers_horizon: Annotated[int, _about("Seconds that a timer may lie ahead.", ge=60)] = 365 * 86_400
    timers_max_callback_bytes: Annotated[int, _about("Largest callback of a timer.", ge=1, le=64 * 1024 * 1024)] = 256 * 1024
    timers_remember: Annotated[int, _about("Seconds that a timer which has ended stays known.", ge=60)] = 86_400
    timers_shares: Annotated[int, _about("Partitions of timer-due, where it is created: dispatchers share them.", ge=1)] = 4
    timers_request_partitions: Annotated[int, _about("Partitions of timer-request, where it is created.", ge=1)] = 2

    max_streams: Annotated[int, _about("Most event streams open at once on this node.", ge=1)] = 4096

    console_session_for: Annotated[
        int, _about("Seconds after which whoever has logged in to the console has to do so again.", ge=60, le=30 * 86_400)
    ] = 12 * 3600

    audit_keep_for: Annotated[int, _about("Seconds that the audit log remembers what operators have done.", ge=3600)] = (
        90 * 86_400
    )

    log_level: Annotated[str, _about("debug, info, warning or error.", pattern="^(debug|info|warning|error)$")] = "info"
    log_format: Annotated[str, _about("json, or console for people.", pattern="^(json|console)$")] = "json"

    def kafka_clusters(self) -> list[str]:
        return [cluster.strip() for cluster in self.kafka.split(";") if cluster.strip()]


@dataclass(frozen=True, slots=True)
class Setting:
    """One key as `meantime config` shows it."""

    key: str
    variable: str
    about: str
    default: Any
    value: Any
    source: str


SECRET_KEYS = frozenset({"zookeeper_auth", "kafka_settings"})
TABLES = frozenset({"kafka_settings"})
HIDDEN = "***"
_PASSWORD_WORD = re.compile(r"(\b\w*password\s*=\s*)(?:'(?:\\.|[^'\\])*'?|(?:\\.|[^\s\\])+)", re.IGNORECASE)
_PASSWORD_PARAMETER = re.compile(r"((?:^|&)\w*password=)[^&]*", re.IGNORECASE)


def load(file: Path | None, environment: Mapping[str, str], flags: Mapping[str, Any]) -> Config:
    config, _ = load_with_sources(file, environment, flags)
    return config


def load_with_sources(
    file: Path | None, environment: Mapping[str, str], flags: Mapping[str, Any]
) -> tuple[Config, Mapping[str, str]]:
    """The settings in force, and for each key that is not a default where its value came from."""
    values: dict[str, Any] = {}
    sources: dict[str, str] = {}
    for source, layer in _layers(file, environment, flags):
        values |= layer
        sources |= dict.fromkeys(layer, source)
    config = _convert(values, sources)
    _check(config)
    return config, sources


def _layers(file: Path | None, environment: Mapping[str, str], flags: Mapping[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    keys = Config.__struct_fields__
    in_file = _read(file) if file else {}
    if unknown := sorted(set(in_file) - set(keys)):
        raise Invalid(f"{file}: unknown key {unknown[0]!r}; `meantime config` lists them all")
    in_environment = {key: environment[PREFIX + key.upper()] for key in keys if PREFIX + key.upper() in environment}
    in_flags = {key: value for key, value in flags.items() if value is not None}
    return [(f"file {file}", in_file), ("environment", in_environment), ("flag", in_flags)]


def _read(file: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(file.read_text("utf-8"))
    except OSError as error:
        raise Invalid(f"cannot read the configuration file {file}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise Invalid(f"{file} is not valid TOML: {error}") from error


def _convert(values: dict[str, Any], sources: Mapping[str, str]) -> Config:
    hints = get_type_hints(Config, include_extras=True)
    converted = {}
    for key, value in values.items():
        try:
            converted[key] = msgspec.convert(_table(value) if key in TABLES else value, hints[key], strict=False)
        except (msgspec.ValidationError, msgspec.DecodeError) as error:
            got = "" if key in SECRET_KEYS else f"; got {value!r}"
            raise Invalid(f"{key} (from {sources[key]}): {error}{got}") from error
    return Config(**converted)


def _table(value: Any) -> Any:
    """What is a table in the file is JSON in the environment."""
    return msgspec.json.decode(value or "{}") if isinstance(value, str) else value


def _check(config: Config) -> None:
    if bool(config.tls_cert) != bool(config.tls_key):
        raise Invalid("tls_cert and tls_key go together: give both or none")
    for key in ("tls_cert", "tls_key", "tls_ca", "tls_peer_ca"):
        path = getattr(config, key)
        if path and not os.access(path, os.R_OK):
            raise Invalid(f"{key}: cannot read {path}")
    if config.max_bodies_bytes < config.max_body_bytes:
        raise Invalid("max_bodies_bytes must be at least max_body_bytes: otherwise the largest body would never be taken")
    if not config.auth and not is_loopback(config.host):
        raise Invalid(
            f"refusing to listen on {config.host} without authentication: set MEANTIME_AUTH=true and make a key "
            "with `meantime keys add`, or listen on 127.0.0.1"
        )
    if config.auth and not is_loopback(config.host) and not config.tls_cert and not config.insecure:
        raise Invalid(
            f"refusing to listen on {config.host} without TLS: keys would arrive in the clear; give tls_cert and tls_key, "
            "or say that you want that with --insecure"
        )


def describe(config: Config, sources: Mapping[str, str]) -> list[Setting]:
    """Every key with its meaning, its default, its value and where that came from; secrets are hidden."""
    return [_setting(field, config, sources) for field in msgspec.structs.fields(Config)]


def _setting(field: msgspec.structs.FieldInfo, config: Config, sources: Mapping[str, str]) -> Setting:
    annotation = get_type_hints(Config, include_extras=True)[field.name]
    value = getattr(config, field.name)
    hidden = _hidden(value) if field.name in SECRET_KEYS else value
    return Setting(
        key=field.name,
        variable=PREFIX + field.name.upper(),
        about=annotation.__metadata__[0].description,
        default=field.default,
        value=without_password(hidden) if field.name == "postgres" else hidden,
        source=sources.get(field.name, "default"),
    )


def _hidden(value: Any) -> Any:
    """Of a table the names may be seen."""
    if isinstance(value, dict):
        return dict.fromkeys(value, HIDDEN)
    return HIDDEN if value else value


def without_password(uri: str) -> str:
    """Where a database is, fit to be shown: for a URI and for `keyword=value` pairs."""
    scheme, separator, rest = uri.partition("://")
    if not separator:
        return _PASSWORD_WORD.sub(rf"\1{HIDDEN}", uri)
    userinfo, at, where = rest.partition("@") if "@" in rest.partition("/")[0] else ("", "", rest)
    place, mark, query = where.partition("?")
    query = _PASSWORD_PARAMETER.sub(rf"\1{HIDDEN}", query)
    return f"{scheme}{separator}{userinfo.partition(':')[0]}{at}{place.rpartition('@')[2]}{mark}{query}"
