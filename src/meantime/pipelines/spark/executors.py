"""What executors of a cluster are given so that they run our tasks: the package, a Python, memory, a driver to be found.

master             executors             package and Python
local[n]           threads of the driver those of the driver
local-cluster[…]   processes beside it   those of the driver
any other          other machines        the same place there as here, or a bundle and any Python of the same version
"""

import os
import re
import sys
from pathlib import Path

from meantime.errors import Invalid
from meantime.pipelines.spark.bundle import FOLDER, python_name

_LOCAL_CLUSTER = re.compile(r"local-cluster\[\s*\d+\s*,\s*\d+\s*,\s*(\d+)\s*]")
LOOPBACK = "127.0.0.1"


def is_on_this_machine(master: str) -> bool:
    return master.startswith("local")


def has_processes_of_its_own(master: str) -> bool:
    """Whether Spark keeps files of executors in its home."""
    return master.startswith("local-cluster")


def executor_settings(master: str, bundle: str | None) -> dict[str, str]:
    """Spark's settings for executors of this master."""
    settings: dict[str, str] = {}
    if found := _LOCAL_CLUSTER.fullmatch(master):
        # All the memory of a worker, of which there is one for each executor.
        settings["spark.executor.memory"] = f"{found[1]}m"
    if bundle:
        settings |= {"spark.archives": f"{_found(bundle)}#{FOLDER}", "spark.executorEnv.PYTHONPATH": FOLDER}
    return settings


def prepare_environment(master: str, bundle: str | None) -> None:
    """For the processes that Spark starts here, before it is started. What the environment says already stays."""
    if is_on_this_machine(master):
        os.environ.setdefault("SPARK_LOCAL_IP", LOOPBACK)
    if not bundle:
        # Sources run in processes of their own, which need the packages of this one.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        return
    # The driver starts Python by the same name as executors do, and finds the packages where this process has them.
    os.environ.setdefault("PYSPARK_PYTHON", python_name())
    os.environ["PATH"] = os.pathsep.join((str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)))
    os.environ["PYTHONPATH"] = os.pathsep.join(folder for folder in sys.path if folder)


def _found(bundle: str) -> str:
    if "://" in bundle or Path(bundle).is_file():
        return bundle
    raise Invalid(
        f"--bundle: there is no file {bundle}: make it with `meantime pipeline bundle {bundle}`", option="--bundle"
    )
