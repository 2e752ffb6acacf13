"""When to send again, and for how long.

A pause doubles with every failure and is drawn at random from its upper half, so that clients that failed together do not
come back together. What a node asks for with `Retry-After` is honoured.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from meantime.sdk.calls.call import Call, Response

PASSING = frozenset({429, 502, 503, 504})
#: A 503 with one of these codes does not say whether the call had an effect.
UNCERTAIN = frozenset({b'"storage_unavailable"', b'"internal"'})


@dataclass(frozen=True, slots=True)
class Retries:
    """Seconds to keep trying: a plain call, and a stream that broke."""

    retry_for: float = 10.0
    reconnect_for: float = 60.0
    first_pause: float = 0.05
    longest_pause: float = 3.0
    draw: Callable[[], float] = random.random

    def pause(self, failures: int) -> float:
        """Seconds to wait after so many failures in a row, the first being 1."""
        full = min(self.longest_pause, self.first_pause * 2.0 ** (failures - 1))
        return full * (0.5 + self.draw() / 2)


def may_repeat_after(call: Call[Any], answer: Response) -> bool:
    """Whether an answer says *not now* and sending again cannot do harm."""
    if answer.status == 409:
        return call.conflict_for > 0
    if answer.status not in PASSING:
        return False
    return call.repeatable or ("retry-after" in answer.headers and not _uncertain(answer))


def _uncertain(answer: Response) -> bool:
    return any(code in answer.content for code in UNCERTAIN)


def asked_pause(answer: Response) -> float | None:
    """The seconds of `Retry-After`, where given as a number."""
    try:
        return float(answer.headers.get("retry-after", ""))
    except ValueError:
        return None
