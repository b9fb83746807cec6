"""A local HTTP server in place of a service."""

from collections.abc import Iterable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any, Self

# A status, headers, and a body, or the parts of one whose length the headers say.
Answer = tuple[int, dict[str, str], bytes | Iterable[bytes]]
DROP: Answer = (0, {}, b"")  # the connection is closed without an answer


class LocalServer:
    """Answers requests at `url` by `respond`, during the `with` block."""

    def __init__(self) -> None:
        self.connections = 0
        owner = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            wbufsize = -1  # headers and body leave together

            def setup(self) -> None:
                super().setup()
                owner.connections += 1

            def answer(self) -> None:
                body = self.rfile.read(int(self.headers.get("content-length", 0)))
                asked = {name.lower(): value for name, value in self.headers.items()}
                status, headers, content = owner.respond(self.command, self.path, asked, body)
                if not status:
                    self.close_connection = True
                    return
                if isinstance(content, bytes):
                    headers, content = {**headers, "content-length": str(len(content))}, [content]
                else:
                    self.close_connection = True
                self.send_response(status)
                for name, value in {"content-type": "application/json", **headers}.items():
                    self.send_header(name.replace("_", "-"), value)
                self.end_headers()
                for part in content if self.command != "HEAD" else ():
                    self.wfile.write(part)
                    self.wfile.flush()

            do_HEAD = do_GET = do_PUT = do_POST = do_DELETE = answer

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self._http = _Quiet(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._http.server_port}"

    def respond(self, method: str, target: str, headers: dict[str, str], body: bytes) -> Answer:
        """The answer to a request."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        Thread(target=self._http.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._http.shutdown()
        self._http.server_close()


class _Quiet(ThreadingHTTPServer):
    daemon_threads = True
    # Of connections not accepted yet. With the library's 5, 41 at once lose some, which the kernel
    # asks for again after 1, 3, 7 and 15 seconds.
    request_queue_size = 128

    def handle_error(self, request: Any, client_address: Any) -> None:
        pass  # a client that gave up waiting
