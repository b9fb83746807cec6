"""The person looks the memories through: `review`, and what it remembers."""

import asyncio
import io
import stat
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest
from agent_memory.alike import alike, may_disagree
from agent_memory.cases import find
from command import Command, settings
from memory_semantic import Memory, MemoryStorage, Search
from scripted import REPOSITORY

SAME = ("We chose PostgreSQL for the orders service.", "The orders service uses PostgreSQL.")
DISAGREE = ("The standup is at 9:15.", "The standup takes place at 10:00.")
ALONE = "Anna likes tea with lemon."


class Interrupted(io.BytesIO):
    """Some input, and then a Ctrl-C where more is waited for."""

    def __init__(self, line: str) -> None:
        super().__init__(line.encode())

    def read1(self, size: int | None = -1) -> bytes:
        if not (data := super().read1(-1 if size is None else size)):
            raise KeyboardInterrupt
        return data


@pytest.fixture
def ids(sam: MemoryStorage) -> list[str]:
    """The ids of two pairs, of which the first is the closer, and of one more memory."""

    async def store() -> list[str]:
        tags = [["db"], ["spring"], [], [], []]
        texts = zip((*SAME, *DISAGREE, ALONE), tags, strict=True)
        return [await sam.store(text, labels) for text, labels in texts]

    return asyncio.run(store())


def living(command: Command) -> list[str]:
    return [memory["content"] for memory in command.json("list", "--all")]


def marks(root: Path) -> Path:
    return root / "sam" / "reviewed.txt"


@pytest.mark.usefixtures("ids")
def test_shows_pairs_with_what_they_may_be(command: Command) -> None:
    cases = command.json("review")
    assert [case["kind"] for case in cases] == ["same", "disagree"]
    texts = [tuple(memory["content"] for memory in case["memories"]) for case in cases]
    assert texts == [SAME, DISAGREE]
    assert 1 >= cases[0]["closeness"] > cases[1]["closeness"]
    shown = command.run("review", input="q\n").stdout
    assert "1 of 2  These two say nearly the same" in shown and "2 of 2" not in shown


def test_what_is_kept_is_not_asked_again(command: Command, ids: list[str], root: Path) -> None:
    assert "Decided: 1." in command.run("review", input="k\nl\n").stdout
    assert stat.S_IMODE(marks(root).stat().st_mode) == 0o600
    assert not any(text.encode() in marks(root).read_bytes() for text in SAME)
    assert [case["kind"] for case in command.json("review")] == ["disagree"]
    assert command.json("review", ids[0], ids[4]) == []
    assert [case["kind"] for case in command.json("review", ids[3])] == ["disagree"]
    assert "reviewed" not in command.run("doctor").stdout  # it is a file of ours


def test_a_script_keeps_what_is_about_some_ids(command: Command, ids: list[str]) -> None:
    assert "Kept as they are: 1." in command.run("review", *ids[:2], "--keep").stdout
    assert [case["kind"] for case in command.json("review")] == ["disagree"]
    command.run("review", "--keep", code=2)


@pytest.mark.usefixtures("ids")
@pytest.mark.parametrize(("answer", "holds", "ends"), [("1", 0, 1), ("2", 1, 0)])
def test_one_replaces_the_other(command: Command, answer: str, holds: int, ends: int) -> None:
    command.run("review", input=f"l\n{answer}\n")
    assert DISAGREE[ends] not in living(command) and DISAGREE[holds] in living(command)
    [replaced] = command.json("list", "--replaced")
    assert replaced["content"] == DISAGREE[ends]
    [found, *_] = command.json("search", DISAGREE[ends])
    assert found["content"] == DISAGREE[holds]
    assert len(command.json("review")) == 1


def test_what_replaces_a_rule_is_a_rule(command: Command, ids: list[str]) -> None:
    command.run("pin", ids[2])
    command.run("review", ids[2], input="2\n")
    assert [memory["id"] for memory in command.json("list", "--pinned")] == [ids[3]]


def test_tags_are_merged_and_one_is_forgotten(command: Command, ids: list[str]) -> None:
    earlier = command.json("store", "Orders: MySQL.", "--tag", "old")["memory_id"]
    command.run("store", SAME[1], "--replaces", earlier)
    command.run("review", ids[0], input="m1\ny\n")
    [kept] = [each for each in command.json("list") if each["id"] == ids[0]]
    assert kept["tags"] == ["db", "spring"] and SAME[1] not in living(command)
    [replaced] = command.json("list", "--replaced")  # by the one that is left
    assert replaced["id"] == earlier and ids[0] in command.run("show", earlier).stdout


@pytest.mark.usefixtures("ids")
def test_forgets_the_one_that_is_named(command: Command, root: Path) -> None:
    told = command.run("review", input="f1\ny\nf2\nn\n")
    assert "Decided: 1." in told.stdout and "for good?" in told.stderr
    assert set(living(command)) == {SAME[1], *DISAGREE, ALONE}
    assert not any(SAME[0].encode() in file.read_bytes() for file in root.rglob("*.jsonl"))


