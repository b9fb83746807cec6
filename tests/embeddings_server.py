"""A local HTTP server in place of an OpenAI-compatible embeddings service."""

import json
import time
from collections.abc import Callable, Iterator
from typing import Any

from local_server import Answer, LocalServer
from plain_vectors import vector_of


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
        self.keys: list[str | None] = []
        self.drip_seconds = 0.0
        self.cuts = 0
        self.script: list[Answer | Callable[[dict[str, Any]], Answer]] = []
        super().__init__()
        self.base_url = f"{self.url}/v1"

    def respond(self, method: str, target: str, headers: dict[str, str], body: bytes) -> Answer:
        request = json.loads(body)
        self.requests.append(request)
        self.keys.append(headers.get("authorization"))
        scripted = self.script.pop(0) if self.script else self.vectors
        status, told, content = scripted(request) if callable(scripted) else scripted
        assert isinstance(content, bytes)
        length = {**told, "content-length": str(len(content))}
        if self.cuts:
            self.cuts -= 1
            return status, length, [content[: len(content) // 2]]
        return status, length, self._dripping(content) if self.drip_seconds else content

    def _dripping(self, content: bytes) -> Iterator[bytes]:
        for byte in content:
            yield bytes([byte])
            time.sleep(self.drip_seconds)

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
