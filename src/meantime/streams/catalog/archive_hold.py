"""Clean-up that waits for archives: what they have to tell, and whether an event type waits.

An annotation of the event type is both: that it is there means "wait", its value is the last timeline that is archived
as a whole ("0" at first). Every archive has one of its own, `meantime.archived_timeline.<archive>`, and clean-up waits for
all of them. So archives tell their progress over the public API, and the event type shows it to everybody. A value that is
no number keeps everything.
"""

from collections.abc import Mapping
from typing import Any

ARCHIVED_TIMELINE = "meantime.archived_timeline"
"""How the names of marks begin."""


def waits_for_archive(document: Mapping[str, Any]) -> bool:
    annotations = document.get("annotations")
    return isinstance(annotations, Mapping) and any(name.startswith(ARCHIVED_TIMELINE) for name in annotations)
