"""Requests are counted as Prometheus expects it."""

from prometheus_client import CollectorRegistry, generate_latest

from meantime.api.meters import RequestMeters


def test_requests_are_counted_by_status_and_timed_by_route() -> None:
    meters, registry = RequestMeters(), CollectorRegistry()
    registry.register(meters)
    meters.of("GET", "/topics/{topic}", 200).count(0.002)
    meters.of("GET", "/topics/{topic}", 200).count(0.3)
    meters.of("GET", "/topics/{topic}", 404).count(100.0)
    lines = generate_latest(registry).decode().splitlines()
    labels = 'method="GET",route="/topics/{topic}"'
    assert f'meantime_http_requests_total{{{labels},status="200"}} 2.0' in lines
    assert f'meantime_http_requests_total{{{labels},status="404"}} 1.0' in lines
    assert f'meantime_http_request_seconds_bucket{{le="0.005",{labels}}} 1.0' in lines
    assert f'meantime_http_request_seconds_bucket{{le="0.5",{labels}}} 2.0' in lines
    assert f'meantime_http_request_seconds_bucket{{le="+Inf",{labels}}} 3.0' in lines
    assert f"meantime_http_request_seconds_count{{{labels}}} 3.0" in lines
    assert f"meantime_http_request_seconds_sum{{{labels}}} 100.302" in lines
