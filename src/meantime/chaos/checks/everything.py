"""All checkers, and their controls without a run."""

import random

from meantime.chaos.checks.cleanliness import END
from meantime.chaos.checks.events import EVENTS
from meantime.chaos.checks.messages import MESSAGES
from meantime.chaos.checks.model import Control, controls
from meantime.chaos.checks.queues import QUEUES
from meantime.chaos.checks.records import RECORDS
from meantime.chaos.checks.timers import CALLBACKS


def all_controls(seed: int = 1) -> list[Control]:
    """Every planted defect, into the sample of its checker."""
    rng = random.Random(f"controls {seed}")
    return [
        *controls(EVENTS, None, rng),
        *controls(MESSAGES, None, rng),
        *controls(CALLBACKS, None, rng),
        *controls(QUEUES, None, rng),
        *controls(RECORDS, None, rng),
        *controls(END, None, rng),
    ]
