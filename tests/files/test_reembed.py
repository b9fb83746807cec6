"""Another embedding model: its cost is stated, the store keeps serving, nothing is lost."""

import asyncio
import json
import os
from collections.abc import Awaitable, Iterable
from typing import Any

import pytest
from command import Command, settings
from conftest import Clock, MakeStorage, whole
from embeddings_server import EmbeddingsServer
from memory_semantic import MemoryStorage, StorageError, upkeep
from memory_semantic.limits import EMBEDDED_AT_ONCE
from memory_semantic.memory import Memory
from memory_semantic.points import EmbeddingModel, StoreInfo
from memory_semantic.remembered import utc_now
from plain_vectors import PlainVectors
from store_files import OF_A_STORE, bytes_of, traces

FACTS = [f"fact {number} of many" for number in range(2 * EMBEDDED_AT_ONCE + 40)]
_RECORD_BYTES = 16 + 4 * 32  # of a text in a file of gathered vectors


class Killed(BaseException):
    """The process ends here."""


async def killed() -> None:
    raise Killed


class Service(PlainVectors):
    """A model at some address, which records what it embeds. Something happens before each part."""

    def __init__(
        self,
        happenings: Iterable[Awaitable[Any]] = (),
        address: str | None = None,
        model: str = "plain",
    ) -> None:
        super().__init__()
        self.model, self.embedded = model, list[str]()
        self._address, self._happenings = address, iter(happenings)

    @property
    def endpoint(self) -> str | None:
        return self._address

    async def _embed(self, texts: list[str]) -> list[list[float]]:
        for happening in self._happenings:
            await happening
            break
        self.embedded += texts
        return await super()._embed(texts)


async def reembed(storage: MemoryStorage, service: Service) -> int:
    wanted = StoreInfo(
        agent="sam",
        embedding=EmbeddingModel(service.model, None, 32),
        endpoint=service.endpoint,
        created=utc_now(),
    )
    return await upkeep.reembed(storage.place, wanted, service, lambda done, of: None)


async def is_done(storage: MemoryStorage, service: Service) -> None:
    """Assert that each vector is that of its text and of this service, and no debris is left."""
    found = await storage.info()
    assert found and found.embedder == (EmbeddingModel(service.model, None, 32), service.endpoint)
    memories = await storage.run(lambda store: list(store.scan(vectors=True)), [])
    vectors = await PlainVectors().generate_batch([memory.content for memory in memories])
    for memory, vector in zip(memories, vectors, strict=True):
        assert memory.embedding == pytest.approx(vector, abs=1e-3)
    assert await storage.check() == []
    await storage.close()
    assert {path.name for path in storage.folder.path.iterdir()} == OF_A_STORE
    assert len(list(storage.folder.database.iterdir())) == 4  # the shard, and no vectors


def test_to_a_service_and_back(
    command: Command, storage: MemoryStorage, clock: Clock, server: EmbeddingsServer
) -> None:
    for number in range(5):
        clock.advance(days=1)
        asyncio.run(storage.store(f"fact {number}", [f"tag {number}"]))
    before = asyncio.run(whole(storage))
    there = ("reembed", "--model", "m", "--base-url", server.base_url)
    command.run("reembed", "--model", "local")  # has it already: there is nothing to ask
    failed = command.run("reembed", "-m", "m", "--base-url", "http://127.0.0.1:9/v1", code=1)
    assert "could not be reached" in failed.stderr
    for answer, code in (("n\n", 0), ("", 1)):
        command.run(*there, input=answer, code=code)
    assert server.requests and "fact" not in json.dumps(server.requests)
    assert command.json("list", "--agents")[0]["model"] == "local"
    result = command.run(*there, input="y\n")
    assert "from 'local' (all-MiniLM-L6-v2 int8, wordllama 0.4), 640 dimensions" in result.stderr
    assert "5 memories to embed, about 7 tokens" in result.stderr
    assert "Their text goes to 127.0.0.1" in result.stderr and "Start?" in result.stderr
    assert "5 memories of sam with the model 'm'" in result.stdout
    assert asyncio.run(whole(storage)) == before
    assert command.json("list", "--agents")[0]["model"] == "m"
    settings(embedding_model="m", base_url=server.base_url)
    assert command.json("search", "fact 3")[0]["content"] == "fact 3"
    assert command.json("doctor")[-1]["state"] == "ok"
    again = command.run("reembed", "--model", "local", "--yes")
    assert "Nothing is sent anywhere" in again.stderr
    assert asyncio.run(whole(storage)) == before and asyncio.run(storage.check()) == []


