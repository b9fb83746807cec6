"""Who said a text: the user, a tool or a page, or the agent itself, as its conversation shows.

The user said it if every sentence is a whole sentence of the user's own words in a turn; what the
user quotes or pastes does not count. Better too little than too much: a rule that a page has
planted must not pass for the user's.
"""

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any
from unicodedata import normalize

from .human_words import paragraphs, sentences
from .memory import Speaker

# Results of these repeat what is remembered, and who said that is known.
_OWN_TOOLS = ("memory_search", "memory_store")
_INTRODUCTION = re.compile(
    r"^((please|pls|also|and|so|ok(ay)?)[, ]+)*(remember|note|keep in mind)(,? that\b|:|,)\s*"
)
_END = re.compile(r"[\s.!\u2026\u3002\uff01*_)]+$")
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|.)")  # in JSON, as many tools answer


def humans(coordinator: Any) -> bool:
    """Whether a human types the prompts of this session: it is no sub-agent's, no program drives
    it, and it is not pursuing a goal, whose evaluator speaks in the user's place.
    """
    origin = os.environ.get("AMPLIFIER_SESSION_ORIGIN", "").strip().lower()
    goal = (getattr(coordinator, "session_state", None) or {}).get("goal") or {}
    parent = getattr(coordinator, "parent_id", None)
    return not parent and origin in ("", "human") and not goal.get("turns_used")


def said_by(content: str, messages: Sequence[Any], by_human: bool) -> Speaker:
    """Who said `content`, as the `messages` of the conversation show. Only if they come `by_human`
    can the user have said it.
    """
    own = [_plain(sentence) for sentence in sentences(content)]
    if by_human and own and set(own) <= _of_user(messages):
        return "user"
    parts = [words for sentence in sentences(content) if (words := _words(sentence))]
    heard = any(_is_in(parts, result) for result in _results(messages))
    return "tool" if heard else "agent"


def _is_in(parts: Sequence[str], result: str) -> bool:
    """Whether one of `parts`, which are words alone, stands in what a tool answered."""
    text = _folded(_ESCAPE.sub(lambda it: chr(int(it[1], 16)) if it[1] else " ", result))
    likely = [part for part in parts if max(part.split(), key=len) in text]  # this is quick
    words = f" {_words(text)} " if likely else ""
    return any(f" {part} " in words for part in likely)


def _of_user(messages: Iterable[Any]) -> set[str]:
    said = set()
    for message in messages:
        hook = _get(_get(message, "metadata"), "source") == "hook"
        if _get(message, "role") == "user" and not hook:
            for paragraph in paragraphs(_text(message)):
                whole = [_plain(each.said) for each in paragraph if each.is_whole]
                said.update(whole, (_INTRODUCTION.sub("", each) for each in whole))
    return said


def _results(messages: Iterable[Any]) -> Iterator[str]:
    """What tools answered, apart from the memory tools."""
    calls = [call for message in messages for call in _get(message, "tool_calls") or ()]
    names = {_get(call, "id"): _get(call, "tool") or _get(call, "name") for call in calls}
    for message in messages:
        name = names.get(_get(message, "tool_call_id")) or _get(message, "name")
        if _get(message, "role") == "tool" and name not in _OWN_TOOLS:
            yield _text(message)


def _text(message: Any) -> str:
    content = _get(message, "content") or ""
    if not isinstance(content, str):
        parts = (_get(part, "text") or _get(part, "output") or "" for part in content)
        content = "\n".join(map(str, parts))
    return content


def _get(thing: Any, name: str) -> Any:
    """A field, whether loops and contexts keep their messages as dicts or as objects."""
    return thing.get(name) if isinstance(thing, Mapping) else getattr(thing, name, None)


def _plain(sentence: str) -> str:
    """A sentence as it is compared: case, blanks, the form of quotes and the end do not count."""
    straight = _folded(sentence).replace("\u2019", "'")
    listed = re.sub(r"^(?:[-*\u2022]|\d+[.)])\s+", "", " ".join(straight.split()))
    return _END.sub("", listed)


def _words(text: str) -> str:
    return " ".join(re.findall(r"\w+", _folded(text)))


def _folded(text: str) -> str:
    return normalize("NFKC", text).casefold()
