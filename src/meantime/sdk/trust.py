"""Which nodes a client trusts, and whether its key may go out in the clear.

What is not said comes from the environment: `MEANTIME_CA`, a PEM file with the authorities that sign the nodes'
certificates, and `MEANTIME_INSECURE`, which lets keys travel without TLS beyond this machine.
"""

import os
import ssl
from collections.abc import Iterable

from meantime.errors import Invalid
from meantime.sdk.node_urls import is_local, is_secure

CA, INSECURE = "MEANTIME_CA", "MEANTIME_INSECURE"


def trusted(verify: ssl.SSLContext | bool, ca: str | None) -> ssl.SSLContext | bool:
    """How certificates are verified: by a context of the caller's own, by the authorities of a file, or by the system's."""
    ca = ca or os.environ.get(CA)
    if not ca or verify is not True:
        return verify
    try:
        return ssl.create_default_context(cafile=ca)
    except (OSError, ssl.SSLError) as error:
        raise Invalid(f"{ca} is no file with certificates to trust: {error}") from error


def may_be_insecure(insecure: bool | None) -> bool:
    return os.environ.get(INSECURE, "").lower() in ("1", "true", "yes", "on") if insecure is None else insecure


def check_key_is_safe(urls: Iterable[str]) -> None:
    """Raise Invalid when a key would leave this machine in the clear."""
    for url in urls:
        if not is_secure(url) and not is_local(url):
            raise Invalid(
                f"the key would go to {url} in the clear: use https://, or say that you want that with --insecure, "
                f"insecure=True or {INSECURE}=true"
            )
