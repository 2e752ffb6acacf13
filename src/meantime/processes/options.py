"""What nodes and the processes of timers make of the settings alike; without the HTTP edge, which only nodes have."""

import ssl

from meantime.cluster.health import HealthLimits
from meantime.cluster.peers import PeerOptions
from meantime.cluster.service_clocks import ReadClock, postgres_clock, zookeeper_clock
from meantime.cluster.view import ClusterOptions
from meantime.config import Config
from meantime.coordination.session import Session, SessionOptions
from meantime.database.pool import Database


def session_options(config: Config) -> SessionOptions:
    user, _, password = config.zookeeper_auth.partition(":")
    return SessionOptions(
        hosts=config.zookeeper,
        root=config.zookeeper_root,
        timeout=config.session_timeout,
        digest_user=user or None,
        digest_password=password or None,
    )


def cluster_options(config: Config) -> ClusterOptions:
    return ClusterOptions(limits=HealthLimits(drift_ms=config.drift_limit_ms), peers=peer_options(config))


def service_clocks(database: Database, session: Session) -> dict[str, ReadClock]:
    """What cluster time is compared with."""
    return {"PostgreSQL": postgres_clock(database), "ZooKeeper": zookeeper_clock(session)}


def peer_options(config: Config) -> PeerOptions:
    return PeerOptions(tls=_peer_tls(config))


def _peer_tls(config: Config) -> ssl.SSLContext | bool:
    """Peers are trusted by their own CA, or by the one that also signs clients; those that ask are shown the own
    certificate."""
    ca = config.tls_peer_ca or config.tls_ca
    if not ca:
        return True
    context = ssl.create_default_context(cafile=ca)
    if config.tls_cert:
        context.load_cert_chain(config.tls_cert, config.tls_key)
    return context
