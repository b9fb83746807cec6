# pyright: reportMissingImports=false
"""Does a search find the right memory? On the sets in `recall/`, asked through a store as its users
have it, with both built-in models, and with others that `--model` names.
"""

import asyncio
import json
import logging
import re
import statistics
import tempfile
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from itertools import pairwise
from typing import Any

import numpy as np
import tokens
from memory_semantic import MemoryStorage
from memory_semantic.answers import newer_first
from memory_semantic.limits import (
    LEXICAL_WEIGHT,
    LOCAL_MODEL,
    MAX_RESULTS,
    RECENCY_WINDOW,
    STATIC_MODEL,
)
from memory_semantic.links import link
from memory_semantic.memory import Memory
from memory_semantic.store import Store
from page import Log, Options, Row, of, strong, table
from recall_sets import (
    FOLDER,
    LANGUAGES,
    LONG_AGO,
    METRICS,
    NOW,
    Answer,
    Question,
    Set,
    developer,
    everyday,
    for_tuning,
    languages,
    own,
    rows,
    score,
    scores,
)

# Each adds something to the one before, and the last is a store's own: how much shared words count,
# whether what is of the last week counts more, and whether what is of a time that is named does.
METHODS = {
    "meaning alone": (0.0, False, False),
    "and shared words": (LEXICAL_WEIGHT, False, False),
    "and recency": (LEXICAL_WEIGHT, True, False),
    "and times": (OWN := (LEXICAL_WEIGHT, True, True)),
}
LIMITS = (1, 2, 3, 5, 8, 12, 20)  # results of a search, for what it finds against what it costs
DEFAULT = f"{LOCAL_MODEL}: and times"
Settings = dict[str, Any]


def measure(options: Options, log: Log) -> Row:
    """Everything about recall, ready for JSON; see `blocks`."""
    logging.getLogger("memory_semantic").setLevel(logging.ERROR)
    names = (STATIC_MODEL, *options.model, LOCAL_MODEL)
    models: dict[str, Settings] = {name: {"embedding_model": name} for name in names}
    whole = own()
    reported = whole.asking(each for each in whole.questions if not for_tuning(each))
    found, others = {"BM25": _bm25(reported)}, dict[str, Row]()
    for name, settings in models.items():
        log(f"recall: {name}")
        tried = METHODS if name == LOCAL_MODEL else {"all of it": OWN}
        tried = {"and times": OWN} if options.quick and name == LOCAL_MODEL else tried
        answers = asyncio.run(asked(reported, settings, tried.values()))
        found |= {f"{name}: {what}": each for what, each in zip(tried, answers, strict=True)}
        others[name] = {
            language: _first_of_kinds(asyncio.run(asked(given, settings, [OWN]))[0])
            for language, given in languages().items()
        }
        for which, given in {"developer": developer(), "everyday": everyday()}.items():
            [answers] = asyncio.run(asked(given, settings, [OWN]))
            others[name][which] = [_right(metric, answers) for metric in METRICS]
    log("recall: corrections")
    return {
        "scores": {method: scores(answers) for method, answers in found.items()},
        "limits": {method: _by_limit(answers) for method, answers in found.items()},
        "others": others,
        "corrections": asyncio.run(_corrections(reported)) | asyncio.run(_changed()),
    }


@asynccontextmanager
async def filled(
    memories: Iterable[Memory], **settings: Any
) -> AsyncIterator[Callable[..., MemoryStorage]]:
    """What opens a store of these memories, with the built-in model unless the settings say so."""
    with tempfile.TemporaryDirectory() as folder:
        config = {"storage_root": folder, "embedding_model": LOCAL_MODEL, **settings}

        def storage(now: Any = NOW, **more: Any) -> MemoryStorage:
            return MemoryStorage("recall", config | more, clock=lambda: now)

        first = storage()
        await first.restore([*memories])
        yield storage
        await first.close()


async def asked(
    given: Set, settings: Settings, methods: Iterable[tuple[float, bool, bool]]
) -> list[list[Answer]]:
    """What a store of these memories answers to each question, by each method."""
    found: list[list[Answer]] = []
    weighted = {**settings, "lexical_weight": LEXICAL_WEIGHT}
    async with filled(given.memories.values(), **weighted) as store:
        for weight, recency, times in methods:
            # Nothing is of the last week once that is over.
            now = given.now if recency else given.now + RECENCY_WINDOW + timedelta(days=1)
            storage = store(now, lexical_weight=weight)
            found.append(
                [await _answer(storage, each, prompt=not times) for each in given.questions]
            )
            await storage.close()
    return found


async def _answer(storage: MemoryStorage, question: Question, **more: Any) -> Answer:
    found = await storage.search(question.text, MAX_RESULTS, **more)
    return Answer(question, [memory.content for memory in found])


