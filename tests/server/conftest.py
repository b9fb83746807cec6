"""A Qdrant server that wants a key, which the environment has, and the store of `sam` there."""

import pytest
from conftest import MakeStorage
from memory_semantic import MemoryStorage
from qdrant_server import KEY, QdrantServer


@pytest.fixture
def qdrant(qdrant: QdrantServer, monkeypatch: pytest.MonkeyPatch) -> QdrantServer:
    monkeypatch.setenv("AGENT_MEMORY_QDRANT_API_KEY", KEY)
    qdrant.api_key = KEY
    return qdrant


@pytest.fixture
def storage(make_storage: MakeStorage, qdrant: QdrantServer) -> MemoryStorage:
    return make_storage(qdrant_url=qdrant.url)
