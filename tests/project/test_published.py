"""The figures beside those that others publish: how the sets are read, what is counted, and that
the page says what was measured.
"""

import json
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import published_sets as sets
import pytest
from local_server import LocalServer
from published import OURS, THEIRS, by_store, counted
from published_answers import Model, answered
from published_sets import Asked, Conversation
from scripted import REPOSITORY

RESULTS = json.loads((REPOSITORY / "docs/benchmarks/published.json").read_text())
PAGE = (REPOSITORY / "docs/published.md").read_text()
# What MemPalace publishes of the same model by the same measure: benchmarks/BENCHMARKS.md there.
PUBLISHED = {"by session": 60.3, "by turn": 48.0}


@pytest.mark.parametrize(("by", "theirs"), PUBLISHED.items())
def test_the_same_model_comes_out_as_others_publish_it(by: str, theirs: float) -> None:
    row = RESULTS["LoCoMo"]["tables"][by][THEIRS]
    assert row["questions"] == 1986
    assert 100 * row["share@10"] == pytest.approx(theirs, abs=1)
    assert f"| {theirs} |" in PAGE, "the published figure stands beside ours"


def test_the_page_says_that_no_model_has_answered_yet() -> None:
    answered = [
        row
        for each in RESULTS.values()
        for rows in each["tables"].values()
        for row in rows.values()
    ]
    assert not any("answers" in row for row in answered)
    assert "scripted answerer" in PAGE


def talk(*texts: str, session: int = 1) -> dict[str, Any]:
    turns = [
        {"speaker": "Ann", "dia_id": f"D{session}:{n}", "text": text}
        for n, text in enumerate(texts, 1)
    ]
    return {
        f"session_{session}_date_time": f"1:56 pm on {session} May, 2023",
        f"session_{session}": turns,
    }


@pytest.fixture
def locomo(tmp_path: Path) -> Path:
    qa = [
        {"question": "Which dog?", "answer": "Rex", "category": 4, "evidence": ["D1:1", "D2:1"]},
        {"question": "Which cat?", "answer": "Tom", "category": 1, "evidence": ["D1:2", "D9:9"]},
        {"question": "Which cow?", "category": 5, "evidence": []},
    ]
    conversation = talk("My dog is Rex.", "My cat is Tom.") | talk("Rex barks.", session=2)
    file = tmp_path / "locomo10.json"
    file.write_text(json.dumps([{"conversation": conversation, "qa": qa}]))
    return file


def test_locomo_by_session_and_by_turn(locomo: Path) -> None:
    [by_session] = sets.locomo(locomo, "session")
    assert [document.name for document in by_session.documents] == ["D1", "D2"]
    assert by_session.documents[0].text == 'Ann said, "My dog is Rex."\nAnn said, "My cat is Tom."'
    assert [sorted(asked.evidence) for asked in by_session.questions] == [["D1", "D2"], ["D1"], []]
    [by_turn] = sets.locomo(locomo, "turn")
    assert [(len(asked.evidence), asked.cited) for asked in by_turn.questions] == [
        (2, 2),
        (1, 2),  # one turn that they cite does not exist
        (0, 0),
    ]


def test_the_corrections_of_the_audit_replace_evidence_and_answer(
    locomo: Path, tmp_path: Path
) -> None:
    error = {
        "question_id": "locomo_0_qa1",
        "question": "Which cat?",
        "correct_evidence": ["D2:1"],
        "correct_answer": "Tim",
    }
    corrections = tmp_path / "errors.json"
    corrections.write_text(json.dumps([error]))
    [given] = sets.locomo(locomo, "turn", corrections)
    assert (given.questions[1].answer, given.questions[1].evidence) == ("Tim", {"D2:1"})
    corrections.write_text(json.dumps([error | {"question": "Another?"}]))
    with pytest.raises(ValueError, match="is not of"):
        list(sets.locomo(locomo, "turn", corrections))


