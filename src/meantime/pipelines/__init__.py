"""Spark: events, the future, and the time between, as frames; the timers join.

Most of what is named here is loaded when it is first used: tasks import parts of this package and should not wait for the
rest.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from meantime.extras import require
from meantime.pipelines.session import session

if TYPE_CHECKING:
    from meantime.pipelines.event_types.native import events
    from meantime.pipelines.registering import register
    from meantime.pipelines.topics.writer import write_topic

__all__ = ["events", "register", "session", "write_topic"]

_HOME = {
    "events": "meantime.pipelines.event_types.native",
    "register": "meantime.pipelines.registering",
    "write_topic": "meantime.pipelines.topics.writer",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'meantime.pipelines' has no attribute {name!r}")
    require("spark", f"meantime.pipelines.{name}", "pyspark")
    return getattr(import_module(_HOME[name]), name)
