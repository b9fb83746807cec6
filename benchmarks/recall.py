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
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from exact import COSINE, DEFAULT, Exact, Model
from memory_semantic import MemoryStorage
from memory_semantic.limits import LEXICAL_WEIGHT
from rank_bm25 import BM25Okapi
from recall_sets import Set, for_tuning, languages, locomo, own
from report_recall import section
from scoring import DEPTH, Answer, by_kind, differences, score, scores, separation

WEIGHTS = (0.0, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0)
BUILT_IN = "built-in"
# The default, and what each part of it adds, which is only asked of the built-in model.
PARTS = {
    "without shared words": DEFAULT._replace(weight=0.0),
    "without recency": DEFAULT._replace(recency=False),
    "without times": DEFAULT._replace(times=False),
}
METHODS = {"cosine alone": COSINE, "by default": DEFAULT}
CHOSEN = f"{BUILT_IN}, by default"
SHOWN = 5

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
    tuned, reported = (
        whole.asking([each for each in whole.questions if for_tuning(each) is tuning])
        for tuning in (True, False)
    )
    log(f"recall: {len(whole.texts)} memories, {len(whole.questions)} questions")
    found = _found(models, reported)
    default = found[CHOSEN]
    answered, others = (
        [a for a in default if bool(a.question.answers) is y] for y in (True, False)
    )
    kinds = Counter((question.kind, for_tuning(question)) for question in whole.questions)
    return {
        "set": {
            "memories": len(whole.texts),
            "questions": {
                kind: {"tune": kinds[kind, True], "report": kinds[kind, False]}
                for kind in dict.fromkeys(question.kind for question in whole.questions)
            },
        },
        "methods": list(found),
        "scores": {method: scores(answers) for method, answers in found.items()},
        "differences": [
            {"what": f"built-in, {what}", "kind": kind, "recall@5": gain}
            for what in PARTS
            for kind, gain in differences(found[f"{BUILT_IN}, {what}"], default).items()
        ],
        "weight": LEXICAL_WEIGHT,
        "tuning": _tuning(models[BUILT_IN], tuned),
        "none": {"auc": separation([a.top for a in answered], [a.top for a in others])},
        "store": asyncio.run(_store(models[BUILT_IN], reported, default)),
        "languages": _languages(models[BUILT_IN]),
        "locomo": _locomo(locomo_file, models, log) if locomo_file else None,
    }


def _found(models: dict[str, Model], given: Set) -> Found:
    found = {"BM25": _bm25(given)}
    for name, model in models.items():
        exact = Exact(model, given)
        methods = (PARTS | METHODS) if name == BUILT_IN else METHODS
        found |= {f"{name}, {what}": exact.answers(method) for what, method in methods.items()}
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


def _tuning(model: Model, given: Set) -> list[dict[str, float]]:
    """What each weight of the words finds, on the part to tune on."""
    exact = Exact(model, given)
    curve = []
    for weight in WEIGHTS:
        found = scores(exact.answers(DEFAULT._replace(weight=weight)))
        curve.append({"weight": weight, "recall@5": found["all"]["recall@5"][0]})
    return curve


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
        "same": sum(one.texts[:SHOWN] == other.texts[:SHOWN] for one, other in pairs),
        "recall@5": scores(answers)["all"]["recall@5"],
    }


def _languages(model: Model) -> list[dict[str, Any]]:
    """How many questions find their memory first, and among five."""
    rows = []
    for language, given in languages().items():
        found = by_kind(Exact(model, given).answers(DEFAULT))
        for kind, asked in list(found.items())[1:]:
            hits = [sum(score(f"recall@{k}", each) > 0 for each in asked) for k in (1, SHOWN)]
            rows.append({"language": language, "kind": kind, "questions": len(asked), "now": hits})
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
