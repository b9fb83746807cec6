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
"""Does a search find the right memory? `uv run benchmarks/recall.py`, a minute.

On our own set (see `recall/README.md`), asked through a store as its users have it, with both of
our models. `--model NAME` also measures a model that was fetched to this machine, `--endpoint URL
MODEL` one of a service that is compatible with OpenAI's. `--everyday` asks about an ordinary
person's year instead, and `--languages` about memories in four languages. `--unrelated` shows from
which similarity a memory fits.
`benchmarks/run.py --parts recall` puts our own set on the page.
"""

import argparse
import asyncio
import logging
import re
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import numpy as np
from memory_semantic import MemoryStorage
from memory_semantic.limits import LEXICAL_WEIGHT, LOCAL_MODEL, RECENCY_WINDOW, STATIC_MODEL
from rank_bm25 import BM25Okapi
from recall_sets import FOLDER, ONE_WORD, OTHER_WORDS, Set, everyday, for_tuning, languages, own
from report_recall import section
from scoring import DEPTH, METRICS, Answer, Question, by_kind, score, scores
from tables import table

WEIGHTS = (0.0, 0.25, 0.5, 0.75, 1.0)  # 1 is the most that can be set
# Each adds something to the one before, and the last is a store's own: how much shared words count,
# whether what is of the last week counts more, and whether what is of a time that is named does.
METHODS = {
    "meaning alone": (0.0, False, False),
    "and shared words": (LEXICAL_WEIGHT, False, False),
    "and recency": (LEXICAL_WEIGHT, True, False),
    "and times": (OWN := (LEXICAL_WEIGHT, True, True)),
}
SIMILARITIES = (0.05, 0.06, 0.07, 0.08, 0.09, 0.1, 0.11, 0.12, 0.13, 0.15)
# Whether the answer is found, and whether the question is for tuning.
PARTS = {
    **{(True, True): "answered (tune)", (False, True): "unrelated (tune)"},
    **{(True, False): "answered", (False, False): "unrelated"},
}

Log = Callable[[str], None]
Settings = dict[str, Any]


def measure(
    endpoint: tuple[str, str] | None = None, fetched: Sequence[str] = (), log: Log = print
) -> dict[str, Any]:
    """Everything about recall; `endpoint` is the address of an OpenAI-compatible service and the
    name of a model there, `fetched` are models on this machine.
    """
    models, whole = _models(endpoint, fetched), own()
    tuned, reported = (
        whole.asking([each for each in whole.questions if for_tuning(each) is tuning])
        for tuning in (True, False)
    )
    found = {"BM25": _bm25(reported)}
    for name, settings in models.items():
        log(f"recall: {len(whole.texts)} memories, {len(reported.questions)} questions, {name}")
        tried = METHODS if name == LOCAL_MODEL else {"all of it": OWN}
        answers = asyncio.run(asked(reported, settings, list(tried.values())))
        found |= {f"{name}: {what}": each for what, each in zip(tried, answers, strict=True)}
    tries = [(weight, True, True) for weight in WEIGHTS]
    tuning = asyncio.run(asked(tuned, models[LOCAL_MODEL], tries))
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
        "weight": LEXICAL_WEIGHT,
        "tuning": [
            {"weight": weight, "recall@5": scores(each)["all"]["recall@5"][0]}
            for weight, each in zip(WEIGHTS, tuning, strict=True)
        ],
    }


def _models(endpoint: tuple[str, str] | None, fetched: Sequence[str]) -> dict[str, Settings]:
    """The settings for each model: ours, and the others."""
    logging.getLogger("memory_semantic").setLevel(logging.ERROR)
    here = (STATIC_MODEL, *fetched, LOCAL_MODEL)
    models: dict[str, Settings] = {name: {"embedding_model": name} for name in here}
    if endpoint:
        models[endpoint[1]] = {"base_url": endpoint[0], "embedding_model": endpoint[1]}
    return models


