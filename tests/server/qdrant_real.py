"""What a real Qdrant server answers, each test seeing only what it created itself.

The server is the one that AGENT_MEMORY_TEST_QDRANT_URL names, with the key
AGENT_MEMORY_TEST_QDRANT_API_KEY: never the one on which the developer's own memories are.
"""

import json
import os
import re
import secrets
from urllib.parse import urlsplit

import httpx
from qdrant_client import QdrantClient
from qdrant_local import Answer

URL, KEY = (
    os.environ.get(name, "").strip()
    for name in ("AGENT_MEMORY_TEST_QDRANT_URL", "AGENT_MEMORY_TEST_QDRANT_API_KEY")
)
SECONDS = 60.0


def program() -> str:
    """Qdrant's own program, for tests that start servers. Raises KeyError if none is given."""
    return os.environ["AGENT_MEMORY_TEST_QDRANT_PROGRAM"]


class OwnNames(httpx.BaseTransport):
    """Puts a random word before the name of each collection on the server, and takes it away from
    all answers, so that tests can run side by side.
    """

    def __init__(self) -> None:
        self._word = f"test-{secrets.token_hex(6)}-"
        self._server = httpx.HTTPTransport()

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        path, body = request.url.raw_path.decode(), request.read()
        path = re.sub("^/collections/", f"/collections/{self._word}", path)
        asked = httpx.Request(
            request.method,
            request.url.copy_with(raw_path=path.encode()),
            headers=request.headers.raw,
            content=body,
            extensions=request.extensions,
        )
        answer = self._server.handle_request(asked)
        content = answer.read()
        if request.url.path == "/collections" and answer.status_code == 200:
            said = json.loads(content)
            found = [e for e in said["result"]["collections"] if e["name"].startswith(self._word)]
            content = json.dumps({**said, "result": {"collections": found}}).encode()
        content = content.replace(self._word.encode(), b"")
        kept = ("content-type", "retry-after", "location")
        headers = {name: value for name, value in answer.headers.items() if name in kept}
        return httpx.Response(answer.status_code, headers=headers, content=content)

    def close(self) -> None:
        self._server.close()


class RealServer:
    """Passes requests on to the server at `URL`. `client` sees the same data."""

    def __init__(self) -> None:
        assert urlsplit(URL).path in ("", "/"), "AGENT_MEMORY_TEST_QDRANT_URL must have no path"
        names = OwnNames()
        self._http = httpx.Client(
            base_url=URL, headers={"api-key": KEY} if KEY else {}, transport=names, timeout=SECONDS
        )
        self.client = QdrantClient(
            url=URL,
            api_key=KEY or None,
            timeout=int(SECONDS),
            check_compatibility=False,
            transport=names,
        )

    def answer(self, method: str, path: str, query: str, body: bytes) -> Answer:
        """The server's answer to a request."""
        answer = self._http.request(
            method,
            f"{path}?{query}" if query else path,
            content=body,
            headers={"content-type": "application/json"},
        )
        headers = {k: v for k, v in answer.headers.items() if k != "content-length"}
        return answer.status_code, headers, answer.content

    def close(self) -> None:
        """Delete everything that was created."""
        for collection in self.client.get_collections().collections:
            self.client.delete_collection(collection.name)
        self._http.close()
        self.client.close()
