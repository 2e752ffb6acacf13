"""Java libraries, fetched once per user by the Ivy that Spark carries.

`jars.ivy.xml` is the lock file, `jars.sha256` holds the checksum of every file. A set of jars appears in the cache whole and
verified, or not at all; its folder is named after what is locked, so another version is another folder. The marker
inside records the sizes, by which a set that was damaged later is noticed and fetched anew.
"""

import hashlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import IO

import msgspec

from meantime.errors import StackError
from meantime.stack.cache import cache_folder, exclusive
from meantime.stack.java.runtime import LIGHT, Java, find_java
from meantime.stack.model import Spec

_LOCK_FILE = "jars.ivy.xml"
_CHECKSUMS = "jars.sha256"
_SETTINGS = "ivysettings.xml"
_MARKER = "verified.json"

Say = Callable[[str], None]


def spark_home() -> Path:
    spec = find_spec("pyspark")
    if spec is None or not spec.submodule_search_locations:
        raise StackError("PySpark is missing, whose jars the stack runs on: `pip install 'meantime[stack]'`")
    return Path(spec.submodule_search_locations[0])


def ensure_jars(conf: str, java: Java, say: Say) -> Path:
    """The folder with the jars of one `conf` of the lock file, fetched now if they are not there."""
    wanted, folder = checksums(conf), jars_folder(conf)
    if _is_whole(folder, wanted):
        return folder
    with exclusive(_ivy_home(conf)):
        if not _is_whole(folder, wanted):
            _fetch(conf, wanted, folder, java, say)
    return folder


def are_missing(conf: str) -> bool:
    return not _is_whole(jars_folder(conf), checksums(conf))


def fetch_spec(logs: Path, conf: str, *, late: bool) -> Spec:
    """The download as a process of its own, so that others start meanwhile and it can be stopped at any time."""
    return Spec(
        kind="jars",
        name=f"jars-{conf}",
        command=(sys.executable, "-m", "meantime.stack.java.jars", conf),
        log=logs / f"jars-{conf}.log",
        once=True,
        late=late,
        ready_within=1800.0,
    )


def jars_folder(conf: str) -> Path:
    """Where the jars of a conf are, once they have been fetched."""
    return cache_folder() / "jars" / f"{conf}-{_digest(repr(sorted(checksums(conf).items())).encode())[:12]}"


def checksums(conf: str) -> dict[str, str]:
    """Name and SHA-256 of every jar of a conf."""
    lines = (line.split() for line in files("meantime.stack.java").joinpath(_CHECKSUMS).read_text("utf-8").splitlines())
    return {name.removeprefix(f"{conf}/"): digest for digest, name in lines if name.startswith(f"{conf}/")}


def _fetch(conf: str, wanted: Mapping[str, str], folder: Path, java: Java, say: Say) -> None:
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f".{conf}-") as fresh:
        try:
            _retrieve(conf, Path(fresh), java, say, len(wanted))
            _verify(Path(fresh) / conf, wanted)
            (Path(fresh) / conf / _MARKER).write_bytes(msgspec.json.encode(_sizes(Path(fresh) / conf)))
        except OSError as error:
            raise StackError(f"cannot keep the jars in {folder.parent}: {error.strerror}") from error
        shutil.rmtree(folder, ignore_errors=True)
        (Path(fresh) / conf).rename(folder)
    shutil.rmtree(_ivy_home(conf) / "cache", ignore_errors=True)