def _bm25(given: Set) -> list[Answer]:
    from rank_bm25 import BM25Okapi

    def words(text: str) -> list[str]:
        return re.findall(r"\w+", text.casefold())

    texts = [memory.content for memory in given.memories.values()]
    index, answers = BM25Okapi([words(text) for text in texts]), []
    for question in given.questions:
        order = np.argsort(-index.get_scores(words(question.text)), kind="stable")[:MAX_RESULTS]
        answers.append(Answer(question, [texts[i] for i in order]))
    return answers


def _right(metric: str, answers: Iterable[Answer]) -> list[int]:
    hits = [score(metric, each) > 0 for each in answers]
    return [sum(hits), len(hits)]


def _first_of_kinds(answers: Sequence[Answer]) -> list[list[int]]:
    kinds = dict.fromkeys(each.question.kind for each in answers)
    return [
        _right("recall@1", [each for each in answers if each.question.kind == kind])
        for kind in kinds
    ]


def _by_limit(answers: Sequence[Answer]) -> list[list[float]]:
    """For each limit, the tokens of so many texts, and % of the answers that are among them."""
    return [
        [
            statistics.mean(sum(map(tokens.count, each.texts[:limit])) for each in answers),
            statistics.mean(score(f"recall@{limit}", each) for each in answers),
        ]
        for limit in LIMITS
    ]


async def _corrections(given: Set) -> Row:
    """The scores of the set without and with its chains linked, and for how many of the questions
    on what was superseded an outdated memory comes first.
    """
    chains = [[given.memories[id] for id in chain] for chain in _chains()]
    later = {
        old.content: {new.content for new in chain[place + 1 :]}
        for chain in chains
        for place, old in enumerate(chain)
    }

    def stale(answers: list[Answer]) -> int:
        count = 0
        for question, texts in answers:
            if question.kind == "superseded":
                first = next((text for text in texts if text in question.answers), "")
                above = texts[: texts.index(first)] if first else texts
                count += any(later.get(text, set()) & question.answers for text in above)
        return count

    def relink(store: Store) -> None:
        for chain in chains:
            for old, new in pairwise(chain):
                [found] = store.with_ids([old.id])
                link(store, [found], new)

    async with filled(given.memories.values()) as store:
        storage, found = store(), Row()
        for which in ("without", "with"):
            answers = [await _answer(storage, question) for question in given.questions]
            found[which] = scores(answers) | {"stale first": stale(answers)}
            await storage.run(relink, None)
        await storage.close()
    return found


def _chains() -> list[list[str]]:
    """The ids of the memories of which each replaces the one before."""
    return json.loads((FOLDER / "superseded.json").read_text())


async def _changed() -> Row:
    """At how many questions on what has changed, both statements in the store without a link, the
    present one stands above the old one.
    """
    chains = [row for row in rows("holds/chains") if "question" in row]
    memories = [
        Memory(agent_id="recall", content=text, timestamp=NOW - timedelta(days=days))
        for row in rows("holds/chains")
        for text, days in ((row["old"], 200), (row["new"], 30))
    ]
    memories += [
        Memory(agent_id="recall", content=row["content"], timestamp=LONG_AGO)
        for row in rows("holds/notes")
    ]
    above = 0
    async with filled(memories) as store:
        storage = store()
        for row in chains:
            found = newer_first(await storage.search(row["question"]))  # as the tool shows it
            texts = [memory.content for memory in found]
            above += row["new"] in texts and row["old"] not in texts[: texts.index(row["new"])]
        await storage.close()
    return {"changed": [above, len(chains)]}


def estimate_text(estimate: Sequence[float]) -> str:
    """A mean with the interval that holds 95 % of what resampling gives."""
    mean, low, high = estimate
    return f"{mean:.1f} ({low:.0f}\N{EN DASH}{high:.0f})"


def blocks(found: Row) -> dict[str, str]:
    """The methods by kind of question; models by language; corrections; what fits."""
    every = found["scores"]
    kinds = [kind for kind in every[DEFAULT] if kind != "all"]
    heads = ["", "first", "among five"]
    heads += [f"{kind} ({every[DEFAULT][kind]['n']})" for kind in kinds]
    methods = [
        [strong(method, DEFAULT), estimate_text(scored["all"]["recall@1"])]
        + [estimate_text(scored[kind]["recall@5"]) for kind in ("all", *kinds)]
        for method, scored in every.items()
    ]
    kinds_of_sets = ["developer", "everyday", *LANGUAGES.values()]
    models = [
        [name, *(", ".join(str(right) for right, _ in each[kind]) for kind in kinds_of_sets)]
        for name, each in found["others"].items()
    ]
    two = [found["corrections"][which] for which in ("without", "with")]
    corrections = [
        [f"{kind} ({two[0][kind]['n']})", *(estimate_text(each[kind]["recall@5"]) for each in two)]
        for kind in kinds
    ]
    corrections += [["an outdated one first", *(str(each["stale first"]) for each in two)]]
    return {
        "recall": table(heads, methods),
        "recall models": table(["", *kinds_of_sets], models),
        "recall corrections": f"{table(['', 'without links', 'with'], corrections)}\n\n"
        f"Without a link, the present fact stood above the old at "
        f"{of(found['corrections']['changed'])} questions.",
    }
