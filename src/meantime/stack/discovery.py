"""Where is Meantime? First what the environment says, then the running stack of the data directory.

A command asks only for what it needs (`discover(data).url`); what cannot be found is an error that says how to name it.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from meantime.errors import StackError
from meantime.stack.folder import Folder
from meantime.stack.model import Places

DEFAULT_DATA = ".meantime"


@dataclass(frozen=True, slots=True)
class Addresses:
    environment: Mapping[str, str]
    places: Places | None
    folder: Path

    @property
    def url(self) -> str:
        """A node."""
        nodes = self.places.nodes if self.places else ()
        return self._find("MEANTIME_URL", nodes[0].url if nodes else None)

    @property
    def urls(self) -> tuple[str, ...]:
        """All nodes that are known."""
        if self.environment.get("MEANTIME_URL") or not self.places:
            return (self.url,)
        return tuple(node.url for node in self.places.nodes)

    @property
    def zookeeper(self) -> str:
        """`host:port/root`"""
        return self._find("MEANTIME_ZOOKEEPER", self.places.zookeeper if self.places else None)

    @property
    def kafka(self) -> str:
        """Clusters separated by `;`, the first is the default storage."""
        return self._find("MEANTIME_KAFKA", ";".join(self.places.kafka) if self.places else None)

    @property
    def postgres(self) -> str:
        return self._find("MEANTIME_POSTGRES", self.places.postgres if self.places else None)

    @property
    def key(self) -> str | None:
        return self.environment.get("MEANTIME_KEY") or None

    @property
    def first_key(self) -> str | None:
        """The key of the running stack itself; it is for no other address."""
        file = Folder(self.folder).first_key
        if self.environment.get("MEANTIME_URL") or not self.places or not file.exists():
            return None
        return file.read_text()

    def _find(self, variable: str, of_stack: str | None) -> str:
        found = self.environment.get(variable) or of_stack
        if not found:
            raise StackError(
                f"no running stack in {self.folder} and {variable} is not set: start one with `meantime up`, "
                f"name its directory with --data, or set {variable}"
            )
        return found


def discover(data: Path | None = None, environment: Mapping[str, str] = os.environ) -> Addresses:
    folder = Folder(data_path(data, environment))
    return Addresses(environment, find(folder.path), folder.path)


def find(data: Path) -> Places | None:
    """Where the stack of a data directory listens, if it runs."""
    folder = Folder(data)
    return folder.read().places if folder.is_locked() else None


def data_path(data: Path | None = None, environment: Mapping[str, str] = os.environ) -> Path:
    return data or Path(environment.get("MEANTIME_DATA") or DEFAULT_DATA)
