"""Metrics are declared where they are measured; this is only the registry, one per process."""

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.gc_collector import GCCollector
from prometheus_client.platform_collector import PlatformCollector
from prometheus_client.process_collector import ProcessCollector

REGISTRY = CollectorRegistry()
CONTENT_TYPE = "text/plain; version=0.0.4"

ProcessCollector(registry=REGISTRY)
PlatformCollector(registry=REGISTRY)
GCCollector(registry=REGISTRY)


def render() -> bytes:
    return generate_latest(REGISTRY)
