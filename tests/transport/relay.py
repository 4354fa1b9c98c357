"""A TCP relay in front of a broker that can cut its connections as a lost network would."""

import contextlib
import socket
import threading
import time


class Relay:
    """Forwards every connection to the target; `cut` closes all of them without a goodbye.

    With `rate` (bytes per second) each direction of each connection is that slow. What crosses is
    added to `heard`, where it is given; `bytes_down` counts what came from the target.
    """

    def __init__(
        self,
        host: str,
        port: int,
        rate: float | None = None,
        heard: bytearray | None = None,
    ) -> None:
        self._target = (host, port)
        self._rate = rate
        self._heard = heard
        self.bytes_down = 0
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._sockets: list[socket.socket] = []
        self._lock = threading.Lock()
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self) -> None:
        with self._lock:
            sockets, self._sockets = self._sockets, []
        for one in sockets:
            _close(one)

    def close(self) -> None:
        self._listener.close()
        self.cut()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
                far = socket.create_connection(self._target, timeout=5)
            except ConnectionRefusedError:
                near.close()
                continue
            except OSError:
                return
            far.settimeout(None)
            with self._lock:
                self._sockets += [near, far]
            for ends in ((near, far, False), (far, near, True)):
                threading.Thread(target=self._pump, args=ends, daemon=True).start()

    def _pump(self, source: socket.socket, sink: socket.socket, down: bool) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(16384):
                if down:
                    with self._lock:
                        self.bytes_down += len(data)
                if self._heard is not None:
                    self._heard += data
                sink.sendall(data)
                if self._rate is not None:
                    time.sleep(len(data) / self._rate)
        _close(source)
        _close(sink)


def _close(one: socket.socket) -> None:
    with contextlib.suppress(OSError):
        one.shutdown(socket.SHUT_RDWR)
    one.close()
