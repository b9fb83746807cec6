# /// script
# requires-python = ">=3.11"
# dependencies = [
#     "amplifier-module-tool-memory-semantic[fastembed]",
#     "numpy>=2",
#     "rank-bm25>=0.2.2,<0.3",
# ]
#
# [tool.uv.sources.amplifier-module-tool-memory-semantic]
# path = "../modules/tool-memory-semantic"
# editable = true
# ///
# pyright: reportMissingImports=false
"""Does a search find the right memory? `uv run benchmarks/recall.py [--locomo FILE]`, a minute.

On our own set and the four languages (see `recall/README.md`), and on LoCoMo's conversations if its
file `locomo10.json` is given. `--model NAME` also measures a model that was fetched to this
machine, `--endpoint URL MODEL` one of a service that is compatible with OpenAI's. Every ranking is
computed for all memories by its formula (`exact`); the default is compared with a store's answers.
`benchmarks/run.py --parts recall` measures the same and puts it on the page.
"""

import argparse
import asyncio
import logging
import re
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
from exact import COSINE, FORMER, RECENCY, WORDS, Exact, Method, Model, whole_words
from memory_semantic import MemoryStorage
from memory_semantic.limits import LEXICAL_WEIGHT, RECENCY_WINDOW
from rank_bm25 import BM25Okapi
from recall_sets import Set, for_tuning, languages, locomo, own
from report_recall import section
from scoring import DEPTH, Answer, Question, differences, estimate, score, scores, separation

WEIGHTS = (0.0, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0)
BUILT_IN = "built-in"
# The default comes last.
METHODS = {
    "cosine": COSINE,
    "with recency": RECENCY,
    "words as in 1.3": FORMER,
    "with recency and shared words": WORDS,
}
DEFAULT = f"{BUILT_IN}, with recency and shared words"
_SHOWN = 5

Log = Callable[[str], None]
Found = dict[str, list[Answer]]


def measure(
    endpoint: tuple[str, str] | None = None,
    locomo_file: Path | None = None,
    log: Log = print,
    fetched: Sequence[str] = (),
) -> dict[str, Any]:
    """Everything about recall; `endpoint` is the address of an OpenAI-compatible service and the
    name of a model there, `locomo_file` the file of that set, `fetched` models on this machine.
    """
    logging.getLogger("memory_semantic").setLevel(logging.ERROR)
    models = {BUILT_IN: Model("local")}
    if endpoint:
        models[endpoint[1]] = Model(endpoint[1], endpoint[0])
    models |= {name: Model(name) for name in fetched}
    whole = own()
    reported = whole.asking([each for each in whole.questions if not for_tuning(each)])
    log(f"recall: {len(whole.texts)} memories, {len(whole.questions)} questions")
    found = _found(models, reported)
    default = found[DEFAULT]
    return {
        "set": {"memories": len(whole.texts), "questions": _sizes(whole.questions)},
        "methods": list(found),
        "scores": {method: scores(answers) for method, answers in found.items()},
        "tuning": _tuning(models[BUILT_IN], whole),
        "differences": _differences(found),
        "recency": _recency(models[BUILT_IN], whole),
        "none": {
            "auc": separation(
                [answer.top for answer in default if answer.question.answers],
                [answer.top for answer in default if not answer.question.answers],
            )
        },
        "store": asyncio.run(_store(models[BUILT_IN], reported, default)),
        "languages": _languages(models[BUILT_IN]),
        "locomo": _locomo(locomo_file, models, log) if locomo_file else None,
        "weight": LEXICAL_WEIGHT,
    }


def _found(models: dict[str, Model], given: Set) -> Found:
    found = {"BM25": _bm25(given)}
    for name, model in models.items():
        exact = Exact(model, given)
        found |= {f"{name}, {what}": exact.answers(method) for what, method in METHODS.items()}
    return found


def _bm25(given: Set) -> list[Answer]:
    def words(text: str) -> list[str]:
        return re.findall(r"\w+", text.casefold())

    index = BM25Okapi([words(text) for text in given.texts])
    answers = []
    for question in given.questions:
        relevance = index.get_scores(words(question.text))
        order = np.argsort(-relevance, kind="stable")[:DEPTH]
        texts = [given.texts[i] for i in order]
        answers.append(Answer(question, texts, float(relevance[order[0]])))
    return answers


def _sizes(questions: Sequence[Question]) -> dict[str, dict[str, int]]:
    counts = Counter((question.kind, for_tuning(question)) for question in questions)
    kinds = dict.fromkeys(question.kind for question in questions)
    return {
        kind: {"tune": counts[kind, True], "report": counts[kind, False]}
        for kind in sorted(kinds, key=lambda kind: kind == "none")
    }


def _differences(found: Found) -> list[dict[str, Any]]:
    recency, former = (f"{BUILT_IN}, {name}" for name in ("with recency", "words as in 1.3"))
    pairs = (
        ("shared words against none", DEFAULT, recency),
        ("shared words against those of 1.3", DEFAULT, former),
        ("recency against cosine alone", recency, f"{BUILT_IN}, cosine"),
    )
    return [
        {"what": what, "kind": kind, "recall@5": gain}
        for what, one, other in pairs
        for kind, gain in differences(_answered(found[one]), _answered(found[other])).items()
    ]


