"""Builds and checks the console with Deno, which comes from PyPI; its libraries come from npm, once, by a lock with hashes.

    python console/building.py build     what `make console` does: into src/meantime/console/static
    python console/building.py check     formatting, lint, types and unit tests

It is also the build hook of the package: a wheel carries what was built. Where npm cannot be reached, `build` says so and
ends well, because a node runs without the console and says how to get it; a wheel is not made without it.
"""

import os
import subprocess
import sys
import sysconfig
from collections.abc import Sequence
from pathlib import Path
from shutil import which
from typing import Any

try:
    from hatchling.builders.hooks.plugin.interface import BuildHookInterface
except ImportError:  # It is used as a command, where nothing is packed.
    BuildHookInterface = object

FOLDER = Path(__file__).resolve().parent
TARGET = FOLDER.parent / "src" / "meantime" / "console" / "static"
INDEX = TARGET / "index.html"
MODULES = FOLDER / "node_modules"
RIGHTS = ("--allow-read", "--allow-write", "--allow-env", "--allow-run", "--allow-sys")
HOW = "the libraries of the console could not be had from npm"


class Unreachable(Exception):
    """The libraries are not there, and cannot be fetched."""


def deno() -> str:
    found = which("deno", path=f"{sysconfig.get_path('scripts')}{os.pathsep}{os.environ.get('PATH', '')}")
    if found is None:
        raise Unreachable("Deno is not installed; it comes with the extra `dev`")
    return found


def _run(*arguments: str, quiet: bool = False) -> int:
    """How it ended; with `quiet` what it prints is shown only if it failed."""
    output = subprocess.PIPE if quiet else None
    environment = os.environ | {"NO_COLOR": "1"}
    done = subprocess.run([deno(), *arguments], cwd=FOLDER, check=False, env=environment, stdout=output, text=True)
    if quiet and done.returncode:
        print(done.stdout)
    return done.returncode


def fetch() -> None:
    """The libraries, exactly those of the lock. Nothing is fetched when they are there."""
    marker = MODULES / ".fetched"
    if marker.exists() and marker.stat().st_mtime >= (FOLDER / "deno.lock").stat().st_mtime:
        return
    if _run("install", "--frozen", "--quiet"):
        raise Unreachable(HOW)
    marker.touch()


def is_fresh() -> bool:
    sources = [*(FOLDER / "src").rglob("*"), FOLDER / "deno.lock", FOLDER / "build.ts", FOLDER / "packing.ts"]
    return INDEX.exists() and INDEX.stat().st_mtime >= max(file.stat().st_mtime for file in sources)


def build() -> None:
    fetch()
    if _run("run", "--frozen", "--cached-only", *RIGHTS, "build.ts", str(TARGET)):
        sys.exit("the console could not be built")


def check() -> int:
    fetch()
    steps: Sequence[tuple[str, ...]] = (
        ("fmt", "--check", "--quiet"),
        ("lint", "--quiet"),
        ("check", "--quiet", "src/main.tsx", "build.ts", "tests"),
        ("test", "--quiet", "--no-check", "--allow-read"),
    )
    failed = [step for step in steps if _run(*step, quiet=True)]
    return int(bool(failed))


class ConsoleHook(BuildHookInterface):  # type: ignore[misc]
    """For hatchling. A source tree that is only linked to (`pip install -e`) is built by `make console` instead."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "editable" or is_fresh():
            return
        try:
            build()
        except Unreachable as problem:
            if not INDEX.exists():
                raise SystemExit(f"{problem}; a package is not made without the console") from problem
            print(f"{problem}: the package gets the console that was built before", file=sys.stderr)


def main(command: str) -> int:
    strict = os.environ.get("CI") == "true"
    try:
        if command == "check":
            return check()
        build()
    except Unreachable as problem:
        what = "is not checked" if command == "check" else "is not built; nodes run without it, and /console says so"
        print(f"{problem}: the console {what}. Later: make console", file=sys.stderr)
        return int(strict)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else "build"))
