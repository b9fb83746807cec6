"""Models that run on this machine through fastembed: never sent anywhere, never replaced."""

import asyncio
import json
import logging
import math
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from operator import mul
from pathlib import Path
from typing import Any

import pytest
from command import Command
from conftest import MakeStorage
from embeddings_server import EmbeddingsServer
from memory_semantic import EmbeddingError, EmbeddingGenerator, InputError, StorageError
from memory_semantic.embeddings import fetch, onnx
from memory_semantic.embeddings.catalogue import (
    ENGLISH,
    MULTILINGUAL,
    SAMPLE,
    english_only,
    prefixes,
)
from memory_semantic.embeddings.choice import lexical_weight
from memory_semantic.settings import StorageConfig
from model_hub import MODEL_FILE, ModelHub, graph, notes

TEXT = "a private thought"


@pytest.fixture(scope="module")
def fetched_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with both recommended models, as `fetch` leaves them."""
    folder = tmp_path_factory.mktemp("models")
    with ModelHub() as hub:
        for name in ("english", "multilingual"):
            got, said = hub.fetch(name, folder)
            assert got, said
    return folder


@pytest.fixture
def models(fetched_once: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The same, free to change, and without any network."""
    folder = tmp_path / "models"
    shutil.copytree(fetched_once, folder, symlinks=True)
    monkeypatch.setenv("FASTEMBED_CACHE_PATH", str(folder))

    def no_network(*_: Any) -> None:
        raise AssertionError("a session tried to reach the network")

    monkeypatch.setattr(socket.socket, "connect", no_network)
    onnx._models.clear()
    return folder


@pytest.fixture
def hub() -> Iterator[ModelHub]:
    with ModelHub() as running:
        yield running


def model_file(models: Path, model: str = ENGLISH) -> Path:
    return onnx.fetched(model).path / MODEL_FILE


@pytest.mark.parametrize(("name", "real"), [("english", ENGLISH), ("multilingual", MULTILINGUAL)])
async def test_a_store_keeps_the_real_name_and_revision_of_a_recommended_model(
    models: Path, make_storage: MakeStorage, name: str, real: str
) -> None:
    storage = make_storage(embedding_model=name)
    await storage.store_many(["We chose PostgreSQL for the users table.", "xyzzy", TEXT])
    [found, *_] = await storage.search("We chose PostgreSQL for the users table")
    assert found.content == "We chose PostgreSQL for the users table."
    info = await storage.info()
    assert info and info.model.model == real and info.model.dimensions == 384
    assert info.model.version == onnx.fetched(real).version
    assert info.words and info.endpoint is None
    # Whoever names none, or the real name, has the same store.
    for same in (None, real):
        assert await make_storage(embedding_model=same).search(TEXT)


async def test_another_revision_is_another_model(models: Path, make_storage: MakeStorage) -> None:
    storage = make_storage(embedding_model="english")
    await storage.store(TEXT)
    record = onnx.record_of(ENGLISH)
    fields = json.loads(record.read_text())
    record.write_text(json.dumps({**fields, "version": "sha256 another"}))
    with pytest.raises(StorageError, match=r"sha256 .*sha256 another.*agent-memory reembed"):
        await storage.search(TEXT)


async def test_a_missing_model_is_named_with_the_command_that_fetches_it(
    models: Path, make_storage: MakeStorage
) -> None:
    for name in ("BAAI/bge-small-en-v1.5", "openai/text-embedding-3-small"):
        with pytest.raises(EmbeddingError) as caught:
            await make_storage(embedding_model=name).store(TEXT)
        said = str(caught.value)
        assert f"`agent-memory model fetch {name}`" in said and "Nothing was changed" in said
        assert TEXT not in said
    assert await make_storage().info() is None


