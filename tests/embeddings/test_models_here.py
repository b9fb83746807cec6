"""Models that run on this machine through fastembed: never sent anywhere, never replaced."""

import asyncio
import json
import math
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from operator import mul
from pathlib import Path
from typing import Any

import pytest
from command import EXECUTABLE, Command, invoke
from conftest import MakeStorage
from embeddings_server import EmbeddingsServer
from memory_models import running
from memory_models.catalogue import SAMPLE, prefixes
from memory_semantic import EmbeddingError, EmbeddingGenerator, StorageError
from memory_semantic.embeddings.choice import lexical_weight
from memory_semantic.embeddings.generator import english_only
from memory_semantic.settings import StorageConfig
from model_hub import ENGLISH, MODEL_FILE, MULTILINGUAL, ModelHub, graph

TEXT = "a private thought"
# The versions of the hub's models, and the first numbers of the vector of TEXT.
MADE = {
    ENGLISH: ("sha256 d19c175de3ff", [-0.019432, -0.039899, 0.074379, -0.091458]),
    MULTILINGUAL: ("sha256 3761aaf379b6", [-0.009671, -0.05017, 0.036177, -0.109315]),
}


@pytest.fixture
def hub() -> Iterator[ModelHub]:
    with ModelHub() as serving:
        yield serving


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
    running._loaded.cache_clear()
    return folder


def change_record(model: str, **fields: Any) -> None:
    record = running.record_of(model)
    record.write_text(json.dumps(json.loads(record.read_text()) | fields))


@pytest.mark.parametrize(("name", "real"), [("english", ENGLISH), ("multilingual", MULTILINGUAL)])
async def test_a_fetched_model_keeps_its_version_and_vectors_and_a_store_gets_it(
    models: Path, make_storage: MakeStorage, command: Command, name: str, real: str
) -> None:
    version, numbers = MADE[real]
    vector = await EmbeddingGenerator(name).generate(TEXT)
    assert vector[:4] == pytest.approx(numbers, abs=1e-4)
    await make_storage().store_many([TEXT, "xyzzy"])
    await asyncio.to_thread(command.run, "reembed", "--model", name, "--yes")
    for same in (None, real):  # whoever names none, or the real name, has the same store
        storage = make_storage(embedding_model=same)
        assert (await storage.search(TEXT))[0].content == TEXT
        info = await storage.info()
        assert info and info.words and info.endpoint is None
        assert info.model == (real, version, 384)
    change_record(real, version="sha256 another")
    with pytest.raises(StorageError, match=r"sha256 .*sha256 another.*agent-memory reembed"):
        await make_storage(embedding_model=None).search(TEXT)


async def test_a_name_with_a_slash_is_sent_nowhere_without_a_base_url(
    make_storage: MakeStorage,
    server: EmbeddingsServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("FASTEMBED_CACHE_PATH", str(tmp_path))
    monkeypatch.setenv("OPENAI_API_KEY", "sk-some")
    monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
    for name, real in (("multilingual", MULTILINGUAL), ("openai/x", "openai/x")):
        missing = f"changed. Run `agent-memory model fetch {real}`"
        with pytest.raises(EmbeddingError, match=missing):
            await make_storage(embedding_model=name).store(TEXT)
    assert server.requests == [] and await make_storage().info() is None
    for agent, name in (("sam", "multilingual"), ("alice", "BAAI/bge-m3")):
        storage = make_storage(agent, embedding_model=name, base_url=server.base_url)
        [stored] = await storage.upsert([TEXT])
        assert stored.model == name and server.requests[-1]["model"] == name
        assert server.requests[-1]["input"] == [TEXT]
    for same in (None, "BAAI/bge-m3"):
        with pytest.raises(StorageError, match="base_url"):
            await make_storage("alice", embedding_model=same).search(TEXT)


async def test_a_missing_package_is_named_with_the_line_that_installs_it(
    models: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running, "find_spec", lambda _: None)
    with pytest.raises(EmbeddingError, match=r"uv pip install --python .* \"fastembed>="):
        await EmbeddingGenerator("english").generate(TEXT)


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-100])


def scribble(path: Path) -> None:
    path.write_bytes(b"\xff" * path.stat().st_size)


def replace(path: Path) -> None:
    """With another model, of the recorded size."""
    path.write_bytes(graph(dimensions=8))
    change_record(ENGLISH, files={MODEL_FILE: path.stat().st_size})


def harm_the_record(_: Path) -> None:
    running.record_of(ENGLISH).write_text("{")


@pytest.mark.parametrize("harm", [cut, scribble, replace, Path.unlink, harm_the_record])
async def test_a_damaged_model_is_named_and_fetched_again(
    models: Path, hub: ModelHub, make_storage: MakeStorage, harm: Callable[[Path], Any]
) -> None:
    harm(running.fetched(ENGLISH).path / MODEL_FILE)
    with pytest.raises(EmbeddingError, match=r"are damaged.*Nothing was changed.*model fetch"):
        await make_storage(embedding_model="english").store(TEXT)
    assert hub.fetch("english", models)[0] == MADE[ENGLISH][0]
    running._loaded.cache_clear()  # as in a new process
    await make_storage(embedding_model="english").store(TEXT)


