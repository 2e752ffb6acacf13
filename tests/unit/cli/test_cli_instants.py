import pytest
import typer

from meantime.cli.instants import seconds, unix_seconds


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0", 0),
        ("500ms", 0.5),
        ("90s", 90),
        ("1h30m", 5400),
        ("2d", 172_800),
        ("1.5h", 5400),
        ("1 h 5 s", 3605),
        ("1 h 30 min", 5400),
        ("1w", 604_800),
    ],
)
def test_durations_read_as_people_write_them(text: str, expected: float) -> None:
    assert seconds(text) == expected


@pytest.mark.parametrize("text", ["", "soon", "5x", "h", "-5s", "1h-5m", "1e5"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(typer.BadParameter, match="not a duration"):
        seconds(text)


@pytest.mark.parametrize("text", ["90", "1.5", " 5 "])
def test_a_number_without_a_unit_could_be_anything_and_is_refused(text: str) -> None:
    with pytest.raises(typer.BadParameter, match=f"has no unit; write {text.strip()}s for seconds"):
        seconds(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("now", 1000.0),
        ("+10m", 1600.0),
        ("2030-01-01T00:00:00Z", 1_893_456_000),
        ("2030-01-01T01:00:00+01:00", 1_893_456_000),
        ("2030-01-01 00:00:00.250Z", 1_893_456_000.25),
        ("1893456000", 1_893_456_000),
        ("1893456000250", 1_893_456_000.25),
    ],
)
def test_instants_read_as_people_write_them(text: str, expected: float) -> None:
    assert unix_seconds(text, now=1000.0) == expected


def test_an_instant_without_a_zone_is_local_time() -> None:
    assert unix_seconds("2030-01-01 12:00", 0) - unix_seconds("2030-01-01", 0) == 12 * 3600


@pytest.mark.parametrize("text", ["", "tomorrow", "2030-13-01", "2030-01-01T99:00"])
def test_what_is_no_instant_is_refused(text: str) -> None:
    with pytest.raises(typer.BadParameter, match="not an instant"):
        unix_seconds(text, 0)