def test_longmemeval_by_session_and_by_turn(tmp_path: Path) -> None:
    turn = {"role": "user", "content": "I like tea.", "has_answer": True}
    item = {
        "question_id": "q1",
        "question_type": "single-session-user",
        "question": "What do I like?",
        "answer": "tea",
        "question_date": "2023/05/30 (Tue) 23:40",
        "haystack_session_ids": ["s1", "s2"],
        "haystack_dates": ["2023/05/20 (Sat) 02:21", "2023/05/21 (Sun) 02:21"],
        "haystack_sessions": [[turn], [{"role": "assistant", "content": "x" * 15_000}]],
        "answer_session_ids": ["s1"],
    }
    file = tmp_path / "longmemeval_s.json"
    file.write_text(json.dumps([item, item | {"question_id": "q1_abs"}]))
    first, without = sets.longmemeval(file, "session")
    assert [document.name for document in first.documents] == ["s1", "s2", "s2"]
    assert first.questions[0].evidence == {"s1"} and not without.questions[0].evidence
    first, _ = sets.longmemeval(file, "turn")
    assert first.questions[0].evidence == {"s1:0"}


def test_beam_by_session_and_by_turn(tmp_path: Path) -> None:
    folder = tmp_path / "1"
    (folder / "probing_questions").mkdir(parents=True)
    messages = [
        {"role": "user", "id": 0, "time_anchor": "March-15-2024", "content": "I like tea."},
        {"role": "assistant", "id": 1, "content": "Noted."},
    ]
    (folder / "chat.json").write_text(json.dumps([{"batch_number": 1, "turns": [messages]}]))
    asked = {
        "contradiction_resolution": [
            {"question": "Tea?", "ideal_answer": "Yes", "source_chat_ids": {"first": [0], "b": [1]}}
        ],
        "abstention": [{"question": "Milk?", "ideal_response": "Unknown"}],
    }
    (folder / "probing_questions/probing_questions.json").write_text(json.dumps(asked))
    [by_turn] = sets.beam(tmp_path, "turn")
    assert [sorted(each.evidence) for each in by_turn.questions] == [["0", "1"], []]
    assert [each.answer for each in by_turn.questions] == ["Yes", "Unknown"]
    assert by_turn.documents[1].time.date().isoformat() == "2024-03-15"
    [by_session] = sets.beam(tmp_path, "session")
    assert by_session.questions[0].evidence == {"batch 1"}


async def test_what_a_store_finds_is_counted(locomo: Path) -> None:
    [given] = sets.locomo(locomo, "turn")
    row = counted(await by_store(given, None))
    assert (row["questions"], row["with evidence"]) == (3, 2)
    assert (row["any@10"], row["all@10"]) == (2, 1)
    assert row["share@10"] == pytest.approx((1 + 0.5 + 1) / 3, abs=1e-4)


async def test_a_search_that_finds_nothing_is_an_error(locomo: Path) -> None:
    [given] = sets.locomo(locomo, "turn")
    empty = Conversation([], given.questions, given.now)
    with pytest.raises(ValueError, match="found nothing"):
        await by_store(empty, None)


class Scripted(LocalServer):
    """Answers a chat as `script` says, in place of an answerer or a judge."""

    def __init__(self, script: Callable[[str], str]) -> None:
        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
                reply = {"role": "assistant", "content": script(asked["messages"][0]["content"])}
                choice = {"index": 0, "message": reply, "finish_reason": "stop"}
                body = {"id": "1", "object": "chat.completion", "created": 0, "model": "scripted"}
                text = json.dumps(body | {"choices": [choice]}).encode()
                self.send_response(200)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            def log_message(self, format: str, *args: Any) -> None:
                pass

        super().__init__(Handler)


def asked(answer: str) -> Asked:
    return Asked("4", "Which dog?", answer, frozenset({"D1:1"}), 1)


def test_every_miss_is_put_down_to_the_search_or_to_the_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    found = [
        (asked("Rex"), ["My dog is Rex."], True),
        (asked("Rex"), ["My cat is Tom."], False),
        (asked("Max"), ["My dog is Rex."], True),
        (asked("Rex"), ["My dog is Rex."], False),
    ]

    def answerer(prompt: str) -> str:
        return "Rex" if "Rex" in prompt else "I do not know"

    def judge(prompt: str) -> str:
        return "Yes." if "Correct answer: Rex\nGiven answer: Rex" in prompt else "no"

    with Scripted(answerer) as one, Scripted(judge) as other:
        models = Model(f"{one.url}/v1", "a"), Model(f"{other.url}/v1", "j")
        result = answered(found, *models)
    assert result == {
        "answerer": "a",
        "judge": "j",
        "right": 1,
        "search": 1,
        "answer": 1,
        "lucky": 1,
    }


def test_ours_is_shown_in_every_table() -> None:
    assert all(OURS in rows for each in RESULTS.values() for rows in each["tables"].values())
