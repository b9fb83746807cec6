"""A local HTTP server in place of a service."""

from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any, Self


class _Quiet(ThreadingHTTPServer):
    daemon_threads = True
    # Of connections not accepted yet. With the library's 5, 41 at once lose some, which the kernel
    # asks for again after 1, 3, 7 and 15 seconds.
    request_queue_size = 128

    def handle_error(self, request: Any, client_address: Any) -> None:
        pass  # a client that gave up waiting


class LocalServer:
    """Serves `handler` at `url` during the `with` block."""

    def __init__(self, handler: type[BaseHTTPRequestHandler]) -> None:
        self._http = _Quiet(("127.0.0.1", 0), handler)
        self.url = f"http://127.0.0.1:{self._http.server_port}"

    def __enter__(self) -> Self:
        Thread(target=self._http.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._http.shutdown()
        self._http.server_close()
