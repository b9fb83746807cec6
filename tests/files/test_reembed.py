"""Another embedding model: its cost is stated, the store keeps serving, nothing is lost."""

import asyncio
import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from agent_memory.plan import sentence
from command import Command, settings
from conftest import Clock, MakeStorage
from embeddings_server import EmbeddingsServer
from memory_semantic import EmbeddingGenerator, MemoryStorage, StorageError
from memory_semantic.files import disk
from memory_semantic.files.info import Manifest
from memory_semantic.files.store import FileStore
from memory_semantic.memory import Memory, utc_now
from memory_semantic.store import EmbeddingModel, StoreInfo
from plain_vectors import PlainVectors
from store_files import OF_A_STORE, bytes_of

PLAIN = EmbeddingModel("plain", None, 32)
LOCAL = EmbeddingModel("local", EmbeddingGenerator("local").version, 256)


async def whole(storage: MemoryStorage) -> dict[str, Memory]:
    """All memories by their texts."""
    return {memory.content: memory for memory in await storage.get_recent(10_000)}


class Slowly(PlainVectors):
    """Makes something happen before each embedding."""

    def __init__(self, happenings: Iterator[Any]) -> None:
        super().__init__()
        self.happenings = happenings

    async def _embed(self, texts: list[str]) -> list[list[float]]:
        for happening in self.happenings:
            await happening
            break
        return await super()._embed(texts)


async def rebuild_with(storage: MemoryStorage, generator: EmbeddingGenerator) -> int:
    info = StoreInfo(agent="sam", embedding=PLAIN, created=utc_now())
    return await storage.backend.rebuild(info, generator)


def unfinished(storage: MemoryStorage) -> MemoryStorage:
    """What an interrupted rebuild has made so far."""
    config = {"storage_root": str(storage.folder.rebuild / "embedded")}
    return MemoryStorage("sam", config, embeddings=PlainVectors())


def using(storage: MemoryStorage) -> MemoryStorage:
    """The same store, used with the new model."""
    config = {"storage_root": storage.config.storage_root}
    return MemoryStorage("sam", config, embeddings=PlainVectors())


