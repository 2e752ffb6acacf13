"""Defaults of the sources' options: what discovery and the environment say about the cluster."""

import os

from meantime.errors import MeantimeError
from meantime.sdk.trust import CA, may_be_insecure
from meantime.stack.discovery import Addresses, discover


def environment() -> dict[str, str]:
    """Options by name; what cannot be found is left out."""
    addresses = discover()
    places = {"url": _found(addresses, "url"), "postgres": _found(addresses, "postgres"), "key": addresses.key}
    insecure = "true" if may_be_insecure(None) else None
    others = {"producer_group": os.environ.get("MEANTIME_PRODUCER_GROUP"), "ca": os.environ.get(CA), "insecure": insecure}
    return {name: value for name, value in (places | others).items() if value}


def _found(addresses: Addresses, name: str) -> str | None:
    try:
        return str(getattr(addresses, name))
    except MeantimeError:
        return None