async def test_a_name_with_a_slash_is_sent_nowhere_without_a_base_url(
    make_storage: MakeStorage, server: EmbeddingsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-some")
    monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
    for name in ("multilingual", "openai/text-embedding-3-small"):
        with pytest.raises(EmbeddingError, match="model fetch"):
            await make_storage(embedding_model=name).store(TEXT)
    assert server.requests == []
    for agent, name in (("sam", "multilingual"), ("alice", "BAAI/bge-m3")):
        storage = make_storage(agent, embedding_model=name, base_url=server.base_url)
        [stored] = await storage.upsert([TEXT])
        assert stored.model == name
    assert [request["model"] for request in server.requests] == ["multilingual", "BAAI/bge-m3"]
    assert all(TEXT in request["input"] for request in server.requests)


async def test_a_store_of_a_service_is_not_given_to_a_model_here(
    make_storage: MakeStorage, server: EmbeddingsServer
) -> None:
    await make_storage(embedding_model="org/model", base_url=server.base_url).store(TEXT)
    for name in (None, "org/model"):
        with pytest.raises(StorageError, match="base_url"):
            await make_storage(embedding_model=name).search(TEXT)


async def test_a_missing_package_is_named_with_the_line_that_installs_it(
    models: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(onnx, "installed", lambda: False)
    with pytest.raises(EmbeddingError, match=r"uv pip install --python .* \"fastembed>="):
        await EmbeddingGenerator("english").generate(TEXT)
    assert "fastembed" in str(onnx.missing(ENGLISH))


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-100])


def scribble(path: Path) -> None:
    path.write_bytes(b"\xff" * path.stat().st_size)


def shorten(path: Path) -> None:
    """Another model's graph, of exactly the recorded size."""
    other = graph(dimensions=8)
    path.write_bytes(other)
    record = onnx.record_of(ENGLISH)
    fields = json.loads(record.read_text())
    record.write_text(json.dumps({**fields, "files": {MODEL_FILE: len(other)}}))


def lose_the_record(_: Path) -> None:
    onnx.record_of(ENGLISH).write_text("{")


@pytest.mark.parametrize("harm", [cut, scribble, shorten, Path.unlink, lose_the_record])
async def test_a_damaged_model_is_named_and_gives_no_vector(
    models: Path, make_storage: MakeStorage, harm: Callable[[Path], Any]
) -> None:
    harm(model_file(models))
    with pytest.raises(EmbeddingError, match=r"are damaged.*Nothing was changed.*model fetch"):
        await make_storage(embedding_model="english").store(TEXT)