def _answered(answers: Iterable[Answer]) -> list[Answer]:
    return [answer for answer in answers if answer.question.answers]


def _tuning(model: Model, whole: Set) -> list[dict[str, float]]:
    """What each weight of the words finds, on the part to tune on."""
    exact = Exact(model, whole.asking([each for each in whole.questions if for_tuning(each)]))
    curve = []
    for weight in WEIGHTS:
        found = scores(exact.answers(Method(weight)))
        by_kind = {kind: each["recall@5"][0] for kind, each in found.items() if kind != "all"}
        curve.append({"weight": weight, "recall@5": found["all"]["recall@5"][0], **by_kind})
    return curve


def _recency(model: Model, whole: Set) -> dict[str, Any]:
    """What the boost gains where the answer is of the last week, and loses where it is older. It
    was not tuned, so that all questions count.
    """
    start = whole.now - RECENCY_WINDOW + timedelta(microseconds=1)
    times = zip(whole.texts, whole.times, strict=True)
    fresh = {text for text, time in times if time >= start}
    exact = Exact(model, whole.asking([each for each in whole.questions if each.answers]))
    gains: dict[bool, list[float]] = {True: [], False: []}
    without_boost = exact.answers(WORDS._replace(recency=False))
    for one, other in zip(exact.answers(WORDS), without_boost, strict=True):
        gain = score("recall@5", one) - score("recall@5", other)
        gains[one.question.answers <= fresh].append(gain)
    gain, loss = estimate(gains[True]), estimate([-each for each in gains[False]])
    recent = [question for question in whole.questions if question.kind == "recent"]
    exact = Exact(model, whole.asking(recent))
    return {
        "questions": {"recent": len(gains[True]), "other": len(gains[False])},
        "gain_recent": gain,
        "loss_other": loss,
        "pays_from_share": loss[0] / (gain[0] + loss[0]) if gain[0] > 0 and loss[0] > 0 else None,
        "with_since": scores(exact.answers(WORDS, since=start))["all"],
        "without_since": scores(exact.answers(WORDS))["all"],
    }


async def _store(model: Model, given: Set, expected: Sequence[Answer]) -> dict[str, Any]:
    """What a store answers its users, beside what the formula says."""
    answers = []
    with tempfile.TemporaryDirectory() as folder:
        settings = {"storage_root": folder, "embedding_model": model.generator.model}
        storage = MemoryStorage("recall", settings, clock=lambda: given.now)
        await storage.restore(given.memories("recall"))
        for question in given.questions:
            found = await storage.search(question.text, DEPTH)
            answers.append(Answer(question, [memory.content for memory in found], 0.0))
        await storage.close()
    pairs = zip(answers, expected, strict=True)
    return {
        "questions": len(answers),
        "same": sum(one.texts[:_SHOWN] == other.texts[:_SHOWN] for one, other in pairs),
        "recall@5": scores(answers)["all"]["recall@5"],
    }


def _languages(model: Model) -> list[dict[str, Any]]:
    """How many questions find their memory first, and among five: as in 1.3, and now."""
    rows = []
    for language, given in languages().items():
        found = {
            "former": Exact(model, given, whole_words).answers(FORMER),
            "now": Exact(model, given).answers(WORDS),
        }
        for kind in dict.fromkeys(question.kind for question in given.questions):
            row: dict[str, Any] = {"language": language, "kind": kind}
            for when, answers in found.items():
                asked = [answer for answer in answers if answer.question.kind == kind]
                row["questions"] = len(asked)
                row[when] = [
                    sum(score(metric, answer) > 0 for answer in asked)
                    for metric in ("recall@1", "recall@5")
                ]
            rows.append(row)
    return rows


def _locomo(file: Path, models: dict[str, Model], log: Log) -> dict[str, Any]:
    """With the names of the speakers before what they said, and without."""
    found: dict[bool, Found] = {True: {}, False: {}}
    for names, by_method in found.items():
        for conversation in locomo(file, names=names):
            log(f"LoCoMo: {len(conversation.texts)} turns, {len(conversation.questions)} questions")
            for method, answers in _found(models, conversation).items():
                by_method.setdefault(method, []).extend(answers)
    with_names, nameless = (
        {method: scores(answers) for method, answers in by_method.items()}
        for by_method in found.values()
    )
    return {
        "file": file.name,
        "scores": with_names,
        "nameless": {method: each["all"]["recall@5"] for method, each in nameless.items()},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="Does a search find the right memory?")
    parser.add_argument("--endpoint", nargs=2, metavar=("URL", "MODEL"), help="this model too")
    parser.add_argument("--model", action="append", default=[], metavar="NAME", help="this one too")
    parser.add_argument("--locomo", type=Path, metavar="FILE", help="the file locomo10.json")
    options = parser.parse_args()
    endpoint = tuple(options.endpoint) if options.endpoint else None
    print(section(measure(endpoint, options.locomo, fetched=options.model)))


if __name__ == "__main__":
    main()
