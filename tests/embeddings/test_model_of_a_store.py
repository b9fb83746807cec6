"""A store keeps the embedding model it was created with; nothing replaces it silently."""

import asyncio
import logging
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from conftest import MakeStorage
from embeddings_server import EmbeddingsServer
from memory_semantic import EmbeddingError, EmbeddingGenerator, MemoryStorage, StorageError
from memory_semantic.embeddings import static
from plain_vectors import PlainVectors


async def test_a_new_store_without_key_and_setting_gets_the_built_in_model_for_good(
    root: Path,
    server: EmbeddingsServer,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """And the log says so once."""
    caplog.set_level(logging.INFO)
    handlers = list(logging.getLogger().handlers)
    storage = MemoryStorage("sam", {"storage_root": str(root)})
    await storage.store("We chose PostgreSQL.")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-new")
    monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
    [stored] = await storage.upsert(["another"])
    assert stored.model == "local" and server.requests == []
    assert len(await storage.search("database")) == 2
    [record] = [record for record in caplog.records if record.name.startswith("memory_semantic")]
    assert "built-in model" in record.getMessage() and "PostgreSQL" not in caplog.text
    assert logging.getLogger().handlers == handlers  # the host's logging is left alone


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


PARAPHRASES = {
    "Which database did our team pick?": "We chose PostgreSQL for the users table.",
    "How long until a session times out?": "Login tokens expire after fifteen minutes.",
    "indentation style preference": "Sam prefers tabs over spaces in Go files.",
    "throttling of the billing endpoint": "The payments API allows 1000 requests per hour.",
    "when do bills get printed?": "Customer invoices are generated as PDF at midnight.",
}
NOTES = [
    *PARAPHRASES.values(),
    "Deploys are frozen on Friday afternoons.",
    "The flaky checkout test was caused by a race in the cart cache.",
    "Use feature flags for every change to onboarding.",
]


async def test_a_paraphrase_finds_the_memory_first(storage: MemoryStorage) -> None:
    await storage.store_many(NOTES)
    for question, answer in PARAPHRASES.items():
        assert (await storage.search(question))[0].content == answer


def test_the_vectors_are_those_of_the_library_that_carries_the_model() -> None:
    text = "We chose PostgreSQL for the users table, 数据库 🙂"
    script = f"""
import pathlib, wordllama
folder = pathlib.Path(wordllama.__file__).parent
model = wordllama.WordLlama.load(cache_dir=folder, disable_download=True)
print(model.embed({text!r})[0].tolist())
"""
    library = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True)
    assert eval(library.stdout) == pytest.approx(static.embed([text])[0], abs=1e-6)


async def test_the_generator_keeps_the_order_and_answers_at_once_when_loaded() -> None:
    generator = EmbeddingGenerator("local")
    assert generator.dimensions == 640 and await generator.load()
    batch = await generator.generate_batch(NOTES)
    assert [len(vector) for vector in batch] == [640] * len(NOTES)
    alone = await generator.generate(NOTES[3])
    assert batch[3] == pytest.approx(alone, abs=1e-6) and alone == generator.embed_now(NOTES[3])
    with pytest.raises(EmbeddingError, match="no word"):  # and no wrong vector
        await generator.generate("")
    for other in (PlainVectors(), EmbeddingGenerator("m", "sk-some")):  # none answers at once
        assert not await other.load()
