"""An object store behind `s3a://bucket/key`, for Spark and for the drivers of pipelines, as the usual variables describe it.

| variable | meaning |
| --- | --- |
| `AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY`, `AWS_SESSION_TOKEN` | credentials; without them those of the machine |
| `AWS_REGION`, `AWS_DEFAULT_REGION` | the region |
| `AWS_ENDPOINT_URL_S3`, `AWS_ENDPOINT_URL` | a store other than Amazon's |
| `AWS_S3_ADDRESSING_STYLE` | `path` or `virtual`; with an endpoint of one's own it is `path` |

An object is there whole or not at all, and for good once it has been written. A store has no folders, and no rename: a file
is moved by a copy, after which the other one goes.
"""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from meantime.errors import Invalid, StorageUnavailable

if TYPE_CHECKING:
    from pyarrow.fs import FileInfo, S3FileSystem

SCHEME = "s3a"
REGION = "us-east-1"
"""Asked for in the signature of requests, even by stores that have no regions."""


def is_object_address(address: str) -> bool:
    return urlsplit(address).scheme == SCHEME


@dataclass(frozen=True, slots=True)
class StoreSettings:
    endpoint: str | None
    region: str | None
    path_style: bool

    def for_spark(self) -> dict[str, str]:
        """Credentials are not among them: Spark takes those from the environment itself, and hands them on."""
        settings = {"path.style.access": str(self.path_style).lower()}
        if self.region:
            settings["endpoint.region"] = self.region
        if self.endpoint:
            settings |= {"endpoint": self.endpoint, "connection.ssl.enabled": str(not _is_plain(self.endpoint)).lower()}
        return {f"spark.hadoop.fs.{SCHEME}.{name}": value for name, value in settings.items()}

    def file_system(self) -> "S3FileSystem":
        from pyarrow.fs import S3FileSystem

        options: dict[str, Any] = {"force_virtual_addressing": not self.path_style}
        if self.region:
            options["region"] = self.region
        if self.endpoint:
            scheme = "http" if _is_plain(self.endpoint) else "https"
            options |= {"endpoint_override": self.endpoint.partition("://")[2] or self.endpoint, "scheme": scheme}
        return S3FileSystem(**options)


def store_settings(environment: Mapping[str, str] = os.environ) -> StoreSettings:
    endpoint = environment.get("AWS_ENDPOINT_URL_S3") or environment.get("AWS_ENDPOINT_URL") or None
    region = environment.get("AWS_REGION") or environment.get("AWS_DEFAULT_REGION")
    style = environment.get("AWS_S3_ADDRESSING_STYLE") or ("path" if endpoint else "virtual")
    if style not in ("path", "virtual"):
        raise Invalid(f"AWS_S3_ADDRESSING_STYLE is path or virtual, not {style!r}")
    return StoreSettings(endpoint, region or (REGION if endpoint else None), style == "path")


def _is_plain(endpoint: str) -> bool:
    return endpoint.startswith("http://")


def _files() -> "S3FileSystem":
    return _opened(store_settings())


@cache
def _opened(settings: StoreSettings) -> "S3FileSystem":
    return settings.file_system()


class ObjectPath(PurePosixPath):
    """`/bucket/key` of the store, with that part of `Path` which pipelines use."""

    @classmethod
    def of(cls, address: str) -> "ObjectPath":
        parts = urlsplit(address)
        if not parts.netloc:
            raise Invalid(f"{address} names no bucket: an address is {SCHEME}://bucket/folder")
        return cls(f"/{parts.netloc}{parts.path}")

    @property
    def address(self) -> str:
        return f"{SCHEME}:/{self}"

    @property
    def key(self) -> str:
        return str(self).removeprefix("/")

    def exists(self) -> bool:
        return str(self._info().type.name) != "NotFound"

    def is_dir(self) -> bool:
        return str(self._info().type.name) == "Directory"

    def mkdir(self, mode: int = 0o777, parents: bool = False, exist_ok: bool = False) -> None:
        """There is nothing to be made."""

    def size(self) -> int:
        return int(self._info().size or 0)

    def read_bytes(self) -> bytes:
        with self._translated(), _files().open_input_stream(self.key) as opened:
            return bytes(opened.read())

    def read_text(self) -> str:
        return self.read_bytes().decode()

    def write_bytes(self, content: bytes) -> None:
        with self._translated(), _files().open_output_stream(self.key) as opened:
            opened.write(content)

    def open_input(self) -> Any:
        with self._translated():
            return _files().open_input_file(self.key)

    def open_output(self) -> Any:
        with self._translated():
            return _files().open_output_stream(self.key)

    def unlink(self, missing_ok: bool = False) -> None:
        try:
            with self._translated():
                _files().delete_file(self.key)
        except FileNotFoundError:
            if not missing_ok:
                raise

    def remove_tree(self) -> None:
        if self.exists():
            with self._translated():
                _files().delete_dir(self.key)

    def rename(self, to: "ObjectPath") -> None:
        with self._translated():
            _files().move(self.key, to.key)

    def glob(self, pattern: str) -> "Iterator[ObjectPath]":
        from pyarrow.fs import FileSelector

        wanted = PurePosixPath(pattern).parts
        selector = FileSelector(self.key, allow_not_found=True, recursive=len(wanted) > 1)
        with self._translated():
            infos = _files().get_file_info(selector)
        for info in infos:
            found = ObjectPath(f"/{info.path}")
            parts = found.relative_to(self).parts
            if len(parts) == len(wanted) and all(map(fnmatchcase, parts, wanted)):
                yield found

    def _info(self) -> "FileInfo":
        with self._translated():
            return _files().get_file_info(self.key)

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except FileNotFoundError:
            raise
        except OSError as error:
            raise StorageUnavailable(f"the object store refuses {self.address}: {error}") from error
