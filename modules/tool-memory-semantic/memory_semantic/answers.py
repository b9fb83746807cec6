"""How memories stand in the answers of the tools: what a model reads, and what it costs."""

from collections.abc import Sequence
from typing import Any

from .limits import MAX_ANSWER_CHARS
from .memory import Memory
from .plaintext import one_line
from .remembered import LONG_BEGINNING
from .tokens import estimate_tokens

# What is said with the memories that a new one may replace, and the most tokens that both take.
_MAY_REPLACE = "If this replaces one of them, store it again with `replaces`."
_ALIKE_TOKENS = 110
_ALIKE_CHARS = 100


def readable(memories: list[Memory]) -> list[dict[str, Any]]:
    """The memories as the model reads them, at most 10,000 characters of content in all. Long ones
    share the room that short ones leave, and say so if they are cut.
    """
    room, share = MAX_ANSWER_CHARS, {}
    for rank, memory in enumerate(sorted(memories, key=lambda memory: len(memory.content))):
        share[memory.id] = min(len(memory.content), room // (len(memories) - rank))
        room -= share[memory.id]
    answers, days = [], {memory.id: f"{memory.timestamp:%Y-%m-%d}" for memory in memories}
    for memory in memories:
        answer: dict[str, Any] = {
            "id": memory.id,
            "content": memory.content[: share[memory.id]],
            "timestamp": f"{memory.timestamp:%Y-%m-%dT%H:%M:%S}",
        }
        if memory.tags:
            answer["tags"] = memory.tags
        if memory.said_by == "tool":  # in recall, what the agent said is marked, too
            answer["said_by"] = memory.said_by
        if memory.copied_from:
            answer["from"] = memory.copied_from
        if memory.newer in days:
            answer["see_also"] = f"{memory.newer[:LONG_BEGINNING]} of {days[memory.newer]}"
        if memory.score is not None:
            answer["score"] = round(min(memory.score, 1.0), 2)  # boosts count for the order alone
        if share[memory.id] < len(memory.content):
            answer["cut"] = (
                f"The first {share[memory.id]:,} of {len(memory.content):,} characters. "
                f"Search for {memory.id} to read it whole."
            )
        answers.append(answer)
    return answers


def newer_first(memories: Sequence[Memory]) -> list[Memory]:
    """The memories, in their order, but before each the `newer` one that may say the same."""
    found, ordered = {memory.id: memory for memory in memories}, dict[str, Memory]()

    def put(memory: Memory) -> None:
        if memory.id not in ordered:
            if newer := found.get(memory.newer or ""):
                put(newer)
            ordered[memory.id] = memory

    for memory in memories:
        put(memory)
    return list(ordered.values())


def alike(memories: Sequence[Memory], texts: Sequence[str]) -> dict[str, Any]:
    """The memories that a new one may replace, whose masked `texts` these are, and what to do: each
    as a line with the beginning of its id, its day, who said it, if not the user, and at most 100
    characters; at most 110 tokens in all. Nothing if there are none.
    """
    if not memories:
        return {}
    room, lines = _ALIKE_TOKENS - estimate_tokens(_MAY_REPLACE), list[str]()
    for memory, content in zip(memories, texts, strict=True):
        room -= 2  # for what stands between two lines
        who = "" if memory.by_user else f" {memory.said_by}"
        about = f"{memory.id[:LONG_BEGINNING]} {memory.timestamp:%Y-%m-%d}{who}: "
        share = room / (len(memories) - len(lines)) - estimate_tokens(about)
        text = one_line(content)[:_ALIKE_CHARS]
        while text and estimate_tokens(text) > share:
            text = text[: len(text) * 9 // 10]
        lines.append(about + text)
        room -= estimate_tokens(lines[-1])
    return {"alike": lines, "note": _MAY_REPLACE}
