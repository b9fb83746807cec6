"""A real Qdrant server, which is empty before and after each test.

It is the one that AGENT_MEMORY_TEST_QDRANT_URL names, with the key
AGENT_MEMORY_TEST_QDRANT_API_KEY: never the one on which the developer's own memories are.
"""

import os

import httpx
from local_server import Answer
from qdrant_client import QdrantClient

URL, KEY = (
    os.environ.get(name, "").strip()
    for name in ("AGENT_MEMORY_TEST_QDRANT_URL", "AGENT_MEMORY_TEST_QDRANT_API_KEY")
)
SECONDS = 60


class RealServer:
    """Passes requests on. `client` is a way to the same data."""

    def __init__(self) -> None:
        headers = {"api-key": KEY} if KEY else {}
        self._http = httpx.Client(base_url=URL, headers=headers, timeout=SECONDS)
        self.client = QdrantClient(
            url=URL, headers=headers, timeout=SECONDS, check_compatibility=False
        )
        there = self.client.get_collections().collections
        assert not there, f"{URL} is in use: it has collections. Give the tests one of their own."

    def answer(self, method: str, path: str, query: str, body: bytes) -> Answer:
        """The server's answer to a request."""
        answer = self._http.request(
            method,
            f"{path}?{query}" if query else path,
            content=body,
            headers={"content-type": "application/json"},
        )
        headers = {k: v for k, v in answer.headers.items() if k in ("retry-after", "location")}
        return answer.status_code, headers, answer.content

    def close(self) -> None:
        """Delete everything, all of which was created since."""
        for collection in self.client.get_collections().collections:
            self.client.delete_collection(collection.name)
        self._http.close()
        self.client.close()
