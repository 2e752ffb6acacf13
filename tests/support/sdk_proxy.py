"""A TCP proxy in front of a node, for tests that pull the plug or look at what is said."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from urllib.parse import urlsplit


class Proxy:
    """Carries bytes both ways; `cut` ends every connection, `refuse` takes no new ones. `heard` is what clients have sent,
    `answered` what the node has."""

    def __init__(self, target: str) -> None:
        parts = urlsplit(target)
        self._scheme = parts.scheme
        self._target = (parts.hostname or "", parts.port or 80)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._open: list[socket.socket] = []
        self.refusing = False
        self.connections = 0
        self.heard, self.answered = bytearray(), bytearray()
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def url(self) -> str:
        return f"{self._scheme}://127.0.0.1:{self._listener.getsockname()[1]}"

    def cut(self) -> None:
        for connection in self._open:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        self._open.clear()

    def close(self) -> None:
        self._listener.close()
        self.cut()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                if self.refusing:
                    near.close()
                    continue
                self.connections += 1
                far = socket.create_connection(self._target)
                self._open += [near, far]
                for source, sink, said in ((near, far, self.heard), (far, near, self.answered)):
                    threading.Thread(target=_carry, args=(source, sink, said), daemon=True).start()


def _carry(source: socket.socket, sink: socket.socket, said: bytearray) -> None:
    with suppress(OSError):
        while data := source.recv(65536):
            said += data
            sink.sendall(data)
    for end in (source, sink):
        with suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)


@contextmanager
def proxy_to(target: str) -> Iterator[Proxy]:
    proxy = Proxy(target)
    try:
        yield proxy
    finally:
        proxy.close()
