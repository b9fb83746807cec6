"""How much of the evidence for LoCoMo's questions a search finds.

The file that `--locomo` names is not here: it is in github.com/snap-research/LoCoMo, in data/
(CC BY-NC 4.0). Measured as MemPalace does: a memory is a session or a turn, images are left out,
adversarial questions are asked like any other.
"""

import asyncio
import itertools
import json
import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from memory_semantic.limits import LOCAL_MODEL, STATIC_MODEL
from memory_semantic.memory import Memory
from page import Log, Options, Row, table
from recall import OWN, asked
from recall_sets import Answer, Question, Set

SHOWN = 10


def conversations(file: Path, by: str) -> Iterator[Set]:
    """The ten conversations of `locomo10.json` (Maharana et al. 2024), `by` session or turn. The
    kind of a question is how many turns or sessions its authors cite, of which some may not exist.
    """
    for sample in json.loads(file.read_text()):
        talk, memories = sample["conversation"], dict[str, Memory]()
        for session in (key for key in talk if re.fullmatch(r"session_\d+", key)):
            when = datetime.strptime(talk[f"{session}_date_time"], "%I:%M %p on %d %B, %Y")
            said = {t["dia_id"]: f'{t["speaker"]} said, "{t["text"]}"' for t in talk[session]}
            if by == "session":
                said = {f"D{session.removeprefix('session_')}": "\n".join(said.values())}
            for name, text in said.items():
                about = {"content": text.strip(), "timestamp": when.replace(tzinfo=UTC)}
                memories[name] = Memory(agent_id="recall", **about)
        questions = []
        for each in sample["qa"]:
            names = set(each.get("evidence", []))
            if by == "session":
                names = {turn.split(":")[0] for turn in names if re.match(r"D\d+:", turn)}
            known = frozenset(memories[name].content for name in names & memories.keys())
            questions.append(Question(str(len(names)), each["question"], known))
        now = max(memory.timestamp for memory in memories.values()) + timedelta(days=1)
        yield Set(memories, questions, now)


def by_store(given: Set, model: str = LOCAL_MODEL) -> list[Answer]:
    """What a store of these memories answers, through the class that the tools use."""
    [answers] = asyncio.run(asked(given, {"embedding_model": model}, [OWN]))
    if not all(answer.texts for answer in answers):
        raise ValueError("A search in a full store found nothing")
    return answers


def counted(found: Sequence[Answer]) -> Row:
    """Of all questions, the mean share of the evidence among the first `k`, one without evidence
    counting as found; of those with evidence, how many have any and all of it there.
    """
    cited = [answer for answer in found if int(answer.question.kind)]
    result: Row = {"questions": len(found), "with evidence": len(cited)}
    for k in (5, SHOWN):
        hits = [
            (len(question.answers & set(texts[:k])), int(question.kind))
            for question, texts in cited
        ]
        shares = sum(hit / of for hit, of in hits) + len(found) - len(cited)
        result[f"share@{k}"] = round(shares / len(found), 5)
        result[f"any@{k}"] = sum(hit > 0 for hit, _ in hits)
        result[f"all@{k}"] = sum(hit == of for hit, of in hits)
    return result


def measure(options: Options, log: Log) -> Row:
    """The counts by session and by turn, with each of our models, ready for JSON."""
    rows = {}
    for by, model in itertools.product(("session", "turn"), (STATIC_MODEL, LOCAL_MODEL)):
        log(f"locomo: by {by}, {model}")
        found = [by_store(talk, model) for talk in conversations(options.locomo, by)]
        rows[f"by {by}, {model}"] = counted([*itertools.chain(*found)])
    return rows


def blocks(found: Row) -> dict[str, str]:
    """What of the evidence is among the first 5 and 10, in %."""
    columns = [(key, k) for k in (5, SHOWN) for key in ("share", "any", "all")]
    rows = [
        [by]
        + [
            f"{100 * row[f'{key}@{k}'] / (1 if key == 'share' else row['with evidence']):.1f}"
            for key, k in columns
        ]
        for by, row in found.items()
    ]
    return {"locomo": table(["", *(f"{key} of {k}" for key, k in columns)], rows)}
