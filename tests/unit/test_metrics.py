"""Metrics follow the rules of Prometheus, have bounded labels, and are named in the documents as they are."""

import asyncio
import re
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import structlog
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import Metric
from prometheus_client.parser import text_string_to_metric_families

from meantime.api.meters import RefusalMeters
from meantime.measures import Measure, Measures
from meantime.metrics import REGISTRY, NamedCounter, NamedGauge
from meantime.timers.lateness import LatenessCounts
from meantime.timers.meters import DispatcherMeters
from meantime.timers.reports import DispatcherReport, Reported
from meantime.topics.meters import TopicMeters
from meantime.topics.model import Counts, TopicDepth

ROOT = Path(__file__).parents[2]
sys.path.append(str(ROOT / "tools"))

import reference  # noqa: E402

DOCS = sorted((ROOT / "docs").rglob("*.md"))
NOT_BASE_UNITS = "milliseconds|microseconds|nanoseconds|minutes|hours|days|weeks|kilobytes|megabytes|percent|ms|secs?|mins?"
TYPES = "counter|gauge|histogram|summary|metric"


def families() -> list[Metric]:
    for module in reference._modules_with_metrics():
        import_module(f"meantime.{module}")
    return [family for family in REGISTRY.collect() if family.name.startswith("meantime_")]


def complaints(family: Metric) -> Iterator[str]:
    """What `promtool check metrics` would say."""
    name = f"{family.name}_total" if family.type == "counter" else family.name
    if not re.fullmatch(r"[a-z][a-z0-9]*(_[a-z0-9]+)*", name):
        yield f"{name} is not in snake_case"
    if not family.documentation.endswith("."):
        yield f"{name} has no help"
    if family.type != "counter" and family.name.endswith("_total"):
        yield f"{name} is no counter and ends in _total"
    if family.type not in ("histogram", "summary") and re.search("_(count|sum|bucket)$", family.name):
        yield f"{name} has the suffix of a histogram"
    if found := re.search(f"_({NOT_BASE_UNITS})(_|$)", family.name):
        yield f"{name} has the unit {found[1]}; seconds and bytes are the base units"
    if found := re.search(f"_({TYPES})(_|$)", family.name):
        yield f"{name} names its type"
    labels = set(getattr(family, "_labelnames", ())) | {label for sample in family.samples for label in sample.labels}
    if family.type != "histogram" and "le" in labels:
        yield f"{name} has the label le"
    if family.type != "summary" and "quantile" in labels:
        yield f"{name} has the label quantile"
    if labels & {"id", "queue", "stream_id", "subscription_id", "token"}:
        yield f"{name} has ids as labels"


def test_names_and_labels_follow_the_rules_of_prometheus() -> None:
    assert [complaint for family in families() for complaint in complaints(family)] == []


def test_every_metric_that_a_page_names_exists() -> None:
    known = set()
    for family in families():
        known |= {family.name, f"{family.name}_total"} if family.type == "counter" else {family.name}
        if family.type == "histogram":
            known |= {f"{family.name}_{suffix}" for suffix in ("bucket", "sum", "count")}
    named = {
        (file.name, name)
        for file in DOCS
        for name in re.findall(r"\bmeantime_[a-z_]+\b(?!\*|/)", _without_other_names(file.read_text("utf-8")))
    }
    assert [one for one in sorted(named) if one[1] not in known] == []


def _without_other_names(text: str) -> str:
    """Channels of PostgreSQL, packages and the cookie of the console begin in the same way."""
    return re.sub(r"meantime_(event_types|storages|commits|subscriptions|keys|topics|schedules|session)\b(?!_)", "", text)


