from meantime.api.client_clocks import MOST_GROUPS, WINDOW, ClientClocks
from meantime.metrics import OTHER

NOW_MS = 1_700_000_000_000


class Stopwatch:
    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


def told(clocks: ClientClocks) -> dict[tuple[str, str], float]:
    (gauge,) = clocks.collect()
    return {(sample.labels["group"], sample.labels["value"]): round(sample.value, 3) for sample in gauge.samples}


def headers(drift_ms: int, round_trip_ms: int = 0, group: str = "billing") -> dict[bytes, bytes]:
    """Of a request whose way was as long as its client says."""
    sent = str(NOW_MS + drift_ms - round_trip_ms // 2).encode()
    return {
        b"x-meantime-client-time": sent,
        b"x-meantime-client-round-trip": str(round_trip_ms).encode(),
        b"x-producer-group": group.encode(),
    }


def test_the_drift_of_a_group_is_told_as_lowest_mean_and_highest() -> None:
    clocks = ClientClocks()
    for drift_ms, round_trip_ms in ((-100, 0), (500, 40), (2000, 10)):
        clocks.observe(headers(drift_ms, round_trip_ms), NOW_MS)
    assert told(clocks) == {("billing", "lowest"): -0.1, ("billing", "mean"): 0.8, ("billing", "highest"): 2.0}


def test_what_cannot_be_read_is_ignored() -> None:
    clocks = ClientClocks()
    for broken in (b"", b"-5", b"1e9", b"9" * 17, "\u0663".encode()):
        clocks.observe(headers(0) | {b"x-meantime-client-time": broken}, NOW_MS)
        clocks.observe(headers(0) | {b"x-meantime-client-round-trip": broken}, NOW_MS)
    clocks.observe({}, NOW_MS)
    assert told(clocks) == {}


def test_there_is_a_bound_to_the_groups_and_silent_ones_are_forgotten() -> None:
    watch = Stopwatch()
    clocks = ClientClocks(watch)
    for number in range(3 * MOST_GROUPS):
        clocks.observe(headers(1000, group=f"g{number}"), NOW_MS)
    clocks.observe(headers(1000, group="not an identifier"), NOW_MS)
    groups = {group for group, _ in told(clocks)}
    assert len(groups) == MOST_GROUPS + 1
    assert OTHER in groups
    watch.seconds = WINDOW
    clocks.observe(headers(3000, group="g1"), NOW_MS)
    assert told(clocks)["g1", "mean"] == 2.0
    watch.seconds = 2.5 * WINDOW
    assert {group for group, _ in told(clocks)} == {"g1"}
    watch.seconds = 10 * WINDOW
    assert told(clocks) == {}
