"""Spark: the timers join."""

from meantime.pipelines.session import session

__all__ = ["session"]