def values(*collectors: Any) -> dict[tuple[str, ...], float]:
    registry = CollectorRegistry()
    for collector in collectors:
        registry.register(collector)
    text = generate_latest(registry).decode()
    return {
        (sample.name, *dict(sorted(sample.labels.items())).values()): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_a_counter_has_the_first_names_and_all_others_as_one() -> None:
    counter = NamedCounter("written_total", "Written.", "name", most=2)
    for name in ("a", "b", "c", "d", "a"):
        counter.add(name, 1)
    assert values(counter) == {("written_total", "a"): 2, ("written_total", "b"): 1, ("written_total", "other"): 2}

    counter.forget("a")
    counter.add("c", 1)
    assert values(counter) == {("written_total", "b"): 1, ("written_total", "other"): 3}


def test_a_gauge_has_the_greatest_and_the_sum_of_all_others() -> None:
    gauge = NamedGauge("lag_events", "Lag.", ["app", "event_type"], most=1)
    gauge.measured({("a", "x"): 3, ("b", "x"): 5, ("b", "y"): 1})
    assert values(gauge) == {("lag_events", "b", "x"): 5, ("lag_events", "other", "other"): 4}

    gauge.measured({("a", "x"): 3})
    assert values(gauge) == {("lag_events", "a", "x"): 3}
    gauge.lost()
    assert values(gauge) == {}


def depth(topic_id: int, name: str, waiting: int, oldest_due_ms: int | None = None) -> TopicDepth:
    return TopicDepth(topic_id, name, Counts(waiting, 0, 0, 0), oldest_due_ms)


def test_topics_are_shown_by_name_for_as_long_as_they_live() -> None:
    meters = TopicMeters(most=2)
    meters.of(1).created += 7
    meters.of(2).lease(3, pulled=True)
    assert values(meters) == {}

    meters.measured([depth(1, "a", 5), depth(2, "b", 4, oldest_due_ms=8_000)], now_ms=10_500)
    found = values(meters)
    assert found["meantime_topics_messages", "waiting", "a"] == 5
    assert found["meantime_topics_oldest_due_age_seconds", "a"] == 0
    assert found["meantime_topics_oldest_due_age_seconds", "b"] == 2.5
    assert found["meantime_topics_created_total", "a"] == 7
    assert found["meantime_topics_leased_total", "pull", "b"] == 3

    meters.measured([depth(2, "b", 4)], now_ms=11_000)
    assert {key[-1] for key in values(meters)} == {"b"}
    meters.lost()
    assert ("meantime_topics_messages", "waiting", "b") not in values(meters)
    assert values(meters)["meantime_topics_leased_total", "pull", "b"] == 3


def test_topics_beyond_the_limit_are_one_whose_counters_never_fall() -> None:
    meters = TopicMeters(most=1)
    for topic_id in (1, 2, 3):
        meters.of(topic_id).created += 10
    meters.measured([depth(1, "a", 1), depth(2, "b", 2), depth(3, "c", 9, oldest_due_ms=0), depth(4, "d", 0)], now_ms=1000)
    found = values(meters)
    assert found["meantime_topics_messages", "waiting", "c"] == 9
    assert found["meantime_topics_messages", "waiting", "other"] == 3
    assert found["meantime_topics_created_total", "a"] == 10
    assert found["meantime_topics_created_total", "other"] == 20

    meters.measured([depth(1, "a", 1), depth(3, "c", 0), depth(4, "d", 0)], now_ms=1000)
    found = values(meters)
    assert found["meantime_topics_messages", "waiting", "a"] == 1
    assert found["meantime_topics_messages", "waiting", "other"] == 0
    assert found["meantime_topics_created_total", "other"] == 20


def test_a_topic_that_is_too_new_for_the_look_is_counted_all_the_same() -> None:
    meters = TopicMeters()
    meters.of(1).created += 1
    meters.measured([], now_ms=0)
    meters.measured([depth(1, "a", 1)], now_ms=0)
    assert values(meters)["meantime_topics_created_total", "a"] == 1

    meters.of(2).created += 1
    for _ in range(2):
        meters.measured([], now_ms=0)
    assert values(meters) == {}


def test_how_late_callbacks_are_is_a_histogram_of_each_dispatcher_that_is_alive() -> None:
    counts, meters = LatenessCounts(), DispatcherMeters()
    counts.count([3, 7, 40_000, -2], now_ms=0)
    report = DispatcherReport(callbacks={"calls": 4}, late_buckets=tuple(counts.buckets), late_total_ms=counts.total_ms)
    meters.measured([Reported("d1", 0, report), Reported("d2", 0, DispatcherReport())])
    found = values(meters)
    name = "meantime_timers_lateness_seconds"
    assert [found[f"{name}_bucket", "d1", bound] for bound in ("0.005", "0.01", "30.0", "+Inf")] == [2, 3, 3, 4]
    assert found[f"{name}_sum", "d1"] == 40.01
    assert found["meantime_timers_callbacks_total", "d1", "calls"] == 4

    meters.measured([])
    assert values(meters) == {}


async def test_what_is_measured_is_looked_up_once_for_all_who_ask_and_not_again_at_once() -> None:
    looks, done = 0, asyncio.Event()

    async def look() -> None:
        nonlocal looks
        looks += 1
        await done.wait()

    measures = Measures([Measure("it", look, lambda: None, every=60.0)])
    await asyncio.gather(measures.refresh(within=0.01), measures.refresh(within=0.01))
    assert looks == 1
    done.set()
    await measures.refresh()
    await measures.refresh()
    assert looks == 1


async def test_what_cannot_be_measured_is_lost_and_looked_up_again() -> None:
    looked: list[str] = []

    async def look() -> None:
        looked.append("look")
        raise RuntimeError("not now")

    measures = Measures([Measure("it", look, lambda: looked.append("lost"), every=0.0)])
    await measures.refresh()
    while looked.count("look") < 2:
        await measures.refresh()
    assert looked[:3] == ["look", "lost", "look"]
    await measures.end()


async def test_refused_requests_are_told_once_for_each_kind_with_their_number() -> None:
    refusals = RefusalMeters(first_after=0.01, tell_every=60.0)
    with structlog.testing.capture_logs() as told:
        for number in range(5):
            refusals.add(("GET", "/topics/{topic}", "not_found"), 404, f"no topic {number}", f"flow-{number}")
        refusals.add(("PUT", "/topics/{topic}", "invalid"), 422, "no", "flow-9")
        while len(told) < 2:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        refusals.add(("GET", "/topics/{topic}", "not_found"), 404, "no topic 5", "flow-5")
        await asyncio.sleep(0.05)
    assert [(line["route"], line["code"], line["count"]) for line in told] == [
        ("/topics/{topic}", "not_found", 5),
        ("/topics/{topic}", "invalid", 1),
    ]
    assert (told[0]["detail"], told[0]["flow_id"]) == ("no topic 4", "flow-4")
    assert values(refusals)["meantime_http_refusals_total", "not_found", "GET", "/topics/{topic}"] == 6

    with structlog.testing.capture_logs() as told:
        refusals.tell_all()
    assert [line["count"] for line in told] == [1]


@pytest.mark.parametrize(
    ("name", "kind", "labels"),
    [
        ("lag_ms", "gauge", []),
        ("sent_total", "gauge", []),
        ("late_seconds", "gauge", ["quantile"]),
        ("lag_gauge", "gauge", []),
        ("lag_events", "gauge", ["queue"]),
    ],
)
def test_a_name_against_the_rules_is_found(name: str, kind: str, labels: list[str]) -> None:
    family = Metric(name, "It has a help.", kind)
    family.add_sample(name, dict.fromkeys(labels, "x"), 1)
    assert list(complaints(family))
