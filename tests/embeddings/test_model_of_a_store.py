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


async def test_another_model_service_or_length_is_an_error_that_names_both_and_sends_nothing(
    make_storage: MakeStorage, server: EmbeddingsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-some")  # what is private is not sent to OpenAI
    there = {"base_url": server.base_url}
    nomic = {"embedding_model": "nomic"}
    await make_storage().store("We chose PostgreSQL.")
    await make_storage("alice", **nomic, **there).store("x")
    openai = {"embedding_model": "text-embedding-3-small", **there}
    server.requests.clear()
    for agent, config, named in (
        ("sam", openai, "'local'.*'text-embedding-3-small'"),
        ("alice", nomic, "base_url"),
        ("alice", {**nomic, **there, "dimensions": 512}, "1536 dimensions.*512 dimensions"),
    ):
        other = make_storage(agent, **config)
        for call in (other.store("y"), other.search("y")):
            with pytest.raises(StorageError, match=f"{named}.*Nothing was changed"):
                await call
    assert server.requests == [] and await make_storage().count() == 1
    server.dimensions = 384
    with pytest.raises(StorageError, match=r"1536 dimensions.*384 dimensions"):
        await make_storage("alice", **nomic, **there).search("x")


async def test_a_store_with_openais_model_names_the_missing_key(
    make_storage: MakeStorage, root: Path, server: EmbeddingsServer
) -> None:
    model = "text-embedding-3-small"
    await make_storage(embedding_model=model, base_url=server.base_url).store("x")
    # The server played OpenAI: a store of OpenAI's own has no other endpoint.
    manifest = root / "sam/qdrant.db/manifest.json"
    fields = json.loads(manifest.read_text())
    manifest.write_text(json.dumps({**fields, "endpoint": None}))
    storage = make_storage(embedding_model=None)
    for call in (storage.store("y"), storage.search("y")):
        with pytest.raises(EmbeddingError, match="OPENAI_API_KEY"):
            await call


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
