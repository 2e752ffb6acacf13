"""How a dispatcher divides its time: timers are loaded shortly before their second, and until then it takes requests
in. Pure."""

TAKEN_A_MS, LEAST_TAKEN, MOST_TAKEN = 40, 100, 2000
"""Requests that can be taken in within a millisecond; and the bounds of one step."""
LOADED_A_MS, LEAST_AHEAD_MS, MOST_AHEAD_MS = 100, 15, 800
"""Timers that can be loaded within a millisecond; and the bounds of how long before their second that is begun."""
SHORTEST_PAUSE = 0.001


def loading_ms(second: int, timers: int) -> int:
    """When to begin to load so many timers of a second."""
    return second * 1000 - min(LEAST_AHEAD_MS + timers // LOADED_A_MS, MOST_AHEAD_MS)


def pause(left_ms: int | None, longest: float) -> float:
    """Seconds to wait for records; `left_ms` until there is something to load, None for nothing."""
    left = longest if left_ms is None else left_ms / 1000
    return min(max(left, SHORTEST_PAUSE), longest)


def room(left_ms: int | None) -> int:
    """How many requests can be taken in before there is something to load."""
    return min(max((1000 if left_ms is None else left_ms) * TAKEN_A_MS, LEAST_TAKEN), MOST_TAKEN)
