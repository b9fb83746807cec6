"""A local HTTP server in place of an OpenAI-compatible embeddings service."""

import json
import random
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler
from typing import Any

from local_server import LocalServer

Answer = tuple[int, dict[str, str], bytes]


def vector_of(text: str, dimensions: int) -> list[float]:
    """Numbers that depend only on the text."""
    source = random.Random(text)
    return [source.uniform(-1, 1) for _ in range(dimensions)]


def error(status: int, code: str = "", **headers: str) -> Answer:
    """An error in OpenAI's words, which include the rejected key."""
    message = "Incorrect API key provided: sk-very-secret."
    body = {"error": {"message": message, "type": "error", "code": code}}
    return status, headers, json.dumps(body).encode()


class EmbeddingsServer(LocalServer):
    """Answers with the entries of `script` in turn, and with vectors once it is empty.

    An entry of `script` is an answer, or a function that makes one from the request's JSON. The
    next `cuts` answers break off halfway.
    """

    def __init__(self, dimensions: int = 1536) -> None:
        self.dimensions = dimensions
        self.requests: list[dict[str, Any]] = []
        self.keys: list[str] = []
        self.drip_seconds = 0.0
        self.cuts = 0
        self.connections = 0
        self.script: list[Answer | Callable[[dict[str, Any]], Answer]] = []
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True  # headers and body are two writes

            def setup(self) -> None:
                super().setup()
                server.connections += 1

            def do_POST(self) -> None:
                request = json.loads(self.rfile.read(int(self.headers["content-length"])))
                server.requests.append(request)
                server.keys.append(self.headers["authorization"])
                scripted = server.script.pop(0) if server.script else server.vectors
                status, headers, body = scripted(request) if callable(scripted) else scripted
                self.send_response(status)
                for name, value in {"content-type": "application/json", **headers}.items():
                    self.send_header(name.replace("_", "-"), value)
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                if server.cuts:
                    server.cuts -= 1
                    self.close_connection = True
                    self.wfile.write(body[: len(body) // 2])
                    return
                if server.drip_seconds:
                    for byte in body:
                        self.wfile.write(bytes([byte]))
                        time.sleep(server.drip_seconds)
                self.wfile.write(body)

            def log_message(self, format: str, *args: Any) -> None:
                pass

        super().__init__(Handler)
        self.base_url = f"{self.url}/v1"

    def vectors(self, request: dict[str, Any]) -> Answer:
        """What the service answers when nothing is wrong."""
        dimensions = request.get("dimensions") or self.dimensions
        data = []
        for index, text in enumerate(request["input"]):
            vector = vector_of(text, dimensions)
            data.append({"object": "embedding", "index": index, "embedding": vector})
        return self.answer(data)

    @staticmethod
    def answer(data: list[dict[str, Any]]) -> Answer:
        body = {"object": "list", "data": data, "model": "m", "usage": {"prompt_tokens": 1}}
        return 200, {}, json.dumps(body).encode()