def test_to_another_service_with_a_model_of_the_same_name_and_settings_that_name_the_old_one(
    command: Command, server: EmbeddingsServer
) -> None:
    """Its vectors may differ even if they are as long: the texts are embedded again."""
    command.run("store", "one")
    settings(embedding_model="local")
    with EmbeddingsServer(64) as shorter:
        for other in (server, shorter):
            said = command.run("reembed", "-m", "m", "--base-url", other.base_url, "--yes")
            assert "1 memory to embed" in said.stderr and "--model local" not in said.output
            assert "Nothing was changed" not in said.output
            assert ["one"] in [request["input"] for request in other.requests]
            assert f"{other.dimensions} dimensions" in said.stdout.splitlines()[-1]
            assert "Sessions need these settings from now on" in said.stderr
            assert f"      base_url: {other.base_url}\n" in said.stderr
            assert "      embedding_model: m\n" in said.stderr
            settings(embedding_model="m", base_url=other.base_url)
            assert command.json("search", "one")[0]["content"] == "one"
            again = command.run("reembed", "-m", "m", "--yes")
            assert "to embed" not in again.stderr and "settings" not in again.stderr
            assert "1 memory of sam with the model" in again.stdout


def test_dimensions_can_be_asked_for_and_those_of_the_settings_may_no_longer_hold(
    command: Command, server: EmbeddingsServer
) -> None:
    path = settings(embedding_model="m", base_url=server.base_url, dimensions="16")
    stored = command.json("store", "one")
    said = command.run("reembed", "-m", "n", "--yes").stderr
    assert "      dimensions: null\n" in said and "16 dimensions is" not in said
    config = "".join(line for line in said.splitlines(True) if line.startswith(" "))
    path.write_text(f"overrides:\n{config}")
    assert command.json("search", "one")[0]["content"] == "one"
    command.run("reembed", "-m", "n", "--dimensions", "64", "--yes")
    command.run("forget", stored["memory_id"], "--yes")  # an empty store can change, too
    command.run("reembed", "-m", "n", "--dimensions", "32", "--yes")
    assert command.json("stats")["embedding"]["dimensions"] == 32


async def test_what_others_store_tag_and_forget_meanwhile_is_kept_and_they_never_wait(
    make_storage: MakeStorage, clock: Clock
) -> None:
    storage = make_storage(lock_timeout=1)
    facts = FACTS[: EMBEDDED_AT_ONCE + 60]
    await storage.store_many([(fact, ["old"]) for fact in facts])
    before = await whole(storage)
    gone: list[Memory] = []
    tagged: list[str] = []

    async def others() -> None:
        clock.advance(hours=1)
        await storage.store("stored meanwhile", ["new"])
        in_work = [fact for fact in facts if fact not in service.embedded]
        for texts in (service.embedded, in_work):
            gone.extend(before[text] for text in texts[:2])
            tagged.append(texts[2])
            await storage.store(texts[2], ["more"])
        assert await storage.delete([memory.id for memory in gone]) == 4
        assert traces(storage.folder.path, gone) == []
        await storage.store(gone[0].content, ["again"])

    async def look() -> None:  # what was in work is gathered, and what was forgotten is not
        files = bytes_of(storage.folder.database)
        assert not [memory for memory in gone[1:] if memory.key.bytes in files]

    service = Service([asyncio.sleep(0), others(), look()])
    assert await reembed(storage, service) == len(facts) - 4 + 2
    await is_done(storage, service)
    after = await whole(storage)
    kept = before.keys() - {memory.content for memory in gone}
    assert after.keys() == kept | {"stored meanwhile", gone[0].content}
    for text in tagged:
        assert after[text].tags == ["old", "more"] and after[text].timestamp == clock.now
    again = after[gone[0].content]
    assert again.tags == ["again"] and again.id != gone[0].id
    assert traces(storage.folder.path, gone[1:]) == []


