# /// script
# requires-python = ">=3.11"
# dependencies = ["amplifier-module-tool-memory-semantic"]
#
# [tool.uv.sources.amplifier-module-tool-memory-semantic]
# path = "../modules/tool-memory-semantic"
# editable = true
# ///
"""Figures that others publish, measured as they do: `uv run benchmarks/published.py --help`.

The files of the sets are not here. The counts go to `docs/benchmarks/published.json` after each
table, and from there into `docs/published.md` by `.ci/run docs`. `--minilm` measures
all-MiniLM-L6-v2 too, in an environment of its own with torch; LoCoMo then takes half an hour.
"""

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import published_sets as sets
from memory_semantic import EmbeddingGenerator, Memory, MemoryStorage
from published_answers import Model, answered
from published_sets import Asked, Conversation

RESULTS = Path(__file__).parent.parent / "docs/benchmarks/published.json"
AGENT, SHOWN, BATCH = "published", 10, 500
MOST = 20  # results of one search
OURS, THEIRS = "agent-memory, built-in model", "all-MiniLM-L6-v2, cosine alone"
BOTH = "agent-memory, all-MiniLM-L6-v2"
READERS = {"LoCoMo": sets.locomo, "LongMemEval": sets.longmemeval, "BEAM": sets.beam}