async def test_vectors_have_the_prefixes_of_the_model_and_nothing_in_common(
    models: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, run = [], running.run
    monkeypatch.setattr(running, "run", lambda model, new: asked.extend(new) or run(model, new))
    generator = EmbeddingGenerator("multilingual")
    vectors = await generator.generate_batch(SAMPLE)
    await generator.generate_batch(["what was it?"], questions=True)
    assert asked == [*(f"passage: {text}" for text in SAMPLE), "query: what was it?"]
    assert prefixes("Qwen/Qwen3-Embedding-0.6B-Q")[0].startswith("Instruct: ")
    assert prefixes("sentence-transformers/all-MiniLM-L6-v2") == ("", "")
    cosines = [math.fsum(map(mul, a, b)) for a in vectors for b in vectors if a is not b]
    assert abs(sum(cosines) / len(cosines)) < 0.1  # above 0.9 as the model gives them


async def test_a_model_is_loaded_once_and_a_cancelled_batch_ends_at_once_and_embeds_no_more(
    models: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loads, load = [], running.load
    monkeypatch.setattr(running, "load", lambda *given: loads.append(given) or load(*given))
    generator = EmbeddingGenerator("english")
    texts = [f"{number}" for number in range(8)]
    together = await asyncio.gather(*map(generator.generate, texts))
    assert len(loads) == 1 and together == await generator.generate_batch(texts)
    asked, begun, may_end, run = [], asyncio.Event(), threading.Event(), running.run
    loop = asyncio.get_running_loop()

    def slow(model: Any, texts: list[str]) -> list[list[float]]:
        asked.extend(texts)
        loop.call_soon_threadsafe(begun.set)
        may_end.wait(20)
        return run(model, texts)

    monkeypatch.setattr(running, "run", slow)
    batch = asyncio.create_task(generator.generate_batch(["x"] * 1000))
    await begun.wait()
    batch.cancel()
    await asyncio.gather(batch, return_exceptions=True)
    assert not may_end.is_set() and not running._turn.acquire(blocking=False)  # still at work
    may_end.set()
    await generator.generate("the next one")
    assert asked == ["x", "the next one"]


async def test_a_model_for_english_leaves_korean_to_the_words_which_count_with_models_here(
    models: Path, make_storage: MakeStorage
) -> None:
    storage = make_storage(embedding_model="english")
    await storage.store_many(["배포는 금요일 오후에 하지 않는다.", *SAMPLE[:6]])
    [found, *_] = await storage.search("금요일 배포")
    assert found.content.startswith("배포는") and (found.score or 0) > 0.5
    assert english_only("local") and english_only("BAAI/bge-small-en-v1.5")
    assert not english_only(MULTILINGUAL) and not english_only("BAAI/bge-small-zh-v1.5")
    there = StorageConfig.parse({"base_url": "http://localhost:1/v1"})
    assert lexical_weight(storage.config, ENGLISH) == lexical_weight(storage.config, "local") == 1
    assert lexical_weight(there, ENGLISH) == 0  # at a service, words do not count
    assert lexical_weight(storage.config, "text-embedding-3-small") == 0


def test_a_child_of_a_process_that_has_loaded_a_model_can_use_it(models: Path) -> None:
    script = """
import asyncio, os, logging
from memory_models import running
from memory_semantic import EmbeddingGenerator
def vector():
    return asyncio.run(EmbeddingGenerator("english").generate("x" * 10_000))
before = vector()
with running._turn:  # as while another thread embeds
    child = os.fork()
    if not child:
        os._exit(0 if vector() == before else 3)
print(os.waitpid(child, 0)[1], logging.getLogger().handlers)
"""
    command = [sys.executable, "-W", "ignore", "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, timeout=50)
    assert (done.stdout, done.stderr) == ("0 []\n", "")


def test_an_interrupted_fetch_is_not_used_and_the_next_one_resumes_without_a_token(
    hub: ModelHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    monkeypatch.setenv("FASTEMBED_CACHE_PATH", str(tmp_path))
    hub.cut = MODEL_FILE
    got, said = hub.fetch("english", tmp_path)  # each is a process that loads fastembed
    assert got == "" and "could not be fetched" in said and "it resumes" in said
    with pytest.raises(EmbeddingError, match="has not been fetched"):
        running.fetched(ENGLISH)
    hub.cut = ""
    hub.fetched.clear()
    assert hub.fetch("english", tmp_path)[0] == MADE[ENGLISH][0]
    assert hub.fetched == [MODEL_FILE]
    assert not any("authorization" in headers for headers in hub.headers)
    hub.headers.clear()
    assert hub.fetch("english", tmp_path) == (MADE[ENGLISH][0], "") and hub.headers == []
    assert not [path for path in tmp_path.rglob("*") if path.name == "README.md"]


def test_a_fetched_model_is_listed_as_such_and_with_json_nothing_else_is_printed(
    hub: ModelHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FASTEMBED_CACHE_PATH", str(tmp_path))
    monkeypatch.setenv("HF_ENDPOINT", hub.url)

    def fetch(*arguments: str) -> tuple[str, str]:
        command = [str(EXECUTABLE), "model", "fetch", *arguments]
        done = subprocess.run(command, capture_output=True, text=True, timeout=50)
        assert done.returncode == 0, done.stderr
        return done.stdout, done.stderr

    said, progress = fetch("multilingual")
    assert said.startswith(f"{MULTILINGUAL} is here") and "100%" in progress
    assert "agent-memory reembed --model multilingual" in progress
    rows = json.loads(invoke("model", "list", "--json").stdout)
    states = {row["model"]: (row["name"], row["state"]) for row in rows}
    here = ("multilingual", "fetched")
    assert states == {ENGLISH: ("english", "not fetched"), MULTILINGUAL: here}
    said, progress = fetch("english", "--json")
    assert json.loads(said)["model"] == ENGLISH and progress == ""
    assert "Did you mean 'english'" in invoke("model", "fetch", "englsh", code=2).stderr
    assert "agent-memory model list" in invoke("model", "fetch", "no/such", code=2).stderr
