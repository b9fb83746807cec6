"""The order of results is exactly the formula of `ranking`, whatever a store holds."""

import asyncio
import json
import math
from datetime import UTC, datetime, timedelta
from pathlib import Path
from zlib import crc32

import pytest
from command import Command
from conftest import MakeStorage
from embeddings_server import EmbeddingsServer
from memory_semantic import Memory, ranking
from memory_semantic.limits import INDEXED
from memory_semantic.ranking import score
from plain_vectors import PlainVectors

NOW = datetime(2026, 6, 15, 12, 0, tzinfo=UTC)
WEEK = timedelta(days=7)
MOMENT = timedelta(microseconds=1)
NEW = timedelta(0)


def test_the_last_week_is_boosted() -> None:
    for similarity, age, expected in (
        *((0.5, NEW, 0.6), (0.5, WEEK - MOMENT, 0.6), (0.5, WEEK, 0.5), (0.5, WEEK + MOMENT, 0.5)),
        (0.5, timedelta(days=-400), 0.6),  # from the future: the clock was set back
        *((-0.7, NEW, 0), (1.00002, NEW, 1.2), (1.00002, WEEK, 1.0)),
    ):
        assert score(similarity, NOW - age, NOW) == pytest.approx(expected)


def test_equal_scores_are_ordered_newest_first_then_by_id() -> None:
    alike = [
        Memory(agent_id="sam", content=f"{i}", timestamp=NOW - WEEK * (i // 3), score=-0.5)
        for i in range(9)
    ]
    ranked = ranking.rank(reversed(alike), NOW, limit=9)
    assert ranked == sorted(alike, key=lambda each: (-each.timestamp.timestamp(), each.id))
    assert {each.score for each in ranked} == {0}


@pytest.mark.parametrize("weight", [0, 0.5, 1])
async def test_the_similarity_is_what_the_formula_says(
    make_storage: MakeStorage, weight: float
) -> None:
    storage, texts = make_storage("sam", PlainVectors(), lexical_weight=weight), ["red fox", "dog"]
    await storage.store_many(texts)
    in_none, in_one = (math.log(1 + (2 - n + 0.5) / (n + 0.5)) for n in (0, 1))
    overlap = in_one / (in_one + 3 * in_none)  # "red" is one piece, and "wolf" are three
    asked, *vectors = await PlainVectors().generate_batch(["red wolf", *texts])
    found = {memory.content: memory.similarity for memory in await storage.search("red wolf")}
    for text, vector, shared in zip(texts, vectors, (overlap, 0), strict=True):
        similarity = (ranking.cosine(asked, vector) + weight * shared**2) / (1 + weight)
        assert found[text] == pytest.approx(max(0, similarity), abs=1e-3)


def test_a_question_shares_pieces_with_a_memory() -> None:
    for stored, question in (
        ("데이터베이스를 옮겼다", "새 데이터베이스가 뭐야"),  # other endings
        ("金曜の午後は出荷しない", "金曜日に出荷できるか"),  # no blanks between words
        ("PostgreSQL을 쓴다", "Why PostgreSQL?"),  # an ending after a Latin word
        ("新しい席を5つ", "席が足りない"),  # words of one character
        ("ﾌﾟﾘﾝﾀｰが止まった", "プリンターは"),  # half width
        ("Kühlschrankreparaturtermin", "der Kühlschrank"),
        ("the database", "a databse"),
        *zip(("Cafe\u0301", "STRASSE", "\uff21"), ("caf\u00e9", "stra\u00dfe", "a"), strict=True),
    ):
        assert set(ranking.indexed(stored)) & set(ranking.indexed(question)), question


def test_what_the_pieces_of_a_text_are() -> None:
    for text, pieces in (
        ("Größe, GRÖSSE", "<grö grös röss össe sse>"),
        ("Go to the база!", "<go> <to> <the> <баз база аза>"),
        ("M023-b", "<m02 m023 023> <m023> <b>"),
        ("10.0.0.3", "<10> <0> <3>"),
        ("PostgreSQL을쓰기", "<pos post ostg stgr tgre gres resq esql sql> 을 을쓰 쓰기"),
        ("S3を 席", "<s3> 席"),
    ):
        casefolded = {piece.casefold() for piece in pieces.split()}
        assert ranking.indexed(text) == sorted(crc32(piece.encode()) for piece in casefolded)


async def test_words_are_found_inside_others_and_names_exactly(make_storage: MakeStorage) -> None:
    """In a compound, and with a typing error."""
    storage = make_storage(embedding_model="static", lexical_weight=1)
    memories = {
        "Kühlschrank": "Freitag ist der Kühlschrankreparaturtermin",
        "the databse": "They moved the database to another machine",
        "ticket AB-1023": "In ticket AB-1023 they said yes",
    }
    others = ["The garden needs water", "In ticket AB-10234 they said no", "AB-2023 is a ticket"]
    await storage.store_many([*memories.values(), *others])
    for question, text in memories.items():
        assert (await storage.search(question))[0].content == text


def test_common_words_are_left_out_of_what_is_embedded() -> None:
    common = set(ranking.indexed("what does Caroline"))
    for question, embedded in (
        ("What does Caroline's sister do?", "'s sister do?"),
        ("WHAT sister, does Caroline know?", "sister, know?"),
        ("What does Caroline do?", "What does Caroline do?"),  # one word would be left
        ("Which sister knows?", "Which sister knows?"),
        ("what does caroline", "what does caroline"),
        ("does Anna を know?", "Anna を know?"),  # of which no piece is made
    ):
        assert ranking.without_common(question, common) == embedded


def test_shared_words_count_for_most_where_the_built_in_model_cannot_read() -> None:
    assert ranking.weight_of("데이터베이스가 뭐였지?", 1.0) > 10
    assert ranking.weight_of("PostgreSQL은 어디에 있어?", 1.0) > 10
    assert ranking.weight_of("What does 設定 mean in the settings?", 1.0) == 1.0
    assert ranking.weight_of("Wie heißt die Größe?", 0.5) == 0.5
    assert ranking.weight_of("데이터베이스가 뭐였지?", 0.0) == 0.0


def words(root: Path) -> int:
    """By which version the store keeps the words of its texts; 0 if it does not."""
    return json.loads((root / "sam/qdrant.db/manifest.json").read_text())["words"]


async def test_common_words_are_left_out_of_what_a_service_embeds(
    make_storage: MakeStorage, server: EmbeddingsServer
) -> None:
    storage = make_storage(embedding_model="m", base_url=server.base_url, lexical_weight=1)
    await storage.store_many([f"the pool of T{i}" for i in range(19)])
    question = "is the pool of T7 full"
    for others, asked in ((0, question), (1, "is T7 full"), (60, question)):
        await storage.store_many([f"note {i}" for i in range(others)])
        await storage.search(question)
        assert server.requests[-1]["input"] == [asked]


async def test_without_words_only_the_meaning_ranks(make_storage: MakeStorage, root: Path) -> None:
    for agent, weight in (("sam", None), ("bob", 0.5)):
        storage = make_storage(agent, PlainVectors(), lexical_weight=weight)
        await storage.store_many(["?!", "one", "two"])
        assert (await storage.search("?!"))[0].score == pytest.approx(1.2, abs=1e-3)
    assert words(root) == 0


@pytest.mark.parametrize("version", [0, INDEXED + 1])
async def test_a_memory_without_words_or_with_those_of_another_version_gets_them_from_reembed(
    make_storage: MakeStorage, root: Path, command: Command, version: int
) -> None:
    by_meaning = make_storage(lexical_weight=0)
    first = make_storage() if version else by_meaning
    await first.store("The pool holds ten.")
    await first.close()
    file = root / "sam/qdrant.db/manifest.json"
    file.write_text(file.read_text().replace(f'"words": {INDEXED}', f'"words": {version}'))
    await by_meaning.store("Tea at four.")
    question = "how many does the pool hold"
    for weight in (0.5, 1):
        storage = make_storage(lexical_weight=weight)
        assert await storage.search(question) == await by_meaning.search(question)
    findings = await asyncio.to_thread(command.json, "doctor", "--offline")
    [finding] = [each for each in findings if each["subject"] == "words"]
    assert finding["mend"].startswith("agent-memory reembed --model local")
    before = {memory.id: memory for memory in await storage.get_recent()}
    assert words(root) == version and await storage.check() == []

    await asyncio.to_thread(command.run, "reembed", "--model", "local", "--yes")
    [found] = await storage.search("ten pool holds the", limit=1)
    assert words(root) == INDEXED and (found.score or 0) > 1.15
    assert {memory.id: memory for memory in await storage.get_recent()} == before
    assert await storage.check() == []


async def test_the_check_compares_the_words_with_the_text(
    make_storage: MakeStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as wrong:
        wrong.setattr("memory_semantic.files.edge.indexed", lambda text: [1])
        await make_storage().store("Tea at four.")
    [problem] = await make_storage().check()
    assert "its words are not those of its text" in problem
