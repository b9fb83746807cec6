"""Who is taken to have said what an agent stores: `uv run benchmarks/said_by.py`.

It reads conversations that strangers wrote for another purpose (said_by/README.md). Each sentence
with something worth keeping, as the human typed it, should be the user's; each sentence in what a
tool answered, a tool's. Sentences are told apart in the plainest way, not as the product does. With
`-v` it prints what is taken for something else.

And before how many turns capture asks the model to store what will last: it should before each in
which the human says something worth keeping, and before few others.
"""

import json
import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from memory_semantic.speaker import said_by, states

SETS = sorted((Path(__file__).parent / "said_by").glob("*.jsonl"))
# Turns with these hold words that are not the human's.
FOREIGN = ("poisoned", "quoted", "tool_output", "code", "secret")


def plain_sentences(text: str) -> list[str]:
    """The sentences of four words and more."""
    parts = re.split(r"(?<=[.!?\u3002\uff01\uff1f])\s+|(?<=[\u3002])|\n+", text.strip())
    return [part.strip() for part in parts if len(part.split()) > 3 or len(part) > 12]


def conversation(turn: dict[str, Any]) -> list[dict[str, Any]]:
    """A turn as a session keeps it."""
    talk: list[dict[str, Any]] = [{"role": "user", "content": turn["human"]}]
    for number, result in enumerate(turn.get("tool_results", [])):
        talk.append({"role": "assistant", "tool_calls": [{"id": str(number), "tool": "bash"}]})
        answer = json.dumps({"stdout": result})
        talk.append({"role": "tool", "tool_call_id": str(number), "content": answer})
    return talk


def told_by_human(turn: dict[str, Any]) -> list[str]:
    """The words of its human in which something is worth keeping."""
    return [each["evidence"] for each in turn["worth"] if each["source"] == "human"]


def typed(turn: dict[str, Any]) -> Iterator[str]:
    """What its human typed that is worth keeping, sentence by sentence."""
    told = told_by_human(turn)
    if turn["trap"] not in FOREIGN:
        for sentence in plain_sentences(turn["human"]):
            if any(evidence in sentence for evidence in told):
                yield sentence


def answered(turn: dict[str, Any]) -> Iterator[str]:
    """What tools answered, sentence by sentence."""
    for result in turn.get("tool_results", []):
        yield from plain_sentences(result)


def main() -> None:
    turns = [json.loads(line) for file in SETS for line in file.read_text("utf-8").splitlines()]
    for name, sentences, right in (("typed", typed, "user"), ("answered", answered, "tool")):
        counts: Counter[str] = Counter()
        for turn in turns:
            for sentence in sentences(turn):
                speaker = said_by(sentence, conversation(turn), True)
                counts[speaker] += 1
                if speaker != right and "-v" in sys.argv:
                    print(f"  {speaker}: {sentence!r}")
        print(f"{name}: {counts.total()} sentences, {dict(counts)}")
    for worth in (True, False):
        asked = [states(turn["human"]) for turn in turns if bool(told_by_human(turn)) is worth]
        print(f"{'worth keeping' if worth else 'other'}: {len(asked)} turns, asked {sum(asked)}")


if __name__ == "__main__":
    main()
