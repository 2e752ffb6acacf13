"""Spark: events, the future, and the time between, as frames; the timers join."""

from meantime.pipelines.native import events
from meantime.pipelines.registering import register
from meantime.pipelines.session import session
from meantime.pipelines.writing import write_topic

__all__ = ["events", "register", "session", "write_topic"]
