# pyright: reportMissingImports=false
"""Does a search find the right memory? On our own labelled set, and on LoCoMo's if it is given.

The set, and the rule that splits it, are described in `recall/README.md`. Ours is measured as its
users have it, through `MemoryStorage`; to see the cosine alone, the clock is set to a day when
nothing is recent. `uv run benchmarks/run.py --parts recall` runs it.
"""

import asyncio
import json
import logging
import re
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
from memory_semantic import EmbeddingGenerator, Memory, MemoryStorage
from rank_bm25 import BM25Okapi
from scoring import DEPTH, Answer, Question, differences, estimate, score, scores, separation

FOLDER = Path(__file__).with_name("recall")
NOW = datetime(2026, 11, 20, 20, tzinfo=UTC)
WEEK = timedelta(days=7)
LONG = timedelta(days=3650)  # after which nothing is recent, so that no score is raised
WEIGHT = 0.3
WEIGHTS = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.7, 1.0)
# Category numbers of LoCoMo, as its authors use them; those of 5 have no answer in the text.
LOCOMO = {1: "multi-hop", 2: "temporal", 3: "open-domain", 4: "single-hop"}

COSINE, RECENCY, WORDS = "cosine", "with recency", "with recency and shared words"
LOCAL = "built-in"

Log = Callable[[str], None]


def measure(
    endpoint: tuple[str, str] | None = None, locomo: Path | None = None, log: Log = print
) -> dict[str, Any]:
    """Everything about recall; `endpoint` is the address of an OpenAI-compatible service and the
    name of a model there, `locomo` the file of that set.
    """
    logging.getLogger("memory_semantic").setLevel(logging.ERROR)
    memories, questions = _our_set()
    reported = [question for question in questions if not for_tuning(question)]
    tuning = [question for question in questions if for_tuning(question)]
    found = {"BM25": _bm25(memories, reported)}
    log(f"recall: {len(memories)} memories, {len(questions)} questions")
    with _Store({"embedding_model": "local"}, memories) as store:
        found |= _ours(LOCAL, store, reported, NOW)
        curve = _tuning(store, tuning)
        recency = _recency(store, memories, questions)
    if endpoint:
        log(f"recall: {endpoint[1]}")
        with _Store({"base_url": endpoint[0], "embedding_model": endpoint[1]}, memories) as store:
            found |= _ours(endpoint[1], store, reported, NOW)
    best = found[f"{LOCAL}, {WORDS}"]
    return {
        "set": {"memories": len(memories), "questions": _sizes(questions)},
        "methods": list(found),
        "scores": {method: scores(answers) for method, answers in found.items()},
        "tuning": curve,
        "differences": [
            {"what": what, "kind": kind, "recall@5": gain}
            for what, one, other in (
                ("shared words against none", WORDS, RECENCY),
                ("recency against cosine alone", RECENCY, COSINE),
            )
            for kind, gain in differences(
                _answerable(found[f"{LOCAL}, {one}"]), _answerable(found[f"{LOCAL}, {other}"])
            ).items()
        ],
        "recency": recency,
        "none": {
            "auc": separation(
                [answer.top for answer in best if answer.question.answers],
                [answer.top for answer in best if not answer.question.answers],
            )
        },
        "locomo": _locomo(locomo, endpoint, log) if locomo else None,
    }


def for_tuning(question: Question) -> bool:
    """The rule of `recall/README.md`; all other questions are reported."""
    return int(sha256(question.text.encode()).hexdigest()[0], 16) < 6


def _our_set() -> tuple[list[Memory], list[Question]]:
    entries = [json.loads(line) for line in (FOLDER / "memories.jsonl").open()]
    texts = {entry["id"]: entry["content"] for entry in entries}
    memories = [
        Memory(
            agent_id="recall",
            content=entry["content"],
            timestamp=datetime.fromisoformat(entry["date"]),
            tags=entry["tags"],
        )
        for entry in entries
    ]
    questions = [json.loads(line) for line in (FOLDER / "questions.jsonl").open()]
    return memories, [
        Question(
            each["kind"], each["question"], frozenset(texts[answer] for answer in each["answers"])
        )
        for each in questions
    ]


def _sizes(questions: Sequence[Question]) -> dict[str, dict[str, int]]:
    counts = Counter((question.kind, for_tuning(question)) for question in questions)
    kinds = dict.fromkeys(question.kind for question in questions)
    return {
        kind: {"tune": counts[kind, True], "report": counts[kind, False]}
        for kind in sorted(kinds, key=lambda kind: kind == "none")
    }


class _Store:
    """A temporary store of `memories`, to be asked at any time with any weight of the words."""

    def __init__(self, config: dict[str, Any], memories: list[Memory]) -> None:
        self._folder = tempfile.TemporaryDirectory()
        self._config = {**config, "storage_root": self._folder.name}
        self._model = _Remembering(config["embedding_model"], base_url=config.get("base_url"))
        for start in range(0, len(memories), 1000):
            asyncio.run(self._storage(WEIGHT, NOW).restore(memories[start : start + 1000]))

    def __enter__(self) -> "_Store":
        return self

    def __exit__(self, *_: object) -> None:
        self._folder.cleanup()

    def ask(
        self,
        questions: Sequence[Question],
        weight: float,
        now: datetime,
        since: datetime | None = None,
    ) -> list[Answer]:
        storage = self._storage(weight, now)

        async def ask_all() -> list[Answer]:
            answers = []
            for question in questions:
                found = await storage.search(question.text, DEPTH, since=since)
                top = max((memory.score or 0 for memory in found), default=0.0)
                answers.append(Answer(question, [memory.content for memory in found], top))
            return answers

        return asyncio.run(ask_all())

    def _storage(self, weight: float, now: datetime) -> MemoryStorage:
        config = {**self._config, "lexical_weight": weight}
        return MemoryStorage("recall", config, embeddings=self._model, clock=lambda: now)


