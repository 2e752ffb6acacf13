"""What every step of a switch works with, and the small questions that all of them ask."""

from dataclasses import dataclass, field

from meantime.clock import Clock
from meantime.coordination.barrier import VersionBarrier
from meantime.coordination.session import Session
from meantime.coordination.switch_steps import SwitchSteps
from meantime.errors import CoordinationLost
from meantime.kafka.admin import Admins
from meantime.kafka.sealing import Sealer
from meantime.kafka.settings import Storage
from meantime.streams.catalog.catalog import Catalog
from meantime.streams.catalog.timeline_topics import TimelineTopics
from meantime.streams.switching.model import SwitchOwner
from meantime.streams.switching.store import SwitchStore


@dataclass(frozen=True, slots=True)
class SwitchOptions:
    """`barrier_for`: seconds that nodes have to acknowledge where all of them must. `overtake_after`: seconds after which a
    switch goes on without those that have not, where it may. `ask_dead_for`: seconds after which a storage that does not
    answer is taken for dead by a forced switch."""

    barrier_for: float = 15.0
    overtake_after: float = 0.3
    ask_dead_for: float = 3.0


@dataclass(frozen=True, slots=True)
class SwitchTools:
    node_id: str
    clock: Clock
    session: Session
    barrier: VersionBarrier
    steps: SwitchSteps
    catalog: Catalog
    store: SwitchStore
    topics: TimelineTopics
    admins: Admins
    options: SwitchOptions
    sealers: dict[str, Sealer] = field(default_factory=dict)

    def me(self) -> SwitchOwner:
        """This node in its present session; a switch can only be owned by a node that initiators count."""
        if not self.session.connected or self.session.id is None:
            raise CoordinationLost("this node has no ZooKeeper session; ask another one or try again")
        if not self.barrier.registered:
            raise CoordinationLost("this node has not taken its place among the nodes yet; try again")
        return SwitchOwner(self.node_id, f"{self.session.id:x}")

    async def alive(self, owner: SwitchOwner) -> bool:
        """Whether the very session that owned it is still there."""
        registration = await self.session.exists(self.session.layout.acknowledgement(owner.node_id))
        return registration is not None and f"{registration.owner:x}" == owner.session

    def sealer(self, storage: Storage) -> Sealer:
        admin = self.admins.of(storage)
        known = self.sealers.get(storage.id)
        if known is None or known.admin is not admin:
            known = self.sealers[storage.id] = Sealer(admin)
        return known
