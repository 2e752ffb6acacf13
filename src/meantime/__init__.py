"""Meantime: an event broker with a sense of time.

>>> from meantime import Client
>>> with Client("http://127.0.0.1:8080") as client:
...     client.schedule("reminders", {"user": 7}, after=3600)

What is named here is the public face; it is loaded when it is first used, so that the command line starts fast.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from meantime.errors import LeaseLost, MeantimeError, PublishFailed, Unreachable
    from meantime.sdk.async_client import AsyncClient
    from meantime.sdk.calls.timers import TimerDraft
    from meantime.sdk.calls.topics import Draft
    from meantime.sdk.client import Client
    from meantime.sdk.consuming.async_lease import AsyncLease
    from meantime.sdk.consuming.lease import Lease
    from meantime.sdk.model import Cursor, EventType
    from meantime.sdk.retries import Retries
    from meantime.workers.app import App, Retry, StopWorker

__version__ = "0.1.0"

__all__ = [
    "App",
    "AsyncClient",
    "AsyncLease",
    "Client",
    "Cursor",
    "Draft",
    "EventType",
    "Lease",
    "LeaseLost",
    "MeantimeError",
    "PublishFailed",
    "Retries",
    "Retry",
    "StopWorker",
    "TimerDraft",
    "Unreachable",
]

_HOME = {
    "App": "meantime.workers.app",
    "AsyncClient": "meantime.sdk.async_client",
    "AsyncLease": "meantime.sdk.consuming.async_lease",
    "Client": "meantime.sdk.client",
    "Cursor": "meantime.sdk.model",
    "Draft": "meantime.sdk.calls.topics",
    "EventType": "meantime.sdk.model",
    "Lease": "meantime.sdk.consuming.lease",
    "LeaseLost": "meantime.errors",
    "MeantimeError": "meantime.errors",
    "PublishFailed": "meantime.errors",
    "Retries": "meantime.sdk.retries",
    "Retry": "meantime.workers.app",
    "StopWorker": "meantime.workers.app",
    "TimerDraft": "meantime.sdk.calls.timers",
    "Unreachable": "meantime.errors",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'meantime' has no attribute {name!r}")
    value = getattr(import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
