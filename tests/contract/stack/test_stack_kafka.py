"""New storages of the real Kafka: formatted by its own tool, each with ids of its own that it keeps."""

from pathlib import Path

from meantime.stack.folder import Folder
from meantime.stack.java.runtime import find_java
from meantime.stack.services.kafka import Listeners, kafka


def prepared(folder: Path, name: str) -> dict[str, str]:
    """The ids of a storage, after it was prepared for a start."""
    spec = kafka(Folder(folder), find_java(), name, Listeners(broker=1, controller=2))
    assert spec.prepare is not None
    spec.prepare()
    lines = (folder / name / "data" / "meta.properties").read_text().splitlines()
    return dict(line.split("=") for line in lines if "=" in line)


def test_new_storages_have_ids_of_their_own_and_keep_them(folder: Path) -> None:
    one, two = prepared(folder, "one"), prepared(folder, "two")
    assert one["node.id"] == "1"
    assert len({one["cluster.id"], one["directory.id"], two["cluster.id"], two["directory.id"]}) == 4
    assert prepared(folder, "one") == one