async def asked(
    given: Set, settings: Settings, methods: Sequence[tuple[float, bool, bool]]
) -> list[list[Answer]]:
    """What a store of these memories answers to each question, by each method."""
    found: list[list[Answer]] = []
    with tempfile.TemporaryDirectory() as folder:
        config = {"storage_root": folder, **settings, "lexical_weight": LEXICAL_WEIGHT}
        filled = MemoryStorage("recall", config)
        await filled.restore(given.memories("recall"))
        for weight, recency, times in methods:
            # Nothing is of the last week once that is over.
            now = given.now if recency else given.now + RECENCY_WINDOW + timedelta(days=1)
            config["lexical_weight"] = weight
            storage = MemoryStorage("recall", config, clock=lambda now=now: now)
            found.append([])
            for question in given.questions:
                memories = await storage.search(question.text, DEPTH, prompt=not times)
                texts = [memory.content for memory in memories]
                found[-1].append(Answer(question, texts))
            await storage.close()
        await filled.close()
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
        answers.append(Answer(question, texts))
    return answers


def in_languages(models: dict[str, Settings]) -> str:
    """As Markdown, how many questions in each language find their memory first."""
    rows = []
    for name, settings in models.items():
        for language, given in languages().items():
            [answers] = asyncio.run(asked(given, settings, [OWN]))
            kinds = list(by_kind(answers).values())[1:]
            right = [sum(score("recall@1", each) > 0 for each in kind) for kind in kinds]
            rows.append([name, language, *map(str, right)])
    return table(["model", "language", OTHER_WORDS, ONE_WORD], rows)


def of_a_person(models: dict[str, Settings]) -> str:
    """As Markdown, how many of the everyday questions find an answer first, and among five."""
    rows, given = [], everyday()
    for name, settings in models.items():
        [answers] = asyncio.run(asked(given, settings, [OWN]))
        right = [sum(score(metric, each) > 0 for each in answers) for metric in METRICS]
        rows.append([name, *map(str, right)])
    return table(["model", "first", f"among five, of {len(given.questions)}"], rows)


async def unrelated() -> str:
    """As Markdown, in % and with the built-in model: how many are less similar than each
    similarity. Of the memories that answer a question and are among its first five; and by part, of
    the most similar that is found, by questions that find such a memory, and by others that have
    nothing to do with the memories: with an ordinary person's, too many have.
    """
    others = (FOLDER / "unrelated.txt").read_text().splitlines()
    strange = [Question("unrelated", text, frozenset()) for text in others]
    team = own(), languages()["English"], languages()["German"]
    answers: list[float] = []
    found: dict[tuple[bool, bool], list[float]] = {}
    for given, asked in [*((each, strange) for each in team), (everyday(), [])]:
        with tempfile.TemporaryDirectory() as folder:
            settings = {"storage_root": folder, "embedding_model": LOCAL_MODEL}
            storage = MemoryStorage("recall", settings, clock=lambda now=given.now: now)
            await storage.restore(given.memories("recall"))
            for question in [*given.questions, *asked]:
                five = await storage.search(question.text, 5)
                right = [each.similarity for each in five if each.content in question.answers]
                answers += right
                if right or question in asked:
                    part = found.setdefault((bool(right), for_tuning(question)), [])
                    part.append(max(memory.similarity for memory in five))
            await storage.close()
    columns = {"answers": answers} | {PARTS[part]: found[part] for part in PARTS}
    heads = [f"{name}, {len(values)}" for name, values in columns.items()]
    rows = [
        [f"{least:.2f}", *(f"{100 * np.mean(np.less(v, least)):.1f}" for v in columns.values())]
        for least in SIMILARITIES
    ]
    return table(["similarity below", *heads], rows)


def main() -> None:
    parser = argparse.ArgumentParser(description="Does a search find the right memory?")
    parser.add_argument("--endpoint", nargs=2, metavar=("URL", "MODEL"), help="this model too")
    parser.add_argument("--model", action="append", default=[], metavar="NAME", help="this one too")
    parser.add_argument("--everyday", action="store_true", help="about an ordinary person's year")
    parser.add_argument("--languages", action="store_true", help="in four languages")
    parser.add_argument("--unrelated", action="store_true", help="from where on a memory fits")
    options = parser.parse_args()
    endpoint = tuple(options.endpoint) if options.endpoint else None
    if options.unrelated:
        print(asyncio.run(unrelated()))
    elif options.everyday:
        print(of_a_person(_models(endpoint, options.model)))
    elif options.languages:
        print(in_languages(_models(endpoint, options.model)))
    else:
        print(section(measure(endpoint, options.model)))


if __name__ == "__main__":
    main()
