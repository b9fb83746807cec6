"""A store keeps the embedding model it was created with; nothing replaces it silently. Models that
run on this machine through fastembed are never sent anywhere.
"""

import asyncio
import logging
import math
import shutil
import socket
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from operator import mul
from pathlib import Path
from typing import Any

import memory_models
import pytest
from command import Command, settings
from conftest import MakeStorage, MakeTools
from embeddings_server import EmbeddingsServer
from memory_models import PACKAGE, prefixes
from memory_models.catalogue import SAMPLE
from memory_semantic import EmbeddingError, EmbeddingGenerator, MemoryStorage, StorageError
from memory_semantic.embeddings import static
from memory_semantic.embeddings.choice import lexical_weight
from memory_semantic.embeddings.generator import english_only
from memory_semantic.points import EmbeddingModel
from memory_semantic.settings import StorageConfig, parsed
from model_hub import BGE, FILE_OF, MULTILINGUAL, ModelHub
from plain_vectors import PlainVectors
from store_files import cut, garble, remove

TEXT = "a private thought"
VERSION = "c0ffeec0ffee.1"
# The first numbers of the vector of TEXT.
MADE = {
    BGE: [-0.019616, -0.039702, 0.074379, -0.090772],
    MULTILINGUAL: [-0.009933, -0.049957, 0.036177, -0.108525],
}


@pytest.fixture
def hub() -> Iterator[ModelHub]:
    with ModelHub() as serving:
        yield serving


@pytest.fixture(scope="module")
def fetched_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with two models, as `fetch` leaves them."""
    folder = tmp_path_factory.mktemp("models")
    with ModelHub() as hub:
        for name in (BGE, MULTILINGUAL):
            got, said = hub.fetch(name, folder)
            assert got == VERSION, said
    return folder


@pytest.fixture
def models(fetched_once: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The same, free to change, and without any network."""
    folder = Path("~/models").expanduser()
    shutil.copytree(fetched_once, folder, symlinks=True)
    monkeypatch.setenv("FASTEMBED_CACHE_PATH", "~/models")
    monkeypatch.chdir(tmp_path)

    asked: list[Any] = []  # an error alone may be taken for damaged files

    def no_network(*address: Any) -> None:
        asked.append(address)
        raise OSError("a session tried to reach the network")

    monkeypatch.setattr(socket.socket, "connect", no_network)
    memory_models._loaded.cache_clear()
    yield folder
    assert asked == [] and not Path(tmp_path, "~").exists()


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


NOTES = [
    *("We chose PostgreSQL for the users table.", "Login tokens expire after fifteen minutes."),
    *("Sam prefers tabs over spaces in Go files.", "Deploys are frozen on Friday afternoons."),
]


def test_the_vectors_are_those_of_the_library_that_carries_the_model() -> None:
    [vector] = static.embed(["We chose PostgreSQL for the users table, 数据库 🙂"])
    assert vector[:4] == pytest.approx([-0.118648, 0.109928, -0.161063, -0.042493], abs=1e-6)


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


@pytest.mark.parametrize(("name", "real"), [(BGE, BGE), ("Multilingual", MULTILINGUAL)])
async def test_a_fetched_model_keeps_its_version_and_vectors_and_a_store_gets_it(
    models: Path, make_storage: MakeStorage, command: Command, name: str, real: str
) -> None:
    vector = await EmbeddingGenerator(name).generate(TEXT)
    assert vector[:4] == pytest.approx(MADE[real], abs=1e-4)
    await make_storage().store_many([TEXT, "xyzzy"])
    await asyncio.to_thread(command.run, "reembed", "--model", name, "--yes")
    for same in (None, real):  # whoever names none, or the real name, has the same store
        storage = make_storage(embedding_model=same)
        assert (await storage.search(TEXT))[0].content == TEXT
        info = await storage.info()
        assert info and info.words and info.endpoint is None
        assert info.model == (real, VERSION, 384)
    [commit] = memory_models._folder(real).glob("models--*/refs/main")
    commit.write_text("another")
    with pytest.raises(StorageError, match=r"c0ffeec0ffee.*another.*agent-memory reembed"):
        await make_storage(embedding_model=None).search(TEXT)
    commit.unlink()  # as in a folder of which half was copied
    settings(embedding_model=name)
    said = (await asyncio.to_thread(command.run, "doctor", code=1)).stdout
    assert f"model use {real}" in said and "or switch to the built-in model" in said