async def test_questions_and_memories_get_the_prefixes_of_the_model(
    models: Path, make_storage: MakeStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    real = onnx.run

    def run(loaded: Any, texts: list[str]) -> list[list[float]]:
        asked.extend(texts)
        return real(loaded, texts)

    monkeypatch.setattr(onnx, "run", run)
    storage = make_storage(embedding_model="multilingual")
    await storage.store(TEXT)
    await storage.search("what was it?")
    assert asked == [f"passage: {TEXT}", "query: what was it?"]
    assert prefixes("Qwen/Qwen3-Embedding-0.6B-Q")[0].startswith("Instruct: ")
    assert prefixes("sentence-transformers/all-MiniLM-L6-v2") == ("", "")


async def test_what_all_vectors_have_in_common_is_subtracted(models: Path) -> None:
    texts = [f"passage: {text}" for text in SAMPLE]
    found = onnx.fetched(MULTILINGUAL)
    raw = onnx.run(onnx.load(MULTILINGUAL, found.path, found.files, found.pooling), texts)
    centred = await EmbeddingGenerator("multilingual").generate_batch(SAMPLE)

    def mean_cosine(vectors: list[list[float]]) -> float:
        pairs = [(a, b) for a in vectors for b in vectors if a is not b]
        return sum(math.fsum(map(mul, a, b)) for a, b in pairs) / len(pairs)

    assert mean_cosine(raw) > 0.9
    assert abs(mean_cosine(centred)) < 0.1


async def test_a_model_run_directly_gives_the_vectors_of_fastembed(models: Path) -> None:
    texts = [*notes(5), "x" * 10_000, "数据库 🙂"]
    for name in (ENGLISH, MULTILINGUAL):
        found = onnx.fetched(name)
        assert found.pooling
        direct, through = (
            onnx.run(onnx.load(name, found.path, found.files, pooling), texts)
            for pooling in (found.pooling, "")
        )
        for one, other in zip(direct, through, strict=True):
            assert one == pytest.approx(other, abs=1e-5)


def test_a_process_that_runs_a_model_imports_nothing_for_fetching(models: Path) -> None:
    script = """
import asyncio, sys
from memory_semantic import EmbeddingGenerator
asyncio.run(EmbeddingGenerator("english").generate("x"))
print([name for name in ("fastembed", "huggingface_hub", "requests") if name in sys.modules])
"""
    assert subprocess.check_output([sys.executable, "-c", script], text=True) == "[]\n"


async def test_vectors_keep_the_order_of_texts_of_any_length(models: Path) -> None:
    generator = EmbeddingGenerator("english")
    texts = [*notes(20), "x" * 10_000, "数据库 🙂", "short"]
    batch = await generator.generate_batch(texts)
    for place in (0, 7, 20, 21, 22):
        assert batch[place] == pytest.approx(await generator.generate(texts[place]), abs=1e-5)


async def test_a_cancelled_batch_embeds_no_more(
    models: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, real, some = [], onnx.run, asyncio.Event()
    loop = asyncio.get_running_loop()

    def run(loaded: Any, texts: list[str]) -> list[list[float]]:
        asked.append(texts)
        loop.call_soon_threadsafe(some.set)
        time.sleep(0.05)
        return real(loaded, texts)

    monkeypatch.setattr(onnx, "run", run)
    batch = asyncio.create_task(EmbeddingGenerator("english").generate_batch([*notes(1000)]))
    await some.wait()
    batch.cancel()
    await asyncio.gather(batch, return_exceptions=True)
    with onnx._turn:
        before = len(asked)
    await EmbeddingGenerator("english").generate("the next one")
    assert len(asked) <= before + 2 < 1000


async def test_a_model_for_english_leaves_korean_questions_to_the_words(
    models: Path, make_storage: MakeStorage
) -> None:
    storage = make_storage(embedding_model="english")
    await storage.store_many(["배포는 금요일 오후에 하지 않는다.", *SAMPLE[:6]])
    [found, *_] = await storage.search("금요일 배포")
    assert found.content.startswith("배포는") and (found.score or 0) > 0.5
    assert english_only("local") and english_only("BAAI/bge-small-en-v1.5")
    assert not english_only(MULTILINGUAL) and not english_only("BAAI/bge-small-zh-v1.5")


async def test_a_process_loads_a_model_once(models: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loads, real = [], onnx.load

    def load(*arguments: Any) -> Any:
        loads.append(arguments[0])
        return real(*arguments)

    monkeypatch.setattr(onnx, "load", load)
    await asyncio.gather(*(EmbeddingGenerator("english").generate(f"{n}") for n in range(8)))
    assert loads == [ENGLISH]


async def test_the_host_s_logging_is_left_alone(models: Path) -> None:
    handlers, level = list(logging.getLogger().handlers), logging.getLogger().level
    await EmbeddingGenerator("english").generate(TEXT)
    assert (logging.getLogger().handlers, logging.getLogger().level) == (handlers, level)


def test_a_child_of_a_process_that_has_loaded_a_model_can_use_it(models: Path) -> None:
    script = """
import asyncio, os
from memory_semantic import EmbeddingGenerator
def vector():
    return asyncio.run(EmbeddingGenerator("english").generate("x"))
before = vector()
child = os.fork()
if not child:
    os._exit(0 if vector() == before else 3)
print(os.waitpid(child, 0)[1])
"""
    command = [sys.executable, "-W", "ignore", "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, timeout=50)
    assert (done.stdout, done.stderr) == ("0\n", "")


def test_nothing_of_it_is_imported_for_the_built_in_model(root: Path) -> None:
    script = f"""
import asyncio, sys
from memory_semantic import MemoryStorage
storage = MemoryStorage("sam", {{"storage_root": {str(root)!r}, "embedding_model": "local"}})
asyncio.run(storage.store("x"))
print([name for name in ("fastembed", "onnxruntime", "huggingface_hub") if name in sys.modules])
"""
    assert subprocess.check_output([sys.executable, "-c", script], text=True) == "[]\n"


def test_shared_words_count_with_models_here_and_not_with_services() -> None:
    here = StorageConfig.parse({})
    there = StorageConfig.parse({"base_url": "http://localhost:1/v1"})
    assert lexical_weight(here, ENGLISH) == lexical_weight(here, "local") == 1
    assert lexical_weight(there, ENGLISH) == lexical_weight(here, "text-embedding-3-small") == 0


# Fetching


def test_a_fetch_asks_for_the_model_s_files_only_and_without_a_token(
    hub: ModelHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    version, said = hub.fetch("english", tmp_path)
    assert version.startswith("sha256 ") and said == ""
    assert sorted(hub.fetched) == sorted(set(hub.files) - {"README.md"})
    assert not any("authorization" in headers for headers in hub.headers)
    hub.headers.clear()
    assert hub.fetch("english", tmp_path) == (version, "") and hub.headers == []


def test_two_processes_that_fetch_at_once_fetch_it_once(hub: ModelHub, tmp_path: Path) -> None:
    hub.delay = 0.3
    both = [hub.start_fetch("multilingual", tmp_path) for _ in range(2)]
    (one, _), (other, _) = (process.communicate(timeout=50) for process in both)
    assert one == other != ""
    assert hub.fetched.count(MODEL_FILE) == 1


def test_a_file_damaged_in_transit_is_removed_and_fetched_again(
    hub: ModelHub, tmp_path: Path
) -> None:
    hub.damaged = MODEL_FILE
    got, said = hub.fetch("english", tmp_path)
    assert got == "" and f"{MODEL_FILE} was damaged in transit" in said and "Run it again" in said
    assert not list(tmp_path.glob("models--*")) and not list(tmp_path.glob("agent-memory/*.json"))
    hub.damaged = ""
    assert hub.fetch("english", tmp_path)[0]


def test_an_interrupted_fetch_leaves_nothing_that_a_session_would_use(
    hub: ModelHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub.cut = MODEL_FILE
    got, said = hub.fetch("english", tmp_path)
    assert got == "" and "could not be fetched" in said and "it resumes" in said
    monkeypatch.setenv("FASTEMBED_CACHE_PATH", str(tmp_path))
    with pytest.raises(EmbeddingError, match="has not been fetched"):
        onnx.fetched(ENGLISH)


def test_a_model_with_other_dimensions_than_listed_is_refused(tmp_path: Path) -> None:
    with ModelHub(dimensions=8) as hub:
        got, said = hub.fetch("english", tmp_path)
    assert got == "" and "it gives 8 dimensions, not 384" in said


@pytest.mark.parametrize("harm", [cut, scribble])
def test_a_fetch_replaces_what_was_damaged_here(
    hub: ModelHub, models: Path, harm: Callable[[Path], None]
) -> None:
    version = onnx.fetched(ENGLISH).version
    harm(model_file(models))
    got, said = hub.fetch("english", models)
    assert got == version, said
    assert onnx.missing(ENGLISH) is None


def test_a_fetch_without_network_says_so(tmp_path: Path, hub: ModelHub) -> None:
    hub.url = "http://127.0.0.1:9"
    got, said = hub.fetch("english", tmp_path)
    assert got == "" and "could not be fetched" in said and "Check the network" in said


def test_an_unlisted_name_gets_the_nearest_one_suggested(models: Path) -> None:
    for wrong, near in (
        ("BAAI/bge-small-en-v1.6", "BAAI/bge-small-en-v1.5"),
        ("englsh", "english"),
    ):
        with pytest.raises(InputError, match=f"Did you mean '{near}'"):
            fetch.fetch(wrong)


def test_the_list_has_the_recommended_ones_first_and_says_which_are_here(models: Path) -> None:
    names = [each.model for each in fetch.listed()]
    assert names[:2] == [ENGLISH, MULTILINGUAL] and "BAAI/bge-small-en-v1.5" in names
    assert not [name for name in names if "clip" in name or "constella" in name]
    assert {each.model for each in fetch.all_fetched()} == {ENGLISH, MULTILINGUAL}


# Switching


def test_a_store_gets_such_a_model_by_one_command(
    models: Path, make_storage: MakeStorage, command: Command
) -> None:
    texts = [*notes(300)]
    asyncio.run(make_storage().store_many(texts))
    command.run("reembed", "--model", "multilingual", "--yes")
    storage = make_storage(embedding_model="multilingual")
    info = asyncio.run(storage.info())
    assert info and info.model.model == MULTILINGUAL and info.words and info.memories == 300
    assert asyncio.run(storage.search(texts[200]))[0].content == texts[200]
