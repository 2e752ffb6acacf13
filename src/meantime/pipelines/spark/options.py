"""The options of the Spark sources: read once on the driver, checked there, and named in every error.

What is not given comes from the environment that `register` found (`MEANTIME_URL`, `MEANTIME_KEY`, `MEANTIME_CA`, …).
Spark hands option names over in lower case, so storages in `kafka.<storage>.<setting>` are compared without case.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from difflib import get_close_matches

import msgspec

from meantime.errors import Invalid
from meantime.pipelines.spark.broker import Broker

KAFKA = "kafka."
BEGIN, END = "begin", "end"
MOST_PER_CALL = 10_000

SPARKS_OWN = ("queryname", "checkpointlocation")
COMMON = ("url", "key", "ca", "insecure", "parallelism")
PRUNING = ("partitions", "written_from", "written_until")
EVENTS = (*COMMON, *PRUNING, "postgres", "event_type", "starting", "ending", "max_per_batch", "via")
TOPIC = (
    *COMMON,
    "topic",
    "producer_group",
    "postgres",
    "lease_ms",
    "max_per_batch",
    "now_ms",
    "rejects",
    "report",
    "body_b64",
)


@dataclass(frozen=True, slots=True)
class EventsOptions:
    broker: Broker
    event_type: str
    starting: str | Mapping[str, str] | None
    ending: str | Mapping[str, str] | None
    max_per_batch: int
    via: str
    parallelism: int
    partitions: tuple[str, ...] = ()
    """Only these, if any are named."""
    written_from: datetime | None = None
    written_until: datetime | None = None
    kafka: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Settings of Kafka's client by storage (lower case): what the API does not show, above all credentials."""
    postgres: str | None = None
    """Where credentials are looked up that are not given."""


@dataclass(frozen=True, slots=True)
class TopicOptions:
    broker: Broker
    topic: str
    postgres: str | None
    lease_ms: int
    max_per_batch: int
    now_ms: int | None
    rejects: str | None
    report: str | None
    body_b64: bool
    parallelism: int


def events_options(given: Mapping[str, str], defaults: Mapping[str, str]) -> EventsOptions:
    options = _Options(given, defaults, EVENTS, "meantime.events")
    return EventsOptions(
        broker=options.broker(),
        event_type=options.needed("event_type"),
        starting=options.place("starting"),
        ending=options.place("ending"),
        max_per_batch=options.number("max_per_batch", 200_000, 1, 100_000_000),
        via=options.choice("via", ("kafka", "http")),
        parallelism=options.number("parallelism", 2, 1, 10_000),
        partitions=tuple(name.strip() for name in (options.text("partitions") or "").split(",") if name.strip()),
        written_from=options.instant("written_from"),
        written_until=options.instant("written_until"),
        kafka=options.kafka(),
        postgres=options.text("postgres"),
    )


def topic_options(given: Mapping[str, str], defaults: Mapping[str, str]) -> TopicOptions:
    options = _Options(given, defaults, TOPIC, "meantime.topic")
    now_ms = options.text("now_ms")
    return TopicOptions(
        broker=options.broker(),
        topic=options.needed("topic"),
        postgres=options.text("postgres"),
        lease_ms=options.number("lease_ms", 600_000, 1_000, 365 * 24 * 3_600_000),
        max_per_batch=options.number("max_per_batch", MOST_PER_CALL, 1, MOST_PER_CALL),
        now_ms=None if now_ms is None else options.number("now_ms", 0, 0, 1 << 52),
        rejects=options.text("rejects"),
        report=options.text("report"),
        body_b64=options.choice("body_b64", ("false", "true")) == "true",
        parallelism=options.number("parallelism", 2, 1, 10_000),
    )


class _Options:
    def __init__(self, given: Mapping[str, str], defaults: Mapping[str, str], known: tuple[str, ...], source: str) -> None:
        self._given = {name.lower(): str(value) for name, value in given.items()}
        self._defaults = defaults if self._given.get("url") in (None, defaults.get("url")) else _of_no_cluster(defaults)
        self._source = source
        self._check(known)

    def _check(self, known: tuple[str, ...]) -> None:
        for name in self._given:
            if name in known or name in SPARKS_OWN or (name.startswith(KAFKA) and "event_type" in known):
                continue
            near = get_close_matches(name, known, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"known are {', '.join(known)}"
            raise Invalid(f"{self._source} has no option {name!r}: {hint}", option=name)

    def text(self, name: str) -> str | None:
        return self._given.get(name) or self._defaults.get(name) or None

    def needed(self, name: str) -> str:
        found = self.text(name)
        if not found:
            raise Invalid(f"{self._source} needs the option {name!r}", option=name)
        return found

    def number(self, name: str, default: int, least: int, most: int) -> int:
        text = self.text(name)
        if text is None:
            return default
        try:
            number = int(text)
        except ValueError:
            raise Invalid(f"option {name!r} is a whole number, not {text!r}", option=name) from None
        if not least <= number <= most:
            raise Invalid(f"option {name!r} is from {least} to {most}, not {number}", option=name)
        return number

    def choice(self, name: str, choices: tuple[str, ...]) -> str:
        """The first one is the default."""
        text = (self.text(name) or choices[0]).lower()
        if text not in choices:
            raise Invalid(f"option {name!r} is one of {', '.join(choices)}, not {text!r}", option=name)
        return text

    def instant(self, name: str) -> datetime | None:
        text = self.text(name)
        try:
            found = None if text is None else datetime.fromisoformat(text)
        except ValueError:
            raise Invalid(f"option {name!r} is an instant like 2026-05-01T09:00:00Z, not {text!r}", option=name) from None
        return found if found is None or found.tzinfo else found.replace(tzinfo=UTC)

    def place(self, name: str) -> str | Mapping[str, str] | None:
        text = self.text(name)
        if text is None or text.lower() in (BEGIN, END):
            return text and text.lower()
        return _cursors(name, text)

    def broker(self) -> Broker:
        url = self.text("url")
        if not url:
            raise Invalid("say where the nodes are: option 'url', or MEANTIME_URL when the session is made", option="url")
        group, insecure = self.text("producer_group") or "default", self.choice("insecure", ("false", "true")) == "true"
        return Broker(url, self.text("key"), group, self.text("ca"), insecure)

    def kafka(self) -> dict[str, dict[str, str]]:
        settings: dict[str, dict[str, str]] = {}
        for name, value in self._given.items():
            if name.startswith(KAFKA):
                storage, _, setting = name.removeprefix(KAFKA).partition(".")
                if not storage or not setting:
                    raise Invalid(f"option {name!r} is written kafka.<storage>.<setting>", option=name)
                settings.setdefault(storage, {})[setting] = value
        return settings


def _of_no_cluster(defaults: Mapping[str, str]) -> dict[str, str]:
    """Another cluster than the one that was found has another database and other keys."""
    return {name: value for name, value in defaults.items() if name in ("parallelism", "producer_group")}


def _cursors(name: str, text: str) -> dict[str, str]:
    """As a stream takes them, `[{"partition": "0", "offset": "…"}]`, or short, `{"0": "…"}`."""
    try:
        document = msgspec.json.decode(text)
        if isinstance(document, list):
            document = {item["partition"]: item["offset"] for item in document}
        return msgspec.convert(document, dict[str, str])
    except (msgspec.MsgspecError, KeyError, TypeError):
        raise Invalid(f"option {name!r} is 'begin', 'end' or cursors by partition, not {text[:80]!r}", option=name) from None
