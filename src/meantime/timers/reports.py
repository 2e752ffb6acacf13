"""What the processes of timers report of themselves, for `/timers/status` and for each other."""

import msgspec


class OscillatorReport(msgspec.Struct, frozen=True):
    last_tick: int
    written_at_ms: int
    lead_s: int


class FuturesReport(msgspec.Struct, frozen=True):
    """`batches`: how many since the process began. `places`: how far `timer-request` has been joined, by partition; `lag`:
    requests that are not. `through`: how far all that was due at once has left the join as well."""

    batches: int = 0
    batch_ms: int = 0
    state_rows: int = 0
    lag: int = 0
    input_rows: int = 0
    places: dict[int, int] = {}
    through: dict[int, int] = {}


class DispatcherReport(msgspec.Struct, frozen=True):
    shares: tuple[int, ...] = ()
    held: int = 0
    remembered: int = 0
    fired: int = 0
    lateness_ms: dict[int, int] = {}
    """How many callbacks of the last minute were so many milliseconds late."""
    callbacks: dict[str, int] = {}
    """How many there were since the process began, by topic; topics beyond the first few are one."""
    late_buckets: tuple[int, ...] = ()
    """How many were late by how much since the process began, see `lateness.BOUNDS_MS`."""
    late_total_ms: int = 0


class LedgerReport(msgspec.Struct, frozen=True):
    lag: int = 0


Report = OscillatorReport | FuturesReport | DispatcherReport | LedgerReport

KINDS: dict[type, str] = {
    OscillatorReport: "oscillator",
    FuturesReport: "futures",
    DispatcherReport: "dispatcher",
    LedgerReport: "ledger",
}


class Reported(msgspec.Struct, frozen=True):
    name: str
    at_ms: int
    report: Report