class TestCommand:
    def test_to_a_service_and_back(
        self,
        command: Command,
        storage: MemoryStorage,
        clock: Clock,
        server: EmbeddingsServer,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        for number in range(5):
            clock.advance(days=1)
            asyncio.run(storage.store(f"fact {number}", [f"tag {number}"]))
        before = asyncio.run(whole(storage))
        monkeypatch.setenv("OPENAI_API_KEY", "a-key")
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        result = command.run("reembed", "--model", "text-embedding-3-small", input="y\n")
        assert "from 'local' (wordllama 0.4), 256 dimensions" in result.stderr
        assert "5 memories to embed, about 7 tokens" in result.stderr
        assert "Their text goes to 127.0.0.1" in result.stderr and "Start?" in result.stderr
        assert "5 memories of sam with the model 'text-embedding-3-small'" in result.stdout
        assert asyncio.run(whole(storage)) == before
        [row] = command.json("list", "--agents")
        assert row["model"] == "text-embedding-3-small"
        assert command.json("search", "fact 3")[0]["content"] == "fact 3"
        assert command.json("doctor")[-1]["state"] == "ok"
        again = command.run("reembed", "--model", "local", "--yes")
        assert "Nothing is sent anywhere" in again.stderr
        assert asyncio.run(whole(storage)) == before
        assert asyncio.run(storage.check()) == []
        left = {path.name for path in storage.folder.path.iterdir()}
        assert left == OF_A_STORE

    def test_what_it_takes_is_said(self) -> None:
        assert sentence(1, 4_000_000, 75, "OpenAI") == (
            "1 memory to embed, about 1,000,000 tokens, about 1 min 15 s. "
            "Their text goes to OpenAI."
        )

    def test_without_a_yes_nothing_happens_and_no_memory_is_sent(
        self, command: Command, storage: MemoryStorage, server: EmbeddingsServer
    ) -> None:
        asyncio.run(storage.store_many([f"private {number}" for number in range(40)]))
        command.run("reembed", "--model", "local")  # has it already: there is nothing to ask
        result = command.run("reembed", "-m", "m", "--base-url", "http://127.0.0.1:9/v1", code=1)
        assert "could not be reached" in result.stderr
        asked = ("reembed", "-m", "m", "--base-url", server.base_url)
        for answer, code in (("n\n", 0), ("", 1)):
            command.run(*asked, input=answer, code=code)
        assert server.requests and "private" not in json.dumps(server.requests)
        assert command.json("list", "--agents")[0]["model"] == "local"

    def test_dimensions_can_be_asked_for_and_an_empty_store_can_change_too(
        self, command: Command, server: EmbeddingsServer
    ) -> None:
        stored = command.json("store", "one")
        wanted = ("--model", "m", "--base-url", server.base_url, "--yes", "--dimensions")
        command.run("reembed", *wanted, "64")
        command.run("forget", stored["memory_id"], "--yes")
        command.run("reembed", *wanted, "32")
        assert command.json("stats")["embedding"]["dimensions"] == 32

    def test_settings_that_do_not_agree_with_it_are_pointed_out(
        self, command: Command, server: EmbeddingsServer
    ) -> None:
        command.run("store", "one")
        settings(embedding_model="local")
        result = command.run("reembed", "-m", "m", "--base-url", server.base_url, "--yes")
        assert "Sessions need these settings from now on" in result.stderr
        assert "settings.yaml:" in result.stderr and "      embedding_model: m\n" in result.stderr
        assert f"      base_url: {server.base_url}" in result.stderr
        assert not any(word in result.output for word in ("Nothing was changed", "--model local"))
        settings(embedding_model="m", base_url=server.base_url)
        assert command.json("search", "one")[0]["content"] == "one"
        again = command.run("reembed", "-m", "m", "--yes")
        assert "settings" not in again.stderr and "1 memory of sam with the model" in again.stdout

    def test_to_another_service_with_a_model_of_the_same_name(
        self, command: Command, server: EmbeddingsServer
    ) -> None:
        """Its vectors may differ even if they are as long: the texts are embedded again."""
        settings(embedding_model="m", base_url=server.base_url)
        command.run("store", "one")
        with EmbeddingsServer() as same, EmbeddingsServer(64) as shorter:
            for other in (same, shorter):
                said = command.run("reembed", "-m", "m", "--base-url", other.base_url, "--yes")
                assert "1 memory to embed" in said.stderr and "Nothing" not in said.output
                assert ["one"] in [request["input"] for request in other.requests]
                assert f"{other.dimensions} dimensions" in said.stdout.splitlines()[-1]
                assert f"      base_url: {other.base_url}\n" in said.stderr
                settings(embedding_model="m", base_url=other.base_url)
                assert command.json("search", "one")[0]["content"] == "one"
                assert "to embed" not in command.run("reembed", "-m", "m", "--yes").stderr

    def test_a_vector_length_in_the_settings_that_no_longer_holds(
        self, command: Command, server: EmbeddingsServer
    ) -> None:
        old = {"embedding_model": "m", "base_url": server.base_url, "dimensions": "16"}
        path = settings(**old)
        command.run("store", "one")
        said = command.run("reembed", "-m", "n", "--yes").stderr
        assert "      dimensions: null\n" in said and "16 dimensions is" not in said
        [words] = [line.split() for line in said.splitlines() if "dimensions: null" in line]
        assert words == ["dimensions:", "null"]
        config = "".join(line for line in said.splitlines(True) if line.startswith(" "))
        path.write_text(f"overrides:\n{config}")
        assert command.json("search", "one")[0]["content"] == "one"


class TestMeanwhile:
    """What sessions do meanwhile is kept, and they never wait for it."""

    async def test_stores_new_tags_and_what_is_forgotten(
        self, make_storage: MakeStorage, clock: Clock
    ) -> None:
        storage = make_storage(lock_timeout=1)
        await storage.store_many([(f"fact {number}", ["old"]) for number in range(200)])
        before = await whole(storage)
        gone = [before[text] for text in ("fact 3", "fact 4")]

        async def others() -> None:
            clock.advance(hours=1)
            await storage.store("stored meanwhile", ["new"])
            await storage.store("fact 7", ["more"])
            for memory in gone:
                with pytest.raises(StorageError, match=r"Another rebuild.*in no answer"):
                    await storage.delete([memory.id])
                assert await storage.get(memory.id) is None
            with pytest.raises(StorageError, match=r"Another rebuild.*Nothing was changed"):
                await rebuild_with(storage, PlainVectors())
            await storage.store("fact 3", ["new"])

        nothing = asyncio.sleep(0)
        assert await rebuild_with(storage, Slowly(iter([nothing, others()]))) == 200
        after = await whole(storage)
        assert after.keys() == before.keys() - {"fact 4"} | {"stored meanwhile"}
        assert after["fact 7"].tags == ["old", "more"] and after["fact 7"].timestamp == clock.now
        assert after["fact 3"].tags == ["new"] and after["fact 3"].id != gone[0].id
        assert await using(storage).check() == []
        left = bytes_of(storage.folder.path)
        assert gone[0].id.encode() not in left and gone[1].key.bytes not in left
        info = await storage.backend.info()
        assert isinstance(info, Manifest) and not info.erasing

    async def test_many_stores_are_caught_up_with(self, storage: MemoryStorage) -> None:
        await storage.store_many([f"fact {number}" for number in range(150)])
        more = (storage.store_many([f"more {n} {i}" for i in range(100)]) for n in range(3))
        assert await rebuild_with(storage, Slowly(more)) == 450
        assert await using(storage).check() == []

    async def test_a_call_that_embedded_before_the_swap_embeds_again(
        self, storage: MemoryStorage
    ) -> None:
        await storage.store("first")

        config = {"storage_root": storage.config.storage_root}
        late = MemoryStorage("sam", config)  # takes the store's model, whatever it is
        local = late.generator(await storage.info())
        embed = local._embed

        async def swap_first(texts: list[str]) -> list[list[float]]:
            vectors = await embed(texts)
            if not swapped:
                swapped.append(True)
                await rebuild_with(storage, PlainVectors())
            return vectors

        swapped: list[bool] = []
        local._embed = swap_first
        late.generator = lambda info: local if not swapped else PlainVectors()
        await late.store("late")
        assert await using(storage).check() == [] and await storage.count() == 2


class TestInterrupted:
    @pytest.mark.parametrize("moment", ["before the manifest", "after the manifest", "removing"])
    async def test_around_the_swap_nothing_gets_stuck(
        self, storage: MemoryStorage, monkeypatch: pytest.MonkeyPatch, moment: str
    ) -> None:
        await storage.store_many([f"fact {number}" for number in range(50)])

        class Killed(BaseException):
            pass

        def killed(*_: Any, **__: Any) -> None:
            raise Killed

        with monkeypatch.context() as patch:
            if moment == "before the manifest":
                patch.setattr(FileStore, "_describe", killed)
            elif moment == "after the manifest":
                patch.setattr("memory_semantic.files.store.clear_debris", killed)
            else:
                patch.setattr(disk, "remove", killed)
            with pytest.raises(Killed):
                await rebuild_with(storage, PlainVectors())
        assert await storage.count() == 50
        gone = (await storage.get_recent(1))[0]
        root = Path(storage.config.storage_root)
        process = Command(root).start("forget", gone.id, "--yes")
        await asyncio.to_thread(process.communicate)
        assert gone.id.encode() not in bytes_of(root)  # nor in what is unfinished
        assert await rebuild_with(storage, PlainVectors()) == 49
        assert await using(storage).check() == []
        left = {path.name for path in storage.folder.path.iterdir()}
        assert left == OF_A_STORE

    async def test_one_with_another_model_can_be_discarded(
        self, storage: MemoryStorage, command: Command, server: EmbeddingsServer
    ) -> None:
        await storage.store_many([f"fact {number}" for number in range(60)])
        await unfinished(storage).restore(await storage.get_recent(10))
        options = ("--model", "m", "--base-url", server.base_url)
        run = partial(asyncio.to_thread, command.run, "reembed")
        assert "At most 60 memories to embed" in (await run(*options, input="n\n")).stderr
        assert "60 memories of sam" in (await run("--model", "local")).stdout
        assert not storage.folder.rebuild.exists()
        await unfinished(storage).restore(await storage.get_recent(10))
        await run(*options, "--yes")  # starts over
        assert (await storage.info()).model.model == "m"  # type: ignore[union-attr]
        assert await storage.check() == []

    async def test_it_resumes_where_it_ended(self, storage: MemoryStorage) -> None:
        await storage.store_many([f"fact {number}" for number in range(300)])
        embedded: list[str] = []

        class Counting(PlainVectors):
            async def _embed(self, texts: list[str]) -> list[list[float]]:
                if stop_at is not None and len(embedded) >= stop_at:
                    raise KeyboardInterrupt
                embedded.extend(texts)
                return await super()._embed(texts)

        stop_at: int | None = 200
        with pytest.raises(KeyboardInterrupt):
            await rebuild_with(storage, Counting())
        assert await storage.count() == 300 and await storage.check() == []
        assert 0 < await unfinished(storage).count() < 300
        stop_at = None
        await rebuild_with(storage, Counting())
        assert sorted(embedded) == sorted({f"fact {number}" for number in range(300)})
        assert not storage.folder.rebuild.exists() and await using(storage).check() == []