async def test_a_name_with_a_slash_is_sent_nowhere_without_a_base_url(
    make_storage: MakeStorage,
    server: EmbeddingsServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("FASTEMBED_CACHE_PATH", str(tmp_path))
    monkeypatch.setenv("OPENAI_API_KEY", "sk-some")
    monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
    long = f"openai/{'x' * 300}"
    for name, real in (("multilingual", MULTILINGUAL), ("openai/x", "openai/x"), (long, long)):
        missing = f"changed. Run: agent-memory model use {real}$"
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


async def test_a_session_without_the_package_names_the_line_that_brings_it_and_the_model(
    tmp_path: Path, make_tools: MakeTools, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "fastembed", None)
    monkeypatch.setenv("FASTEMBED_CACHE_PATH", str(tmp_path))
    tools = await make_tools(embedding_model="multilingual")
    said = await tools.refused("memory_store", content=TEXT)
    line = f'uv pip install --python {sys.executable} "{PACKAGE}" && agent-memory model use '
    assert f"needs the package fastembed. Nothing was changed. Run: {line}{MULTILINGUAL}" in said


@pytest.mark.parametrize("harm", [cut, garble, remove])
async def test_a_damaged_model_is_named_and_fetched_again(
    models: Path, hub: ModelHub, make_storage: MakeStorage, harm: Callable[[Path], Any]
) -> None:
    [file] = memory_models._folder(BGE).glob(f"models--*/snapshots/*/{FILE_OF[BGE]}")
    harm(file.resolve())
    with pytest.raises(EmbeddingError, match=r"damaged files.*Nothing was changed.*model use"):
        await make_storage(embedding_model=BGE).store(TEXT)
    assert not memory_models.works(BGE)
    assert hub.fetch(BGE, models)[0] == VERSION
    memory_models._loaded.cache_clear()  # as in a new process
    await make_storage(embedding_model=BGE).store(TEXT)


async def test_vectors_have_the_prefixes_of_the_model_and_nothing_in_common(
    models: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    generator = EmbeddingGenerator("multilingual")
    await generator.generate(TEXT)  # which loads the model
    asked, run = [], memory_models.run
    monkeypatch.setattr(memory_models, "run", lambda one, new: asked.extend(new) or run(one, new))
    vectors = await generator.generate_batch(SAMPLE)
    await generator.generate_batch(["what was it?"], questions=True)
    assert asked == [*(f"passage: {text}" for text in SAMPLE), "query: what was it?"]
    assert prefixes("Qwen/Qwen3-Embedding-0.6B-Q")[0].startswith("Instruct: ")
    assert prefixes("sentence-transformers/all-MiniLM-L6-v2") == ("", "")
    cosines = [math.fsum(map(mul, a, b)) for a in vectors for b in vectors if a is not b]
    assert abs(sum(cosines) / len(cosines)) < 0.1  # above 0.9 as the model gives them


async def test_a_model_is_loaded_once(models: Path) -> None:
    generator, texts = EmbeddingGenerator(BGE), [f"{number}" for number in range(8)]
    together = await asyncio.gather(*map(generator.generate, texts))
    assert together == await generator.generate_batch(texts)
    assert memory_models._loaded.cache_info().misses == 1


async def test_a_model_for_english_leaves_korean_to_the_words_which_count_with_models_here(
    models: Path, make_storage: MakeStorage
) -> None:
    storage = make_storage(embedding_model=BGE)
    await storage.store_many(["배포는 금요일 오후에 하지 않는다.", *SAMPLE[:6]])
    [found, *_] = await storage.search("금요일 배포")
    assert found.content.startswith("배포는") and (found.score or 0) > 0.5
    for model, version, only in (
        *(("local", "1", True), (BGE, "1", True), (MULTILINGUAL, "1", False)),
        *(("BAAI/bge-small-zh-v1.5", "1", False), ("BAAI/bge-m3", None, False)),  # of a service
    ):
        assert english_only(EmbeddingModel(model, version, 384)) is only
    there = parsed({"base_url": "http://localhost:1/v1"}, StorageConfig)
    assert lexical_weight(storage.config, BGE) == lexical_weight(storage.config, "local") == 1
    assert lexical_weight(there, BGE) == 0  # at a service, words do not count
    assert lexical_weight(storage.config, "text-embedding-3-small") == 0


def test_a_fetch_that_failed_is_not_used_and_the_next_one_needs_no_token(
    hub: ModelHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    monkeypatch.setenv("FASTEMBED_CACHE_PATH", str(tmp_path))
    hub.cut = FILE_OF[BGE]
    hub.go_on.set()
    got, said = hub.fetch(BGE, tmp_path)  # each is a process that loads fastembed
    assert got == "" and "could not be fetched" in said and "run it again" in said
    with pytest.raises(EmbeddingError, match="is not on this machine"):
        memory_models.version(BGE)
    hub.cut = ""
    hub.fetched.clear()
    with ThreadPoolExecutor() as two:
        got = [each[0] for each in two.map(hub.fetch, [BGE] * 2, [tmp_path] * 2)]
    assert got == [VERSION] * 2 and hub.fetched.count(FILE_OF[BGE]) == 1
    assert not any("authorization" in headers for headers in hub.headers)
    hub.headers.clear()
    assert hub.fetch(BGE, tmp_path) == (VERSION, "") and hub.headers == []
    assert not [path for path in tmp_path.rglob("*") if path.name == "README.md"]
    [file] = memory_models._folder(BGE).glob(f"models--*/snapshots/*/{FILE_OF[BGE]}")
    cut(file)
    hub.cut = FILE_OF[BGE]
    assert "could not be fetched" in hub.fetch(BGE, tmp_path)[1] and file.exists()


def test_weights_that_the_maker_did_not_publish_are_refused(hub: ModelHub, tmp_path: Path) -> None:
    folder = tmp_path / "models"
    got, said = hub.fetch(MULTILINGUAL, folder, any_hash=False)
    assert got == "" and "not the known ca456c06b3a9" in said
    assert not (folder / MULTILINGUAL.replace("/", "--")).exists()
