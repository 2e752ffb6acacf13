"""Errors of ours on their way through Spark: told by their cause, and found again in Spark's message.

Spark runs a source in processes of its own. What is raised there becomes text inside a message of Spark, with the stack of
Python before it and the stack of Java behind it. Such a process ends with its error, so it may be told to leave its stack
out of it.
"""

import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from inspect import isgenerator
from typing import Any, TypeVar

from meantime import errors
from meantime.errors import MeantimeError

HIDE_STACK = "SPARK_HIDE_TRACEBACK"
"""What Spark's processes look at when they report an error."""
RUNTIME, IN_A_TASK = "SPARK_PYTHON_RUNTIME", "PYTHON_WORKER"

_OURS = re.compile(r"\bmeantime\.errors\.(?P<name>\w+): (?P<detail>.*)")

Kind = TypeVar("Kind", bound=type[Any])


def cause_of(text: str) -> MeantimeError | None:
    """The error of ours in a message of Spark: of several, the one that the others led to."""
    found = list(_OURS.finditer(text))
    if not found:
        return None
    kind = getattr(errors, found[-1]["name"], MeantimeError)
    error: MeantimeError = kind.__new__(kind)  # some kinds are made of more than their message
    MeantimeError.__init__(error, found[-1]["detail"].strip())
    return error


def cause_first(kind: Kind) -> Kind:
    """A class of a source whose errors reach Spark's message without the stack that led to them."""
    for name, method in list(vars(kind).items()):
        if callable(method) and (name == "__init__" or not name.startswith("_")):
            setattr(kind, name, _without_stack(method))
    return kind


def _without_stack(method: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(method)
    def call(*arguments: Any, **named: Any) -> Any:
        with _hidden_stack():
            result = method(*arguments, **named)
        return _each(result) if isgenerator(result) else result

    return call


def _each(items: Iterator[Any]) -> Iterator[Any]:
    with _hidden_stack():
        yield from items


@contextmanager
def _hidden_stack() -> Iterator[None]:
    try:
        yield
    except MeantimeError:
        if os.environ.get(RUNTIME) == IN_A_TASK:
            os.environ[HIDE_STACK] = "1"
        raise
