"""Where the applications live in ZooKeeper.

<namespace>/<app>                          JSON; whether the application is paused
<namespace>/<app>/workers/worker-NNNNNNNNNN  ephemeral, JSON {"queues": […]}
<namespace>/<app>/processes/worker-NNNNNNNNNN  ephemeral, JSON {"host": …, "pid": …}; where that worker runs
<namespace>/<app>/queues/<queue>           JSON {"last": "", …}
<namespace>/<app>/owners/<queue>           ephemeral; the worker that made it owns the queue. A change of its data says:
                                           the record of the queue was changed from outside
<namespace>/<app>/plan                     JSON; who should have which queue
"""

from dataclasses import dataclass

from meantime.errors import Invalid
from meantime.names import check_identifier

NAMESPACE = "apps"
LONGEST_NAME = 100
"""Leaves room for the topics `<app>.retry` and `<app>.dead`."""


@dataclass(frozen=True, slots=True)
class AppLayout:
    root: str

    @property
    def workers(self) -> str:
        return f"{self.root}/workers"

    def worker(self, name: str) -> str:
        return f"{self.workers}/{name}"

    @property
    def processes(self) -> str:
        return f"{self.root}/processes"

    def process(self, worker: str) -> str:
        return f"{self.processes}/{worker}"

    @property
    def queues(self) -> str:
        return f"{self.root}/queues"

    def queue(self, queue: str) -> str:
        return f"{self.queues}/{queue}"

    @property
    def owners(self) -> str:
        return f"{self.root}/owners"

    def owner(self, queue: str) -> str:
        return f"{self.owners}/{queue}"

    @property
    def plan(self) -> str:
        return f"{self.root}/plan"


def namespace_path(root: str, namespace: str = NAMESPACE) -> str:
    """`apps` is below Meantime's root; `/mozilla/services/qdo` is that very path."""
    path = namespace if namespace.startswith("/") else f"{root}/{namespace}"
    return path.rstrip("/")


def app_layout(namespace: str, app: str) -> AppLayout:
    return AppLayout(f"{namespace}/{check_app(app)}")


def check_app(name: str) -> str:
    check_identifier(name, "name of an application")
    if len(name) > LONGEST_NAME or name in (".", ".."):
        raise Invalid(
            f"{name!r} cannot be the name of an application: use at most {LONGEST_NAME} characters, and not only dots"
        )
    return name
