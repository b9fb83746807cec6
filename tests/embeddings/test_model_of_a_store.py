"""A store keeps the embedding model it was created with; nothing replaces it silently."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from conftest import MakeStorage
from embeddings_server import EmbeddingsServer
from memory_semantic import EmbeddingError, MemoryStorage, StorageError


async def test_a_key_that_appears_later_changes_nothing(
    root: Path, server: EmbeddingsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage = MemoryStorage("sam", {"storage_root": str(root)})
    await storage.store("We chose PostgreSQL.")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-new")
    monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
    [stored] = await storage.upsert(["another"])
    assert stored.model == "local"
    assert len(await storage.search("database")) == 2
    assert server.requests == []


async def test_another_configured_model_is_an_error_that_names_both(
    make_storage: MakeStorage, server: EmbeddingsServer
) -> None:
    await make_storage().store("We chose PostgreSQL.")
    other = make_storage(embedding_model="text-embedding-3-small", base_url=server.base_url)
    for call in (other.store("x"), other.search("x")):
        with pytest.raises(StorageError) as caught:
            await call
        message = str(caught.value)
        assert "'local'" in message and "'text-embedding-3-small'" in message
        assert "Nothing was changed" in message
    assert server.requests == []
    assert await make_storage().count() == 1


async def test_a_store_with_openais_model_names_the_missing_key(
    root: Path, server: EmbeddingsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage = MemoryStorage("sam", {"storage_root": str(root)})
    with monkeypatch.context() as with_key:
        with_key.setenv("OPENAI_API_KEY", "sk-some")
        with_key.setenv("OPENAI_BASE_URL", server.base_url)
        await storage.store("x")
    # The server played OpenAI: a store of OpenAI's own has no other endpoint.
    manifest = root / "sam/qdrant.db/manifest.json"
    fields = json.loads(manifest.read_text())
    manifest.write_text(json.dumps({**fields, "endpoint": None}))
    for call in (storage.store("y"), storage.search("y")):
        with pytest.raises(EmbeddingError, match="OPENAI_API_KEY"):
            await call


async def test_memories_of_a_private_service_are_not_sent_to_openai(
    make_storage: MakeStorage, server: EmbeddingsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    await make_storage(embedding_model="nomic", base_url=server.base_url).store("x")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-some")
    forgotten = make_storage(embedding_model="nomic")
    with pytest.raises(StorageError, match="base_url"):
        await forgotten.search("a private question")


async def test_other_dimensions_are_an_error_that_names_both(
    make_storage: MakeStorage, server: EmbeddingsServer
) -> None:
    config = {"embedding_model": "nomic", "base_url": server.base_url}
    await make_storage(**config).store("x")
    with pytest.raises(StorageError, match=r"1536 dimensions.*512 dimensions"):
        await make_storage(**config, dimensions=512).search("x")
    server.dimensions = 384
    with pytest.raises(StorageError, match=r"1536 dimensions.*384 dimensions"):
        await make_storage(**config).search("x")


async def test_another_series_of_the_built_in_model_is_another_model(
    make_storage: MakeStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    await make_storage().store("x")
    monkeypatch.setattr("memory_semantic.embeddings.local.model_version", lambda: "wordllama 0.5")
    with pytest.raises(StorageError, match=r"wordllama 0\.4.*wordllama 0\.5"):
        await make_storage().search("x")


async def test_if_two_first_calls_use_different_models_the_later_follows_the_earlier(
    root: Path, make_storage: MakeStorage, server: EmbeddingsServer, monkeypatch: Any
) -> None:
    def rival_is_faster(request: dict[str, Any]) -> Any:
        asyncio.run(make_storage().store("first"))
        return server.vectors(request)

    monkeypatch.setenv("OPENAI_API_KEY", "sk-some")
    monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
    server.script.append(rival_is_faster)
    [stored] = await MemoryStorage("sam", {"storage_root": str(root)}).upsert(["second"])
    assert stored.model == "local" and len(server.requests) == 1
    assert len(await make_storage().search("second")) == 2
