# /// script
# requires-python = ">=3.11"
# dependencies = ["amplifier-module-tool-memory-semantic", "numpy>=2"]
#
# [tool.uv.sources.amplifier-module-tool-memory-semantic]
# path = "../modules/tool-memory-semantic"
# editable = true
# ///
# pyright: reportMissingImports=false
"""What the ranking of older designs would find: `uv run benchmarks/older_designs.py`, seconds.

Those designs multiply the similarity by a decay with age and by a boost for each time that a memory
was found, and leave out what is less similar than a threshold. Each is computed for all memories of
our own set, on its reported questions, from the similarity that ranks today and from the cosine
alone. A memory is found by the questions to tune on, which are asked before, again and again. With
`--locomo FILE` the decay is also measured on LoCoMo's conversations, with `--endpoint URL MODEL`
another embedding model. docs/v1.md quotes the tables.
"""

import argparse
import itertools
import logging
import random
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from exact import COSINE, WORDS, Exact, Method, Model
from recall_sets import Set, for_tuning, locomo, own
from results import estimate_text, table
from scoring import Answer, differences, scores

DECAYS = (0.1, 0.01, 0.001)  # lost a day, as 1 / (1 + decay x days); the designs have 0.1
BOOSTS = (0.05, 0.01)  # gained each time that a memory was found; the designs have 0.05
SEARCHES = (120, 1_200)  # before the questions
THRESHOLDS = (0.75, 0.5, 0.25)  # cosines; the designs have 0.75
SHOWN = 5  # memories of a search count as found

# What is multiplied with the similarity of each memory.
Rules = dict[str, np.ndarray]


def compared(model: Model, sets: Sequence[Set], before: Set | None = None) -> str:
    """What each rule finds, with the similarity of today and with the cosine alone. `before` holds
    the questions that were asked before; without it, boosts are left out.
    """
    rows: dict[str, list[str]] = {}
    for method in (WORDS._replace(recency=False), COSINE):
        found = answers(model, method, sets, before)
        plain = found["similarity alone"]
        for name, each in found.items():
            gained = differences(each, plain)["all"]
            cells = [estimate_text(scores(each)["all"]["recall@5"]), estimate_text(gained, True)]
            rows.setdefault(name, [name]).extend(cells)
    return table(["", "words and meaning", "gain", "cosine alone", "gain"], rows.values())


def answers(
    model: Model, method: Method, sets: Sequence[Set], before: Set | None
) -> dict[str, list[Answer]]:
    found: dict[str, list[Answer]] = {}
    for given in sets:
        exact, by_rule = Exact(model, given), rules(model, method, given, before)
        for question, similarity in zip(given.questions, exact.scores(method), strict=True):
            if not question.answers:
                continue
            for name, factors in by_rule.items():
                ranked = np.maximum(similarity, 0.0) * factors
                found.setdefault(name, []).append(exact.best(question, ranked.tolist()))
    return found


def rules(model: Model, method: Method, given: Set, before: Set | None) -> Rules:
    days = np.array([(given.now - time).days for time in given.times])
    found: Rules = {
        "similarity alone": np.ones(len(days)),
        "1.2 times if younger than 7 days": np.where(days < 7, 1.2, 1.0),
    }
    found |= {f"decay {decay:g}": 1 / (1 + decay * days) for decay in DECAYS}
    if before:
        for boost, searches in itertools.product(BOOSTS, SEARCHES):
            counts = found_before(Exact(model, before), method, before, boost, searches)
            found[f"boost {boost:g}, {searches:,} searches"] = 1 + boost * counts
    return found


def found_before(
    exact: Exact, method: Method, given: Set, boost: float, searches: int
) -> np.ndarray:
    """How often each memory was found by so many searches, each boosted by those before it."""
    counts = np.zeros(len(given.texts))
    similarities = [np.maximum(each, 0.0) for each in exact.scores(method)]
    for similarity in random.Random(0).choices(similarities, k=searches):
        counts[np.argsort(-similarity * (1 + boost * counts))[:SHOWN]] += 1
    return counts


def left(model: Model, given: Set) -> str:
    """What a threshold on the cosine leaves of the answers, and how many questions get none."""
    exact = Exact(model, given)
    asked = zip(given.questions, exact.scores(COSINE), strict=True)
    found = [
        (exact.best(question, cosines), sorted(cosines, reverse=True))
        for question, cosines in asked
        if question.answers
    ]
    rows = []
    for least in THRESHOLDS:
        kept = [
            answer._replace(texts=answer.texts[: sum(cosine >= least for cosine in cosines)])
            for answer, cosines in found
        ]
        empty = sum(not answer.texts for answer in kept) / len(kept)
        recall = estimate_text(scores(kept)["all"]["recall@5"])
        rows.append([f"{least:g}", recall, f"{100 * empty:.0f} %"])
    return table(["least cosine", "recall@5", "questions without any result"], rows)


def main() -> None:
    parser = argparse.ArgumentParser(description="What the ranking of older designs would find.")
    parser.add_argument("--endpoint", nargs=2, metavar=("URL", "MODEL"), help="instead of built-in")
    parser.add_argument("--locomo", type=Path, metavar="FILE", help="the file locomo10.json")
    options = parser.parse_args()
    logging.getLogger("memory_semantic").setLevel(logging.ERROR)
    model = Model(options.endpoint[1], options.endpoint[0]) if options.endpoint else Model("local")
    whole = own()
    given, before = (
        whole.asking([each for each in whole.questions if for_tuning(each) is tuning])
        for tuning in (False, True)
    )
    print(f"recall@5 in %, our own set\n\n{compared(model, [given], before)}\n")
    print(left(model, given))
    if options.locomo:
        print(f"\nLoCoMo\n\n{compared(model, locomo(options.locomo))}")


if __name__ == "__main__":
    main()
