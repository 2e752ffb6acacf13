"""Where PostgreSQL is: an address with the settings that every connection has, and its hosts in the order to try them.

An address may name several hosts, of which one takes writes: that one is looked for, in another order each time. A host
that has left something unanswered is tried last for a while. It may stand still and be waited for again and again; or it is
a primary that has been replaced and does not know it, takes writes, and waits for standbys that have left it.
"""

import random
import time
from typing import Any

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from meantime.errors import Invalid

CONNECT_WITHIN = 3
AVOID_FOR = 30.0

SETTINGS: dict[str, str | int] = {
    "connect_timeout": CONNECT_WITHIN,
    "keepalives": 1,
    "keepalives_idle": 3,
    "keepalives_interval": 1,
    "keepalives_count": 3,
    "tcp_user_timeout": 5000,
}

SEVERAL_HOSTS: dict[str, str | int] = {
    **SETTINGS,
    # The least that libpq takes; meanwhile nobody asks the other hosts.
    "connect_timeout": 2,
    "target_session_attrs": "read-write",
    "load_balance_hosts": "random",
}


def conninfo(uri: str) -> str:
    """The address with the settings above, except those that it has itself."""
    given = _parts(uri)
    settings = SEVERAL_HOSTS if has_several_hosts(uri) else SETTINGS
    return make_conninfo(uri, **{name: value for name, value in settings.items() if name not in given})


def has_several_hosts(uri: str) -> bool:
    given = _parts(uri)
    return any("," in str(given.get(name) or "") for name in ("host", "hostaddr"))


def _parts(uri: str) -> dict[str, Any]:
    try:
        return dict(conninfo_to_dict(uri))
    except psycopg.ProgrammingError:
        # What libpq says of it would show the password.
        raise Invalid(
            "the address of PostgreSQL cannot be read: it is postgresql://user:password@host:port/database, with hosts "
            "separated by ',', or pairs such as host=db1,db2"
        ) from None


class Hosts:
    """The hosts of one address, shared by connections that tell each other which one does not answer."""

    def __init__(self, uri: str) -> None:
        self._conninfo = conninfo(uri)
        self._places = _places(uri)
        self._silent_until: dict[tuple[str, str], float] = {}

    def address(self) -> str:
        """For the next connection."""
        if len(self._places) < 2:
            return self._conninfo
        now = time.monotonic()
        shuffled = random.sample(self._places, len(self._places))
        ordered = sorted(shuffled, key=lambda place: self._silent_until.get(place, 0.0) > now)
        hosts, ports = (",".join(parts) for parts in zip(*ordered, strict=True))
        return make_conninfo(self._conninfo, host=hosts, port=ports, load_balance_hosts="disable")

    def avoid(self, host: str, port: str) -> None:
        self._silent_until[host, port] = time.monotonic() + AVOID_FOR


def _places(uri: str) -> list[tuple[str, str]]:
    """Host and port of each; none of an address whose hosts are resolved already, which is taken as it is."""
    if not has_several_hosts(uri) or (given := _parts(uri)).get("hostaddr"):
        return []
    hosts, ports = str(given.get("host") or "").split(","), str(given.get("port") or "5432").split(",")
    ports = ports * len(hosts) if len(ports) == 1 else ports
    return list(zip(hosts, ports, strict=False))
