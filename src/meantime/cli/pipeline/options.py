"""Options of pipelines, checked before anything begins; an error names its option."""

import tempfile
from pathlib import Path

import typer

from meantime.cli.instants import seconds
from meantime.errors import Invalid


def duration(text: str, option: str) -> float:
    try:
        return seconds(text)
    except typer.BadParameter as error:
        raise typer.BadParameter(error.message, param_hint=option) from None


def writable_folder(folder: Path, option: str) -> Path:
    """The folder, made if it was not there."""
    place = folder.absolute()
    try:
        place.mkdir(parents=True, exist_ok=True)
        _try_to_write(place)
    except OSError as error:
        raise _unusable(place, option, "folder", error) from error
    return place


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

    from meantime.metrics import REGISTRY

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
