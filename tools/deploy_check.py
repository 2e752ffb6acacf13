"""`make deploy-check`: are the files in deploy/ what the tools that read them take?

    python tools/deploy_check.py [--tools FOLDER] [--only NAME …] [--all]

| checked | by | from |
| --- | --- | --- |
| the chart | helm lint, helm template | `go install` |
| what it makes | kubernetes-validate --strict | PyPI |
| the compose file | compose-go | `go install` |
| the units | systemd-analyze verify | the machine |
| the image | buildah (chroot isolation), podman | the machine; a base from mmdebstrap where none is named |

Each check is also given a planted mistake, which it must find. What cannot be checked on this machine is said; with
`--all` that is a failure. Tools are fetched once, into `--tools` (default build/deploy-tools).
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
DEPLOY = ROOT / "deploy"
CHART = DEPLOY / "helm" / "meantime"
HELM = "helm.sh/helm/v3/cmd/helm@v3.22.0"
COMPOSE = "github.com/compose-spec/compose-go/v2/cmd@latest"
VALIDATE = "kubernetes-validate==1.37.0"
KUBERNETES = "1.34.0"
MINIMAL = "zookeeper=z:2181,kafka=k:9092,secrets.postgres.name=pg"
VALUES = {
    "behind an ingress": f"{MINIMAL},insecure=true",
    "with TLS and keys": f"{MINIMAL},tls.secretName=tls,secrets.firstKey.name=first,secrets.zookeeperAuth.name=zk",
    "with a Spark cluster": f"{MINIMAL},insecure=true,futures.master=spark://m:7077,futures.checkpoint=s3a://b/f,"
    "futures.objectStoreSecret=aws,futures.bundle=s3a://b/meantime.zip",
    "with settings": f"{MINIMAL},insecure=true,settings.drift_limit_ms=250,settings.max_body_bytes=134217728",
}
PIP_CONF, CERTIFICATES = "/etc/pip.conf", "/etc/ssl/certs"


class Missing(Exception):
    """Something that a check needs is not on this machine."""


class Wrong(Exception):
    """The check has found something."""


@dataclass(frozen=True, slots=True)
class Tools:
    """Programs that are fetched when they are needed first."""

    folder: Path

    def go(self, name: str, module: str) -> str:
        program = self.folder / "bin" / name
        if not program.exists():
            if not shutil.which("go"):
                raise Missing(f"{name}, and go to install it")
            tell(f"go install {module} (some minutes) …")
            run("go", "install", module, env={"GOBIN": str(program.parent)})
        return str(program)

    def validate(self) -> str:
        program = self.folder / "python" / "bin" / "kubernetes-validate"
        if not program.exists():
            tell(f"pip install {VALIDATE} …")
            run(sys.executable, "-m", "venv", str(self.folder / "python"))
            run(str(program.with_name("pip")), "install", "--quiet", VALIDATE)
        return str(program)


def tell(text: str) -> None:
    print(text, flush=True)


def run(*command: str, env: dict[str, str] | None = None, within: float = 1800) -> str:
    """What it has printed; a program that fails has found something."""
    told = {**os.environ, **(env or {})}
    try:
        done = subprocess.run(command, cwd=ROOT, env=told, capture_output=True, text=True, timeout=within, check=False)
    except subprocess.TimeoutExpired:
        raise Wrong(f"{' '.join(command[:3])} … has not ended within {within / 60:.0f} minutes") from None
    if done.returncode:
        raise Wrong(f"{' '.join(command[:3])} …: {(done.stderr or done.stdout).strip()[-1500:]}")
    return done.stdout


def must_fail(what: str, check: Callable[[], object]) -> None:
    try:
        check()
    except Wrong:
        return
    raise Wrong(f"{what} was not found: the check sees nothing")


def program(name: str) -> str:
    if not (found := shutil.which(name)):
        raise Missing(name)
    return found


def chart(tools: Tools) -> str:
    helm, validate = tools.go("helm", HELM), tools.validate()
    with tempfile.TemporaryDirectory() as folder:
        for name, values in VALUES.items():
            run(helm, "lint", "--strict", str(CHART), "--set", values)
            made = Path(folder) / f"{name.replace(' ', '-')}.yaml"
            made.write_text(rendered(helm, values))
            run(validate, "--strict", str(made))
        made.write_text(made.read_text().replace("  replicas:", "  replicaz:", 1))
        must_fail("a planted field", lambda: run(validate, "--strict", str(made)))
    for wrong in (
        "zookeeper=z:2181",
        f"{MINIMAL},insecure=true,nodez.replicas=3",
        MINIMAL,
        f"{MINIMAL},insecure=true,futures.master=spark://m:7077",
    ):
        must_fail(f"the mistake in {wrong}", lambda wrong=wrong: rendered(helm, wrong))  # type: ignore[misc]
    return f"{len(VALUES)} sets of values, schemas of Kubernetes 1.37"


def rendered(helm: str, values: str) -> str:
    return run(helm, "template", "try", str(CHART), "--kube-version", KUBERNETES, "--namespace", "try", "--set", values)


def compose(tools: Tools) -> str:
    parse = tools.go("cmd", COMPOSE)
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "compose.yaml"
        # The parser knows no environment.
        text = re.sub(r"\$\{\w+:\?[^}]*\}", "given", (DEPLOY / "compose.yaml").read_text())
        copy.write_text(text)
        services = len(json.loads(run(parse, "-format", "json", str(copy)))["services"])
        copy.write_text(text.replace("restart:", "restrat:", 1))
        must_fail("a planted key", lambda: run(parse, str(copy)))
    return f"{services} services"


def systemd(_: Tools) -> str:
    verify = program("systemd-analyze")
    units = sorted((DEPLOY / "systemd").glob("*.service"))
    with tempfile.TemporaryDirectory() as folder:
        copies = []
        for unit in units:
            copy = Path(folder) / unit.name.replace("@.", "@1.")
            # Whether the program is there is nothing that the unit can say.
            copy.write_text(unit.read_text().replace("/opt/meantime/bin/meantime", "/bin/true"))
            copies.append(str(copy))
        verify_units(verify, copies)
        Path(copies[0]).write_text(Path(copies[0]).read_text().replace("Restart=always", "Restart=allways"))
        must_fail("a planted word", lambda: verify_units(verify, copies[:1]))
    return f"{len(units)} units"


def verify_units(verify: str, units: list[str]) -> None:
    """Of other units of this machine it also tells; of ours everything counts."""
    done = subprocess.run([verify, "verify", "--man=no", *units], capture_output=True, text=True, timeout=120, check=False)
    folder = str(Path(units[0]).parent)
    if told := [line for line in done.stderr.splitlines() if folder in line]:
        raise Wrong("\n".join(told))


def image(_: Tools) -> str:
    buildah, podman = program("buildah"), program("podman")
    if os.geteuid() != 0:
        raise Missing("root, for buildah with chroot isolation")
    base = os.environ.get("BASE") or base_image(buildah)
    with tempfile.TemporaryDirectory() as folder:
        told = Path(folder) / "pip.conf"
        told.write_text(pip_settings())
        run(
            *(buildah, "bud", "--isolation=chroot", "--network=host", "--format=docker", "--build-arg", f"BASE={base}"),
            *("--volume", f"{told}:{PIP_CONF}:ro", "--volume", f"{CERTIFICATES}:{CERTIFICATES}:ro"),
            *("--file", str(DEPLOY / "Containerfile"), "--tag", "localhost/meantime", str(ROOT)),
        )
    started = [podman, *runtime(), "run", "--rm", "--network=none", *LIMITS, "localhost/meantime"]
    version = run(*started, "--version").strip()
    user = run(*started[:-1], "--entrypoint", "id", "localhost/meantime", "-u").strip()
    if user != "10001":
        raise Wrong(f"the image runs as {user}")
    must_fail("a node without TLS", lambda: run(*started))
    size = run(buildah, "images", "--format", "{{.Size}}", "localhost/meantime").strip()
    return f"{version}, {size}, not root"


LIMITS = ("--ulimit", "nofile=4096:4096", "--ulimit", "nproc=4096:4096")
"""Podman would raise them, which takes a right that this root may not have."""


def runtime() -> tuple[str, ...]:
    """crun does not run on machines with both versions of control groups."""
    return ("--runtime", "runc") if shutil.which("runc") else ()


def base_image(buildah: str) -> str:
    """Debian with Python, as the base that the Containerfile names, where there is no registry of images."""
    name = "localhost/meantime-base"
    if subprocess.run([buildah, "inspect", name], capture_output=True, check=False).returncode == 0:
        return name
    bootstrap = program("mmdebstrap")
    with tempfile.TemporaryDirectory() as folder:
        tell("mmdebstrap bookworm (a minute or two) …")
        root = f"{folder}/base.tar"
        run(bootstrap, "--variant=minbase", "--include=python3,python3-venv,ca-certificates", "bookworm", root)
        container = run(buildah, "from", "scratch").strip()
        run(buildah, "add", "--quiet", container, root, "/")
        run(buildah, "commit", "--quiet", container, name)
        run(buildah, "rm", container)
    return name


def pip_settings() -> str:
    """What this machine tells its pip, for the pip of the build."""
    names = {"PIP_CERT": "cert", "PIP_INDEX_URL": "index-url", "PIP_DEFAULT_TIMEOUT": "timeout"}
    told = [f"{key} = {os.environ[name]}" for name, key in names.items() if name in os.environ]
    return "\n".join(["[global]", *told, ""])


CHECKS: dict[str, Callable[[Tools], str]] = {"chart": chart, "compose": compose, "systemd": systemd, "image": image}


def main() -> int:
    asked = argparse.ArgumentParser(description="Check the files in deploy/.")
    asked.add_argument("--tools", type=Path, default=ROOT / "build" / "deploy-tools")
    asked.add_argument("--only", choices=CHECKS, action="append")
    asked.add_argument("--all", action="store_true", help="what cannot be checked here is a failure")
    options = asked.parse_args()
    failed = False
    for name in options.only or CHECKS:
        try:
            tell(f"{name}: good ({CHECKS[name](Tools(options.tools.absolute()))})")
        except Missing as lack:
            tell(f"{name}: NOT CHECKED, this machine lacks {lack}")
            failed |= options.all
        except Wrong as found:
            tell(f"{name}: WRONG\n{found}")
            failed = True
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
