"""`module:app`, found in the current folder or on the path, or an error that says what is wrong with it."""

import importlib
import sys
import traceback
from pathlib import Path
from types import ModuleType

from meantime.errors import Invalid, MeantimeError
from meantime.workers.app import App

EXAMPLE = "give it as module:app, as in `meantime worker run shop.jobs:app`"


def load(target: str, folder: Path) -> App:
    module_name, colon, attribute = target.partition(":")
    if not module_name or (colon and not attribute):
        raise Invalid(f"{target!r} does not name an application: {EXAMPLE}")
    module = _import(target, module_name, folder)
    return _find(target, module, attribute or "app")


def _import(target: str, name: str, folder: Path) -> ModuleType:
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name and (name == error.name or name.startswith(f"{error.name}.")):
            raise Invalid(f"{target!r}: there is no module {error.name!r} in {folder} or on the path; {EXAMPLE}") from None
        raise Invalid(f"{target!r} cannot be imported: {error} ({_place(error)})") from error
    except MeantimeError as error:
        raise Invalid(f"{target!r}: {error.detail} ({_place(error)})") from error
    except Exception as error:
        raise Invalid(f"{target!r} cannot be imported: {type(error).__name__}: {error} ({_place(error)})") from error


def _place(error: BaseException) -> str:
    """Where in the user's own code it happened, as far as it is known."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = str(Path(__file__).parents[1])
    foreign = [frame for frame in frames if "importlib" not in frame.filename and not frame.filename.startswith(ours)]
    if isinstance(error, SyntaxError):
        return f"{error.filename}, line {error.lineno}"
    return f"{foreign[-1].filename}, line {foreign[-1].lineno}" if foreign else "in an imported module"


def _find(target: str, module: ModuleType, attribute: str) -> App:
    found: object = module
    for part in attribute.split("."):
        if not hasattr(found, part):
            others = sorted(name for name, value in vars(module).items() if isinstance(value, App))
            hint = f"; it has {', '.join(others)}" if others else ""
            raise Invalid(f"{target!r}: {module.__name__} has no {attribute!r}{hint}")
        found = getattr(found, part)
    if not isinstance(found, App):
        raise Invalid(f"{target!r} is a {type(found).__name__}, not an App")
    if not found.jobs and not found.periodic_jobs:
        raise Invalid(f"{target!r} has no jobs: give it some with @{attribute}.job(...) or @{attribute}.periodic(...)")
    return found
