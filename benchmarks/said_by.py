"""Who is taken to have said what an agent stores, in conversations that strangers wrote for another
purpose (said_by/README.md), without a session: see `counts`.
"""

import json
import re
from collections.abc import Iterator
from typing import Any

from memory_semantic.speaker import said_by, states
from recall_sets import rows

TURNS = rows("said_by/strangers")
# Turns with these hold words that are not the human's.
FOREIGN = ("poisoned", "quoted", "tool_output", "code", "secret")


def plain_sentences(text: str) -> list[str]:
    """The sentences of four words and more, told apart in the plainest way."""
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


def counts() -> dict[str, list[int]]:
    """Of the sentences worth keeping that the human typed, how many are the user's; of those that
    tools answered, how many a tool's; of the turns with something worth keeping and of the others,
    before how many capture asks the model to store it.
    """
    found: dict[str, list[int]] = {}
    for name, sentences, right in (("typed", typed, "user"), ("answered", answered, "tool")):
        talks = [(text, conversation(turn)) for turn in TURNS for text in sentences(turn)]
        told = [said_by(text, talk, True) == right for text, talk in talks]
        found[name] = [sum(told), len(told)]
    for name, worth in (("asked where something is", True), ("asked elsewhere", False)):
        asked = [states(turn["human"]) for turn in TURNS if bool(told_by_human(turn)) is worth]
        found[name] = [sum(asked), len(asked)]
    return found
