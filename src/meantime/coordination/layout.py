"""Where everything lives in ZooKeeper, in one place.

<root>/members/<node>                ephemeral JSON: who is there
<root>/elections/<name>/…            ephemeral sequential tickets, the lowest leads
<root>/timelines/lock                taken to create the structure once
<root>/timelines/version             decimal; what all nodes react to
<root>/timelines/locked_et/<name>    ephemeral; event types whose publishers wait
<root>/timelines/nodes/<node>        ephemeral; the version that the node has reacted to
<root>/apps/<app>/…                  workers and queues
<root>/clocks/…                      ephemeral, for a moment: made to see when ZooKeeper makes them
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Layout:
    root: str = "/meantime"

    @property
    def members(self) -> str:
        return f"{self.root}/members"

    def member(self, node_id: str) -> str:
        return f"{self.members}/{node_id}"

    def election(self, name: str) -> str:
        return f"{self.root}/elections/{name}"

    @property
    def timelines(self) -> str:
        return f"{self.root}/timelines"

    @property
    def timelines_lock(self) -> str:
        return f"{self.timelines}/lock"

    @property
    def version(self) -> str:
        return f"{self.timelines}/version"

    @property
    def locked_event_types(self) -> str:
        return f"{self.timelines}/locked_et"

    def locked_event_type(self, name: str) -> str:
        return f"{self.locked_event_types}/{name}"

    @property
    def acknowledgements(self) -> str:
        return f"{self.timelines}/nodes"

    def acknowledgement(self, node_id: str) -> str:
        return f"{self.acknowledgements}/{node_id}"

    def subscription(self, id: str) -> str:
        return f"{self.root}/subscriptions/{id}"

    @property
    def clocks(self) -> str:
        return f"{self.root}/clocks"

    @property
    def apps(self) -> str:
        return f"{self.root}/apps"
