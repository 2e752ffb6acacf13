"""Options of pipelines, checked before anything begins; an error names its option."""

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated
from uuid import uuid4

import typer

from meantime.cli.instants import seconds
from meantime.errors import Invalid, StorageUnavailable

if TYPE_CHECKING:
    from meantime.pipelines.spark.places import Place

Bundle = Annotated[
    str | None,
    typer.Option(
        "--bundle",
        envvar="MEANTIME_BUNDLE",
        help="What executors get this package from, made by `meantime pipeline bundle`; else they must have it.",
    ),
]


def duration(text: str, option: str) -> float:
    try:
        return seconds(text)
    except typer.BadParameter as error:
        raise typer.BadParameter(error.message, param_hint=option) from None


def writable_folder(place: "Place", option: str) -> None:
    """Checks a folder, and makes it if it was not there; of an object store, that it takes an object there."""
    if not isinstance(place, Path):
        trial = place / f".trial-{uuid4().hex}"
        try:
            trial.write_bytes(b"")
            trial.unlink()
        except (OSError, StorageUnavailable) as error:
            raise Invalid(f"{option}: {error}", option=option) from error
        return
    try:
        place.mkdir(parents=True, exist_ok=True)
        _try_to_write(place)
    except OSError as error:
        raise _unusable(place, option, "folder", error) from error


def writable_file(file: Path, option: str) -> Path:
    """The file, which need not be there; its folder must."""
    place = file.absolute()
    if place.is_dir():
        raise Invalid(f"{option}: {place} is a folder; name a file", option=option)
    try:
        _try_to_write(place.parent)
    except OSError as error:
        raise _unusable(place, option, "file", error) from error
    return place


def serve_metrics(port: int) -> None:
    from prometheus_client import start_http_server

    from meantime import __version__
    from meantime.metrics import REGISTRY, tell_build

    tell_build(__version__)
    try:
        start_http_server(port, addr="127.0.0.1", registry=REGISTRY)
    except (OSError, OverflowError) as error:
        raise Invalid(
            f"--metrics-port: cannot listen on port {port}: {error}; name a free one", option="--metrics-port"
        ) from error


def _try_to_write(folder: Path) -> None:
    with tempfile.TemporaryFile(dir=folder):
        pass


def _unusable(place: Path, option: str, kind: str, error: OSError) -> Invalid:
    return Invalid(
        f"{option}: cannot write to {place}: {error.strerror}; name a {kind} that can be written to", option=option
    )