def _retrieve(conf: str, target: Path, java: Java, say: Say, count: int) -> None:
    say(f"fetching {count} jars for {conf}, once for this user")
    with subprocess.Popen(_ivy(conf, target, java), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as ivy:
        try:
            assert ivy.stdout is not None
            output = list(_follow(ivy.stdout, conf, count, say))
        except BaseException:
            ivy.kill()
            raise
    if ivy.returncode != 0:
        raise StackError(_why(conf, output))


def _ivy(conf: str, target: Path, java: Java) -> list[str]:
    jars = sorted((spark_home() / "jars").glob("ivy-*.jar"))
    if not jars:
        raise StackError(f"no Ivy among the jars of PySpark in {spark_home()}: install pyspark again")
    settings = os.environ.get("MEANTIME_IVY_SETTINGS") or _resource(_SETTINGS)
    pattern = f"{target}/[conf]/[artifact]-[revision](-[classifier]).[ext]"
    return [
        *(str(java.executable), *LIGHT, f"-Divy.default.ivy.user.dir={_ivy_home(conf)}", "-jar", str(jars[-1])),
        *("-settings", settings),
        *("-ivy", _resource(_LOCK_FILE), "-confs", conf, "-retrieve", pattern),
    ]


def _resource(name: str) -> str:
    return str(files("meantime.stack.java").joinpath(name))


def _ivy_home(conf: str) -> Path:
    """Ivy's own cache; it outlives a broken download, so that the next try goes on from there."""
    return cache_folder() / "jars" / f".ivy-{conf}"


def _follow(output: IO[str], conf: str, count: int, say: Say) -> Iterator[str]:
    """The lines that Ivy prints, while progress is told to the user."""
    steps = {"looking up": 0, "downloading": 0}
    for line in output:
        text = line.strip()
        step = "looking up" if text.startswith("found ") else "downloading"
        if step == "looking up" or (text.startswith("[SUCCESSFUL ]") and ".jar" in text):
            steps[step] += 1
            if steps[step] % 10 == 0 or steps[step] == count:
                say(f"{step} jars for {conf}: {steps[step]} of {count}")
        yield text


def _why(conf: str, output: Iterable[str]) -> str:
    signs = ("unresolved dependency", "UnknownHost", "ConnectException", "download failed", "No space left", "SocketTimeout")
    seen = next((text.strip(":\t ") for text in output if any(sign in text for sign in signs)), "Ivy failed")
    return (
        f"could not fetch the jars for {conf} ({seen}). The first start needs the network: check the connection, the proxy "
        "(JAVA_TOOL_OPTIONS='-Dhttps.proxyHost=… -Dhttps.proxyPort=…') or name a mirror in an Ivy settings file "
        "(MEANTIME_IVY_SETTINGS), then try again. What has arrived is kept"
    )


def _verify(folder: Path, wanted: Mapping[str, str]) -> None:
    arrived = {path.name: _digest(path.read_bytes()) for path in folder.glob("*.jar")}
    for name in sorted(wanted.keys() | arrived.keys()):
        if wanted.get(name) != arrived.get(name):
            raise StackError(
                f"{name} is not what the lock file names (sha256 {arrived.get(name, 'missing')}, expected "
                f"{wanted.get(name, 'no such file')}): the registry or the network changed it. Nothing was kept"
            )


def _is_whole(folder: Path, wanted: Mapping[str, str]) -> bool:
    try:
        recorded = msgspec.json.decode((folder / _MARKER).read_bytes(), type=dict[str, int])
    except (OSError, msgspec.MsgspecError):
        return False
    return recorded.keys() == wanted.keys() and recorded == _sizes(folder)


def _sizes(folder: Path) -> dict[str, int]:
    return {path.name: path.stat().st_size for path in folder.glob("*.jar")}


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def relock(confs: tuple[str, ...] = ("kafka", "spark", "s3")) -> str:
    """Fetch what the lock file names and return the text of its checksum file; for whoever moves a version."""
    lines = []
    for conf in confs:
        with tempfile.TemporaryDirectory() as fresh:
            _retrieve(conf, Path(fresh), find_java(), lambda _: None, 0)
            jars = sorted((Path(fresh) / conf).glob("*.jar"))
            lines += [f"{_digest(jar.read_bytes())}  {conf}/{jar.name}" for jar in jars]
    return "\n".join(lines) + "\n"


def main(confs: list[str]) -> int:
    """Fetch these sets; without any, print the checksums of what the lock file names."""
    # A signal must not leave Ivy behind.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    if not confs:
        print(relock(), end="")
    try:
        for conf in confs:
            ensure_jars(conf, find_java(), lambda text: print(text, flush=True))
    except StackError as error:
        print(error.detail, flush=True)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