async def test_a_call_that_embedded_before_the_swap_embeds_again(storage: MemoryStorage) -> None:
    await storage.store("first")
    config = {"storage_root": storage.config.storage_root}
    late = MemoryStorage("sam", config)  # takes the store's model, whatever it is
    local, service = late.generator(await storage.info()), Service()
    embed = local._embed

    async def swap_first(texts: list[str]) -> list[list[float]]:
        vectors = await embed(texts)
        await reembed(storage, service)
        return vectors

    local._embed = swap_first
    late.generator = lambda info: local if not service.embedded else service
    await late.store("late")
    assert sorted(service.embedded) == ["first", "late"]
    await is_done(storage, service)


async def test_of_two_at_once_one_ends_and_the_other_says_so(storage: MemoryStorage) -> None:
    await storage.store_many(FACTS)
    first = Service(model="first")
    nothing = asyncio.sleep(0)
    with pytest.raises(StorageError, match=r"another model meanwhile.*Nothing was changed"):
        await reembed(storage, Service([nothing, reembed(storage, first)], model="second"))
    await is_done(storage, first)


@pytest.mark.parametrize(
    ("parts", "between"),
    [(0, "nothing"), (1, "torn"), (1, "cut"), (1, "forgets"), (2, "nothing"), (2, "forgets")],
)
async def test_a_rerun_embeds_the_rest(storage: MemoryStorage, parts: int, between: str) -> None:
    await storage.store_many(FACTS)
    before = await whole(storage)
    first, second = Service([*(asyncio.sleep(0) for _ in range(parts)), killed()]), Service()
    with pytest.raises(Killed):
        await reembed(storage, first)
    assert await whole(storage) == before and await storage.check() == []
    lost, gone = set[str](), set[str]()
    for path in storage.folder.gathered:
        assert path.stat().st_size == len(first.embedded) * _RECORD_BYTES
        if between == "torn":
            with path.open("ab") as file:
                file.write(bytes(20))
        elif between == "cut":
            os.truncate(path, path.stat().st_size - 1)
            lost = {first.embedded[-1]}
    if between == "forgets":
        gone = {*first.embedded[:1], next(f for f in FACTS if f not in first.embedded)}
        await storage.delete([before[text].id for text in gone])
    assert await reembed(storage, second) == len(before.keys() - gone)
    left = before.keys() - first.embedded - gone
    assert sorted(second.embedded) == sorted(left | lost)
    await is_done(storage, second)


async def test_another_service_embeds_all_with_a_model_of_that_name(storage: MemoryStorage) -> None:
    await storage.store_many(FACTS)
    first = Service([asyncio.sleep(0), killed()], "one:1")
    with pytest.raises(Killed):
        await reembed(storage, first)
    for address in ("other:2", "one:1"):
        service = Service(address=address)
        assert await reembed(storage, service) == len(FACTS) == len(service.embedded)
        await is_done(storage, service)
    manifest = storage.folder.manifest()
    with pytest.raises(Killed):
        await reembed(storage, Service([asyncio.sleep(0), killed()], model="a third"))
    again = Service(address="one:1")
    assert await reembed(storage, again) == len(FACTS) and again.embedded == []
    assert storage.folder.manifest() == manifest
    await is_done(storage, again)  # and what was gathered for the third is discarded
