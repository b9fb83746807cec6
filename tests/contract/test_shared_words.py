"""With the built-in model, the words that question and memory share count besides meaning."""

import asyncio
import json
from pathlib import Path

import pytest
from command import Command
from conftest import Clock, MakeStorage
from memory_semantic import MemoryStorage, ranking
from plain_vectors import PlainVectors


def words(root: Path) -> int:
    """By which version the store keeps the words of its texts; 0 if it does not."""
    return json.loads((root / "sam/qdrant.db/manifest.json").read_text())["words"]


class Listening(PlainVectors):
    """A model that records what it was given."""

    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []

    async def _embed(self, texts: list[str]) -> list[list[float]]:
        self.texts += texts
        return await super()._embed(texts)


async def test_common_words_are_left_out_of_what_a_service_embeds(root: Path) -> None:
    config = {"storage_root": str(root), "lexical_weight": 1}
    model = Listening()
    storage = MemoryStorage("sam", config, embeddings=model)
    await storage.store_many([f"the pool of T{i}" for i in range(19)])
    question = "is the pool of T7 full"
    for others, asked in ((0, question), (1, "is T7 full"), (60, question)):
        await storage.store_many([f"note {i}" for i in range(others)])
        model.texts.clear()
        await storage.search(question)
        assert model.texts == [asked]


async def test_a_question_without_words_is_ranked_by_meaning_and_other_models_have_no_words(
    root: Path, clock: Clock
) -> None:
    for agent, weight in (("sam", None), ("bob", 0.5)):
        config = {"storage_root": str(root), "lexical_weight": weight}
        storage = MemoryStorage(agent, config, embeddings=PlainVectors(), clock=clock)
        await storage.store_many(["?!", "one", "two"])
        assert (await storage.search("?!"))[0].score == pytest.approx(1.2, abs=1e-3)
    assert words(root) == 0


async def test_a_memory_made_without_words_gets_them_from_reembed(
    make_storage: MakeStorage, root: Path, command: Command
) -> None:
    by_meaning = make_storage(lexical_weight=0)
    await by_meaning.store_many(["The pool holds ten.", "Tea at four."])
    question = "how many does the pool hold"
    for weight in (0.5, 1):
        storage = make_storage(lexical_weight=weight)
        assert await storage.search(question) == await by_meaning.search(question)
    findings = await asyncio.to_thread(command.json, "doctor", "--offline")
    [finding] = [each for each in findings if each["subject"] == "words"]
    assert finding["mend"].startswith("agent-memory reembed --model local")
    before = {memory.id: memory for memory in await storage.get_recent()}
    assert words(root) == 0 and await storage.check() == []

    await asyncio.to_thread(command.run, "reembed", "--model", "local", "--yes")
    [found] = await storage.search("ten pool holds the", limit=1)
    assert words(root) == ranking.INDEXED and (found.score or 0) > 1.15
    assert {memory.id: memory for memory in await storage.get_recent()} == before
    assert await storage.check() == []


def test_ways_to_write_a_word_that_make_no_difference() -> None:
    assert ranking.indexed("Cafe\u0301 STRASSE \uff21") == ranking.indexed(
        "caf\u00e9 stra\u00dfe a"
    )
    assert len(ranking.indexed("PG_POOL_MAX, BILL-1423!")) == 3


async def test_the_check_compares_the_words_with_the_text(
    make_storage: MakeStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as wrong:
        wrong.setattr("memory_semantic.files.edge.indexed", lambda text: [1])
        await make_storage().store("Tea at four.")
    [problem] = await make_storage().check()
    assert "its words are not those of its text" in problem
