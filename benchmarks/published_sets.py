"""Readers of the sets that others publish figures of: LoCoMo, LongMemEval and BEAM.

Their files are not here. A conversation becomes documents, one for each session or each turn, and
questions with the names of the documents that hold the answer.
"""

import json
import re
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

LONGEST = 10_000  # characters of a memory; a longer document becomes several of one name


class Document(NamedTuple):
    name: str
    text: str
    time: datetime


class Asked(NamedTuple):
    """A question; `evidence` are the names of the documents that answer it, and `cited` is how many
    its authors name, of which some may not exist.
    """

    kind: str
    text: str
    answer: str
    evidence: frozenset[str]
    cited: int


class Conversation(NamedTuple):
    documents: list[Document]
    questions: list[Asked]
    now: datetime


def locomo(file: Path, by: str, corrections: Path | None = None) -> Iterator[Conversation]:
    """The ten conversations of `locomo10.json` (Maharana et al. 2024), `by` session or turn.
    `corrections` is `errors.json` of the published audit, whose evidence replaces the authors'.
    """
    errors = json.loads(corrections.read_text()) if corrections else []
    correct = {each["question_id"]: each for each in errors}
    for number, sample in enumerate(json.loads(file.read_text())):
        talk, documents = sample["conversation"], []
        for session in (key for key in talk if re.fullmatch(r"session_\d+", key)):
            when = datetime.strptime(talk[f"{session}_date_time"], "%I:%M %p on %d %B, %Y")
            when = when.replace(tzinfo=UTC)
            said = {t["dia_id"]: f'{t["speaker"]} said, "{t["text"]}"' for t in talk[session]}
            if by == "session":
                said = {f"D{session.removeprefix('session_')}": "\n".join(said.values())}
            documents += [Document(name, text, when) for name, text in said.items()]
        questions = []
        for place, each in enumerate(sample["qa"]):
            error = correct.get(f"locomo_{number}_qa{place}")
            if error and error["question"] != each["question"]:
                raise ValueError(f"{corrections} is not of {file}")
            cited = error["correct_evidence"] if error else each.get("evidence", [])
            answer = str(error["correct_answer"] if error else each.get("answer", ""))
            names = set(cited) if by == "turn" else {n for c in cited for n in _sessions(c)}
            known = names & {document.name for document in documents}
            kind = str(each["category"])
            questions.append(Asked(kind, each["question"], answer, frozenset(known), len(names)))
        yield Conversation(documents, questions, _after(documents))


def _sessions(evidence: str) -> list[str]:
    found = re.match(r"(D\d+):", evidence)
    return [found[1]] if found else []


def longmemeval(file: Path, by: str) -> Iterator[Conversation]:
    """The questions of a file of LongMemEval (Wu et al. 2025), each with its own sessions; those
    without an answer (`_abs`) have no evidence.
    """
    for each in json.loads(file.read_text()):
        documents, evidence = [], set()
        names, dates = each["haystack_session_ids"], each["haystack_dates"]
        for name, date, turns in zip(names, dates, each["haystack_sessions"], strict=True):
            when = _long_date(date)
            if by == "session":
                documents += _pieces(name, _talk(turns), when)
                evidence |= {name} & set(each["answer_session_ids"])
                continue
            for number, turn in enumerate(turns):
                documents += _pieces(f"{name}:{number}", _talk([turn]), when)
                evidence |= {f"{name}:{number}"} if turn.get("has_answer") else set()
        evidence = set() if each["question_id"].endswith("_abs") else evidence
        question = Asked(
            each["question_type"],
            each["question"],
            str(each["answer"]),
            frozenset(evidence),
            len(evidence),
        )
        yield Conversation(documents, [question], _long_date(each["question_date"]))


def _long_date(text: str) -> datetime:
    """Such as `2023/05/20 (Sat) 02:21`."""
    return datetime.strptime(re.sub(r" \(\w+\)", "", text), "%Y/%m/%d %H:%M").replace(tzinfo=UTC)


def beam(folder: Path, by: str) -> Iterator[Conversation]:
    """The conversations in a folder such as `chats/100K` of BEAM (Tavakoli et al. 2025). A batch of
    messages counts as a session; a message has the date that was last named.
    """
    for chat in sorted(folder.glob("*/chat.json")):
        documents, when, session_of = [], datetime(2024, 1, 1, tzinfo=UTC), {}
        for batch in json.loads(chat.read_text()):
            messages = [message for turn in batch["turns"] for message in turn]
            for message in messages:
                if anchor := message.get("time_anchor"):
                    when = datetime.strptime(anchor, "%B-%d-%Y").replace(tzinfo=UTC)
                session_of[message["id"]] = f"batch {batch['batch_number']}"
                if by == "turn":
                    documents += _pieces(str(message["id"]), _talk([message]), when)
            if by == "session":
                documents += _pieces(f"batch {batch['batch_number']}", _talk(messages), when)
        asked = json.loads((chat.parent / "probing_questions/probing_questions.json").read_text())
        questions = []
        for kind, each in ((kind, each) for kind, many in asked.items() for each in many):
            ids = set(_numbers(each.get("source_chat_ids")))
            names = {session_of.get(n, "?") if by == "session" else str(n) for n in ids}
            known = frozenset(names & {document.name for document in documents})
            answer = next((each[key] for key in _BEAM_ANSWERS if key in each), "")
            questions.append(Asked(kind, each["question"], str(answer), known, len(names)))
        yield Conversation(documents, questions, _after(documents))


_BEAM_ANSWERS = ("answer", "ideal_answer", "ideal_summary", "ideal_response", "expected_compliance")


def _numbers(found: Any) -> Iterator[int]:
    """The numbers in lists and dicts, whichever a kind of question has."""
    if isinstance(found, int):
        yield found
    elif isinstance(found, dict | list):
        for each in found.values() if isinstance(found, dict) else found:
            yield from _numbers(each)


def _talk(turns: Iterable[dict[str, Any]]) -> str:
    return "\n".join(f"{turn['role']}: {turn['content']}" for turn in turns)


def _pieces(name: str, text: str, when: datetime) -> list[Document]:
    return [
        Document(name, text[start : start + LONGEST], when)
        for start in range(0, len(text), LONGEST)
    ]


def _after(documents: list[Document]) -> datetime:
    return max(document.time for document in documents) + timedelta(days=1)