def test_a_forget_takes_the_marks_along(command: Command, ids: list[str], root: Path) -> None:
    command.run("review", input="k\nk\n")
    assert len(marks(root).read_text().splitlines()) == 2
    command.run("forget", ids[1], "--yes")
    assert len(marks(root).read_text().splitlines()) == 1
    storage = MemoryStorage("sam", {"storage_root": str(root)})
    asyncio.run(storage.delete([ids[2]]))  # by another program
    command.run("review")
    assert marks(root).read_text() == ""


@pytest.mark.usefixtures("ids")
@pytest.mark.parametrize(("line", "left"), [("k\n", 1), ("m1\n", 2), ("", 2)])
def test_a_ctrl_c_at_any_prompt_ends_it(command: Command, line: str, left: int) -> None:
    told = command.run("review", input=Interrupted(line))
    assert f"Decided: {2 - left}." in told.stdout and "Traceback" not in told.output
    assert len(command.json("review")) == left and len(living(command)) == 5


@pytest.mark.usefixtures("ids")
def test_nobody_there_to_answer_changes_nothing(command: Command) -> None:
    assert "Decided: 0." in command.run("review", input="").stdout
    assert len(command.json("review")) == 2


@pytest.mark.usefixtures("ids")
def test_a_read_only_store_is_only_shown(command: Command, root: Path) -> None:
    settings(read_only="true")
    shown = command.run("review", input="").stdout
    assert "1 of 2" in shown and "2 of 2" in shown and "Decided" not in shown
    assert not marks(root).exists()


def test_what_the_person_did_not_say(command: Command, sam: MemoryStorage) -> None:
    asyncio.run(sam.upsert([DISAGREE[0]], said_by="agent"))
    asyncio.run(sam.upsert([ALONE], said_by="user"))
    [case] = command.json("review")
    assert case["kind"] == "unsaid" and case["memories"][0]["content"] == DISAGREE[0]


def test_a_memory_alone_is_kept_or_forgotten(command: Command, sam: MemoryStorage) -> None:
    for text in (SAME[0], ALONE):
        asyncio.run(sam.upsert([text], said_by="tool"))
    told = command.run("review", input="k\nf\ny\n")
    assert "You did not say this" in told.stdout and living(command) == [ALONE]
    assert command.json("review") == []
    assert "nothing to look through" in command.run("review").stdout


def test_what_no_search_finds() -> None:
    now = datetime(2026, 6, 15, tzinfo=UTC)
    old = now - timedelta(days=200)
    found, never = (
        Memory(agent_id="sam", content=text, timestamp=old) for text in (ALONE, SAME[0])
    )

    def unfound(days: int) -> list[str]:
        search = Search(time=now - timedelta(days=days), ms=1, ids=[])
        searches = [search, Search(time=now, ms=1, ids=[found.id])]
        cases = find([found, never], np.eye(2, dtype=np.float32), searches, now)
        return [memory.content for case in cases for memory in case.memories]

    assert unfound(91) == [SAME[0]]
    assert unfound(89) == []  # it is not known yet
    assert find([found, never], np.eye(2, dtype=np.float32), None, now) == []


def test_what_is_replaced_or_expired_is_not_shown(command: Command, sam: MemoryStorage) -> None:
    async def store() -> None:
        [old] = await sam.upsert([SAME[0]], said_by="agent")
        await sam.upsert([SAME[1]], old.id)

    asyncio.run(store())
    assert command.json("review") == []


def test_few_memories_and_none() -> None:
    assert alike([], np.zeros((0, 3))) == [] and alike(["one"], np.ones((1, 3))) == []
    assert [pair[1:] for pair in alike(["one", "one."], np.ones((2, 3)))] == [(0, 1)]
    assert alike(["", "…"], np.zeros((2, 3))) == []  # nothing to compare


@pytest.mark.parametrize(
    ("one", "other", "disagree"),
    [
        (*DISAGREE, True),
        (*SAME, False),
        ("We deploy on Fridays.", "We don\u2019t deploy on Fridays.", True),
        ("Tests may use mocks.", "Tests must not use mocks.", True),
        ("Wir nutzen Redis.", "Wir nutzen kein Redis.", True),
        ("The limit is 10 MB.", "A limit of 10 MB is set.", False),
    ],
)
def test_guesses_which_may_disagree(one: str, other: str, disagree: bool) -> None:
    assert may_disagree(one, other) == disagree == may_disagree(other, one)


def test_shows_what_was_planted(monkeypatch: pytest.MonkeyPatch) -> None:
    """At least 120 of 150 pairs, among 2,000 memories, within the first 200."""
    monkeypatch.syspath_prepend(str(REPOSITORY / "benchmarks"))
    sys.modules.pop("review", None)
    import review  # pyright: ignore[reportMissingImports] - benchmarks/review.py

    planted, distractors = review.planted(), review.distractors()
    assert len(planted) == 150 and 300 + len(distractors) >= review.SIZE == 2_000
    shown = review.shown()
    assert len(shown) == 200 and sum(map(bool, shown)) >= 120