class _Remembering(EmbeddingGenerator):
    """A model that is asked once for each text: a service costs time and money."""

    _known: dict[str, list[float]]

    async def _embed(self, texts: list[str]) -> list[list[float]]:
        known = self.__dict__.setdefault("_known", {})
        if fresh := [text for text in dict.fromkeys(texts) if text not in known]:
            known |= dict(zip(fresh, await super()._embed(fresh), strict=True))
        return [known[text] for text in texts]


def _ours(
    name: str, store: _Store, questions: Sequence[Question], now: datetime
) -> dict[str, list[Answer]]:
    return {
        f"{name}, {COSINE}": store.ask(questions, 0, now + LONG),
        f"{name}, {RECENCY}": store.ask(questions, 0, now),
        f"{name}, {WORDS}": store.ask(questions, WEIGHT, now),
    }


def _bm25(memories: Sequence[Memory], questions: Sequence[Question]) -> list[Answer]:
    def words(text: str) -> list[str]:
        return re.findall(r"\w+", text.casefold())

    index = BM25Okapi([words(memory.content) for memory in memories])
    answers = []
    for question in questions:
        relevance = index.get_scores(words(question.text))
        order = np.argsort(-relevance, kind="stable")[:DEPTH]
        texts = [memories[i].content for i in order]
        answers.append(Answer(question, texts, float(relevance[order[0]])))
    return answers


def _answerable(answers: Sequence[Answer]) -> list[Answer]:
    return [answer for answer in answers if answer.question.answers]


def _tuning(store: _Store, questions: Sequence[Question]) -> list[dict[str, float]]:
    """What each weight of the words finds, on the part to tune on."""
    curve = []
    for weight in WEIGHTS:
        found = scores(store.ask(questions, weight, NOW))
        curve.append(
            {
                "weight": weight,
                "recall@5": found["all"]["recall@5"][0],
                **{kind: each["recall@5"][0] for kind, each in found.items() if kind != "all"},
            }
        )
    return curve


def _recency(
    store: _Store, memories: Sequence[Memory], questions: Sequence[Question]
) -> dict[str, Any]:
    """What the boost gains where the answer is of the last week, and loses where it is older. It is
    V1's and was not tuned, so that all questions count.
    """
    fresh = {memory.content for memory in memories if memory.timestamp > NOW - WEEK}
    questions = [question for question in questions if question.answers]
    with_boost = store.ask(questions, WEIGHT, NOW)
    without = store.ask(questions, WEIGHT, NOW + LONG)
    gains: dict[bool, list[float]] = {True: [], False: []}
    for one, other in zip(with_boost, without, strict=True):
        gain = score("recall@5", one) - score("recall@5", other)
        gains[one.question.answers <= fresh].append(gain)
    gain, loss = estimate(gains[True]), estimate([-each for each in gains[False]])
    recent = [question for question in questions if question.kind == "recent"]
    return {
        "questions": {"recent": len(gains[True]), "other": len(gains[False])},
        "gain_recent": gain,
        "loss_other": loss,
        "pays_from_share": loss[0] / (gain[0] + loss[0]) if gain[0] > 0 and loss[0] > 0 else None,
        "with_since": scores(store.ask(recent, WEIGHT, NOW, since=NOW - WEEK))["all"],
        "without_since": scores(store.ask(recent, WEIGHT, NOW))["all"],
    }


# LoCoMo (Maharana et al. 2024): ten long conversations. What was said is what is remembered, the
# turns that its authors name as evidence are the answers.


def _locomo(file: Path, endpoint: tuple[str, str] | None, log: Log) -> dict[str, Any]:
    found: dict[str, list[Answer]] = {}
    for sample in json.loads(file.read_text()):
        memories, questions, now = _conversation(sample)
        log(f"LoCoMo {sample['sample_id']}: {len(memories)} turns, {len(questions)} questions")
        results = {"BM25": _bm25(memories, questions)}
        with _Store({"embedding_model": "local"}, memories) as store:
            results |= _ours(LOCAL, store, questions, now)
        if endpoint:
            model = {"base_url": endpoint[0], "embedding_model": endpoint[1]}
            with _Store(model, memories) as store:
                results |= _ours(endpoint[1], store, questions, now)
        for method, answers in results.items():
            found.setdefault(method, []).extend(answers)
    return {
        "file": file.name,
        "scores": {method: scores(answers) for method, answers in found.items()},
    }


def _conversation(sample: dict[str, Any]) -> tuple[list[Memory], list[Question], datetime]:
    talk, turns = sample["conversation"], {}
    now = datetime.min.replace(tzinfo=UTC)
    for session in (key for key in talk if re.fullmatch(r"session_\d+", key)):
        when = datetime.strptime(talk[f"{session}_date_time"], "%I:%M %p on %d %B, %Y")
        now = max(now, when.replace(tzinfo=UTC))
        for turn in talk[session]:
            said = f"{turn['speaker']}: {turn['text']} {turn.get('blip_caption', '')}".strip()
            turns[turn["dia_id"]] = Memory(
                agent_id="recall", content=said, timestamp=when.replace(tzinfo=UTC)
            )
    questions = []
    for each in sample["qa"]:
        named = re.findall(r"D\d+:\d+", " ".join(each.get("evidence", [])))
        answers = frozenset(turns[name].content for name in named if name in turns)
        if each["category"] in LOCOMO and answers:
            questions.append(Question(LOCOMO[each["category"]], each["question"], answers))
    return list(turns.values()), questions, now
