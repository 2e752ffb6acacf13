"""A TCP proxy in front of a service that can vanish without a word: nothing is closed, and nothing is answered any more."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from urllib.parse import urlsplit, urlunsplit


class SilentProxy:
    """`vanish`: all connections, and those that are made meanwhile, swallow what is sent to them, for ever. `refuse`: all
    are reset, and new ones refused. `come_back`: new connections lead to the service again."""

    def __init__(self, uri: str) -> None:
        parts = urlsplit(uri)
        self._target = (parts.hostname or "", parts.port or 0)
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=256)
        self._port = self._listener.getsockname()[1]
        place = f"127.0.0.1:{self._port}"
        self.uri = urlunsplit(parts._replace(netloc=f"{parts.netloc.rpartition('@')[0]}@{place}"))
        self._silenced: set[socket.socket] = set()
        self._open: list[socket.socket] = []
        self._state = "open"
        threading.Thread(target=self._accept, args=(self._listener,), daemon=True).start()

    def vanish(self) -> None:
        self._state = "silent"
        self._silenced.update(self._open)

    def refuse(self) -> None:
        self._state = "refusing"
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)  # whoever waits for a connection would get one more
        self._listener.close()
        for connection in self._open:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        self._open.clear()

    def come_back(self) -> None:
        if self._state == "refusing":
            self._listener = socket.create_server(("127.0.0.1", self._port), backlog=256)
            threading.Thread(target=self._accept, args=(self._listener,), daemon=True).start()
        self._state = "open"

    def close(self) -> None:
        self.refuse()

    def _accept(self, listener: socket.socket) -> None:
        with suppress(OSError):
            while True:
                near, _ = listener.accept()
                far = socket.create_connection(self._target)
                self._open += [near, far]
                if self._state == "silent":
                    self._silenced.update((near, far))
                for source, sink in ((near, far), (far, near)):
                    threading.Thread(target=self._carry, args=(source, sink), daemon=True).start()

    def _carry(self, source: socket.socket, sink: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                if source not in self._silenced:
                    sink.sendall(data)
        if source not in self._silenced:
            for end in (source, sink):
                with suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)


@contextmanager
def silent_proxy_to(uri: str) -> Iterator[SilentProxy]:
    proxy = SilentProxy(uri)
    try:
        yield proxy
    finally:
        proxy.close()
