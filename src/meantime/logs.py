"""Structured logs: one JSON object a line for machines, or aligned lines for people; always to stderr."""

import logging
import sys
from collections.abc import MutableMapping
from contextvars import ContextVar
from typing import Any

import structlog

from meantime.readable import readable

FLOW_ID: ContextVar[str | None] = ContextVar("flow_id", default=None)
"""Of the request that is being answered; in every line that is logged meanwhile."""


def configure(level: str = "info", format: str = "json", **bound: Any) -> None:
    """Set up logging for this process; `bound` (the node's id, say) is in every line."""
    shared: list[structlog.types.Processor] = [
        lambda _, __, line: {**bound, **line},  # not by context: drivers log from threads of their own
        _add_flow_id,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True, key="at"),
        structlog.processors.StackInfoRenderer(),
    ]
    last: list[structlog.types.Processor] = (
        [_for_people, structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())]
        if format == "console"
        else [structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]
    )
    structlog.configure(
        processors=[*shared, *last],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=False,
    )
    _route_library_logs(level, shared, last)


def _add_flow_id(_: Any, __: str, line: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    flow_id = FLOW_ID.get()
    if flow_id is not None:
        line.setdefault("flow_id", flow_id)
    return line


def _for_people(_: Any, __: str, line: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    return {name: readable(name, value) for name, value in line.items()}


def _route_library_logs(level: str, shared: list[structlog.types.Processor], last: list[structlog.types.Processor]) -> None:
    """Lines of libraries (kazoo, asyncio, psycopg) take the same shape, from warnings on."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[*shared, structlog.stdlib.add_logger_name],
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *last],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    logging.getLogger("meantime").setLevel(level.upper())
