"""Clean-up that waits for an archive: what an archive has to tell, and whether an event type waits.

An annotation of the event type is both: that it is there means "wait", its value is the last timeline that is archived
as a whole ("0" at first). So an archive tells its progress over the public API, and the event type shows it to everybody.
A value that is no number keeps everything.
"""

from collections.abc import Mapping
from typing import Any

ARCHIVED_TIMELINE = "meantime.archived_timeline"


def waits_for_archive(document: Mapping[str, Any]) -> bool:
    annotations = document.get("annotations")
    return isinstance(annotations, Mapping) and ARCHIVED_TIMELINE in annotations