class MiniLM(EmbeddingGenerator):
    """The model in a process and an environment of its own; each text is embedded once."""

    def __init__(self) -> None:
        super().__init__("all-MiniLM-L6-v2", dimensions=384)
        script = str(Path(__file__).with_name("published_minilm.py"))
        self._process = subprocess.Popen(
            [os.environ.get("UV", "uv"), "run", "--script", script],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._known: dict[str, list[float]] = {}

    async def _embed(self, texts: list[str]) -> list[list[float]]:
        assert self._process.stdin and self._process.stdout
        fresh = [text for text in dict.fromkeys(texts) if text not in self._known]
        if fresh:
            self._process.stdin.write(json.dumps(fresh) + "\n")
            self._process.stdin.flush()
            vectors = json.loads(self._process.stdout.readline())
            self._known |= zip(fresh, vectors, strict=True)
        return [self._known[text] for text in texts]


Found = tuple[Asked, list[str], list[str]]  # a question, the names found, the texts found


async def by_store(given: Conversation, model: EmbeddingGenerator | None) -> list[Found]:
    """What a store of these documents answers, through the class that the tools use."""
    names: dict[str, list[str]] = {}
    for document in given.documents:  # the same words twice are one memory
        names.setdefault(document.text.strip(), []).append(document.name)
    with tempfile.TemporaryDirectory() as root:
        config: dict[str, Any] = {"storage_root": root, "max_query_results": MOST}
        config |= {"lexical_weight": 1.0} if model else {"embedding_model": "local"}
        storage = MemoryStorage(AGENT, config, embeddings=model, clock=lambda: given.now)
        memories = [
            Memory(agent_id=AGENT, content=document.text, timestamp=document.time)
            for document in given.documents
        ]
        for start in range(0, len(memories), BATCH):
            await storage.restore(memories[start : start + BATCH])
        found = []
        for asked in given.questions:
            memories = await storage.search(asked.text, MOST)
            if not memories:
                raise ValueError("A search in a full store found nothing")
            texts = [memory.content for memory in memories]
            found.append((asked, _first([n for text in texts for n in names[text]]), texts))
        await storage.close()
    return found


async def by_cosine(given: Conversation, model: EmbeddingGenerator) -> list[Found]:
    """The documents that are nearest to each question, as a plain vector store finds them."""
    import numpy as np

    documents = given.documents
    vectors = np.array(await model.generate_batch([document.text for document in documents]))
    asked = np.array(await model.generate_batch([each.text for each in given.questions]))
    found = []
    for question, scores in zip(given.questions, asked @ vectors.T, strict=True):
        best = [documents[i] for i in np.argsort(-scores, kind="stable")[:MOST]]
        names = _first([document.name for document in best])
        found.append((question, names, [document.text for document in best]))
    return found


def _first(names: list[str]) -> list[str]:
    return list(dict.fromkeys(names))[:SHOWN]


def counted(found: Sequence[Found]) -> dict[str, Any]:
    """Of all questions, the mean share of the evidence among the first `k`, one without evidence
    counting as found; of those with evidence, how many have any and all of it there.
    """
    cited = [(asked, names) for asked, names, _ in found if asked.cited]
    result: dict[str, Any] = {"questions": len(found), "with evidence": len(cited)}
    for k in (5, SHOWN):
        hits = [(len(asked.evidence & set(names[:k])), asked.cited) for asked, names in cited]
        shares = sum(hit / of for hit, of in hits) + len(found) - len(cited)
        result[f"share@{k}"] = round(shares / len(found), 5)
        result[f"any@{k}"] = sum(hit > 0 for hit, _ in hits)
        result[f"all@{k}"] = sum(hit == of for hit, of in hits)
    return result


def measured(
    name: str, options: argparse.Namespace, by: str, model: MiniLM | None
) -> dict[str, dict[str, Any]]:
    """The tables of a set, each with the counts of each method. The corrections of LoCoMo change
    what counts as evidence, and so one search serves both tables.
    """
    path = {"LoCoMo": options.locomo, "LongMemEval": options.longmemeval, "BEAM": options.beam}[
        name
    ]
    conversations = list(READERS[name](path, by))
    corrected: list[Asked] = []
    if name == "LoCoMo" and options.corrections:
        for given in sets.locomo(path, by, options.corrections):
            corrected += given.questions
    tables: dict[str, dict[str, Any]] = {}
    for method in (OURS, THEIRS, BOTH) if model else (OURS,):
        found: list[Found] = []
        for given in conversations:
            if method == THEIRS and model:
                found += asyncio.run(by_cosine(given, model))
            else:
                found += asyncio.run(by_store(given, model if method == BOTH else None))
            print(f"{name} by {by}, {method}: {len(found)} questions", file=sys.stderr)
        row = tables.setdefault(f"by {by}", {})[method] = counted(found)
        if method == OURS and options.answer:
            answerer, judge = Model(*options.answer), Model(*(options.judge or options.answer))
            asked = [
                (each, texts[:SHOWN], len(each.evidence & set(names)) == each.cited)
                for each, names, texts in found
                if each.answer and each.cited
            ]
            row["answers"] = answered(asked, answerer, judge)
        if corrected:
            pairs = zip(corrected, found, strict=True)
            again = [(each, names, texts) for each, (_, names, texts) in pairs]
            tables.setdefault(f"by {by}, corrected", {})[method] = counted(again)
    return tables


def main() -> None:
    parser = argparse.ArgumentParser(description="Figures that others publish.")
    add = parser.add_argument
    add("--locomo", type=Path, metavar="FILE", help="locomo10.json")
    add("--corrections", type=Path, metavar="FILE", help="errors.json of the audit of LoCoMo")
    add("--longmemeval", type=Path, metavar="FILE", help="longmemeval_s.json, or another of them")
    add("--beam", type=Path, metavar="FOLDER", help="such as chats/100K of BEAM")
    add("--minilm", action="store_true", help="measure all-MiniLM-L6-v2 too")
    add("--answer", nargs=2, metavar=("URL", "MODEL"), help="a model that answers the questions")
    add("--judge", nargs=2, metavar=("URL", "MODEL"), help="one that judges; the same by default")
    add("--out", type=Path, default=RESULTS, metavar="FILE", help="instead of the committed one")
    options = parser.parse_args()
    os.environ["AGENT_MEMORY_QDRANT_URL"] = "local"
    file: Path = options.out
    results = json.loads(file.read_text()) if file.exists() else {}
    model = MiniLM() if options.minilm else None
    wanted = {"LoCoMo": options.locomo, "LongMemEval": options.longmemeval, "BEAM": options.beam}
    for name in (name for name, path in wanted.items() if path):
        of = {"version": version("amplifier-module-tool-memory-semantic"), "tables": {}}
        for by in ("session", "turn"):
            of["tables"] |= measured(name, options, by, model)
            results[name] = of
            file.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
