"""How much of the evidence for LoCoMo's questions a search finds.

    uv run benchmarks/run.py --parts locomo --locomo locomo10.json

The file is not here: it is in github.com/snap-research/LoCoMo, in data/ (CC BY-NC 4.0). Measured as
MemPalace does: a memory is a session or a turn, images are left out, adversarial questions are
asked like any other.
"""

import asyncio
import itertools
import json
import re
import tempfile
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

from memory_semantic import Memory, MemoryStorage
from memory_semantic.limits import LOCAL_MODEL, STATIC_MODEL

AGENT, SHOWN, BATCH = "locomo", 10, 500
MOST = 20  # results of one search


class Document(NamedTuple):
    name: str
    text: str
    time: datetime


class Asked(NamedTuple):
    """A question; `evidence` are the names of the documents that answer it, and `cited` is how many
    its authors name, of which some may not exist.
    """

    text: str
    evidence: frozenset[str]
    cited: int


class Conversation(NamedTuple):
    documents: list[Document]
    questions: list[Asked]
    now: datetime


Found = tuple[Asked, list[str]]  # a question, and the names of the documents found


def conversations(file: Path, by: str) -> Iterator[Conversation]:
    """The ten conversations of `locomo10.json` (Maharana et al. 2024), `by` session or turn."""
    for sample in json.loads(file.read_text()):
        talk, documents = sample["conversation"], []
        for session in (key for key in talk if re.fullmatch(r"session_\d+", key)):
            when = datetime.strptime(talk[f"{session}_date_time"], "%I:%M %p on %d %B, %Y")
            when = when.replace(tzinfo=UTC)
            said = {t["dia_id"]: f'{t["speaker"]} said, "{t["text"]}"' for t in talk[session]}
            if by == "session":
                said = {f"D{session.removeprefix('session_')}": "\n".join(said.values())}
            documents += [Document(name, text, when) for name, text in said.items()]
        questions = []
        for each in sample["qa"]:
            cited = each.get("evidence", [])
            names = set(cited) if by == "turn" else {n for c in cited for n in _sessions(c)}
            known = names & {document.name for document in documents}
            questions.append(Asked(each["question"], frozenset(known), len(names)))
        now = max(document.time for document in documents) + timedelta(days=1)
        yield Conversation(documents, questions, now)


def _sessions(evidence: str) -> list[str]:
    found = re.match(r"(D\d+):", evidence)
    return [found[1]] if found else []


async def by_store(given: Conversation, model: str = LOCAL_MODEL) -> list[Found]:
    """What a store of these documents answers, through the class that the tools use."""
    names: dict[str, list[str]] = {}
    for document in given.documents:  # the same words twice are one memory
        names.setdefault(document.text.strip(), []).append(document.name)
    with tempfile.TemporaryDirectory() as root:
        config = {"storage_root": root, "max_query_results": MOST, "embedding_model": model}
        storage = MemoryStorage(AGENT, config, clock=lambda: given.now)
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
            first = dict.fromkeys(name for each in memories for name in names[each.content])
            found.append((asked, [*first][:SHOWN]))
        await storage.close()
    return found


def counted(found: Sequence[Found]) -> dict[str, Any]:
    """Of all questions, the mean share of the evidence among the first `k`, one without evidence
    counting as found; of those with evidence, how many have any and all of it there.
    """
    cited = [(asked, names) for asked, names in found if asked.cited]
    result: dict[str, Any] = {"questions": len(found), "with evidence": len(cited)}
    for k in (5, SHOWN):
        hits = [(len(asked.evidence & set(names[:k])), asked.cited) for asked, names in cited]
        shares = sum(hit / of for hit, of in hits) + len(found) - len(cited)
        result[f"share@{k}"] = round(shares / len(found), 5)
        result[f"any@{k}"] = sum(hit > 0 for hit, _ in hits)
        result[f"all@{k}"] = sum(hit == of for hit, of in hits)
    return result


def measure(file: Path, log: Callable[[str], None] = print) -> dict[str, Any]:
    """The counts by session and by turn, with each of our models, ready for JSON."""
    rows = {}
    for by, model in itertools.product(("session", "turn"), (STATIC_MODEL, LOCAL_MODEL)):
        log(f"locomo: by {by}, {model}")
        given = conversations(file, by)
        found = [each for talk in given for each in asyncio.run(by_store(talk, model))]
        rows[f"by {by}, {model}"] = counted(found)
    return rows
