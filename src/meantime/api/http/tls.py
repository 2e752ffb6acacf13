"""TLS of a node: its certificate, HTTP/2 by ALPN, certificates of clients, and files that are replaced while it runs."""

import ssl
from dataclasses import dataclass
from pathlib import Path

import structlog

from meantime.errors import Invalid

log = structlog.get_logger(__name__)

LOOK_EVERY = 5.0
"""Seconds between looks at the files."""


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """PEM files. With `ca`, every client has to show a certificate that one of its authorities has signed."""

    cert: str
    key: str
    ca: str = ""

    def context(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.set_alpn_protocols(["h2", "http/1.1"])
        try:
            context.load_cert_chain(self.cert, self.key)
            if self.ca:
                context.load_verify_locations(self.ca)
                context.verify_mode = ssl.CERT_REQUIRED
        except (OSError, ssl.SSLError) as error:
            raise Invalid(f"cannot use the TLS files {self.cert} and {self.key}: {error}") from error
        return context

    def version(self) -> tuple[tuple[int, int, int], ...]:
        """Something that is another when a file was replaced."""
        found = [Path(name).stat() for name in (self.cert, self.key, self.ca) if name]
        return tuple((stat.st_mtime_ns, stat.st_size, stat.st_ino) for stat in found)


class TlsContext:
    """The context of a server. New connections get the certificate that is in the files now; open ones go on."""

    def __init__(self, files: TlsFiles) -> None:
        self._files = files
        self._version = files.version()
        self.context = files.context()

    def refresh(self) -> None:
        """Files that do not fit together, as while they are being replaced, change nothing and are looked at again."""
        try:
            version = self._files.version()
            if version == self._version:
                return
            self._files.context()
        except (OSError, Invalid) as error:
            log.warning("tls_files_unusable", error=str(error))
            return
        self.context.load_cert_chain(self._files.cert, self._files.key)
        if self._files.ca:
            self.context.load_verify_locations(self._files.ca)
        self._version = version
        log.info("tls_files_reloaded", cert=self._files.cert)
