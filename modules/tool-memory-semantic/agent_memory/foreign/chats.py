"""The data exports of Claude and ChatGPT: saved memories, and of conversations what capture's cues
find in the person's own sentences.
"""

import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

from .haul import Form, Haul
from .markdown import blocks

if TYPE_CHECKING:
    from memory_hooks.cues import Found

CLAUDE = Form("Claude's data export", "from-claude")
CHATGPT = Form("ChatGPT's data export", "from-chatgpt")
# In a conversation about anything, a statement without a cue is mostly about the task at hand, unless
# it says for whom it holds. The kinds that need no more than their cue:
_OUTRIGHT = ("explicit", "decision", "correction", "preference", "lesson")
_HOLDER = re.compile(r"\b(?:i|i'm|i've|my|we|we're|we've|our|us)\b", re.IGNORECASE)
# An answer to what was said before, a moment, or a question without its mark.
_PASSING = re.compile(
    r"""^(?:so|ok|okay|and|but|then|hmm)\b | \balready\b
    | \b(?:how|what|which|why|where|when)\b.*\b(?:do|does|did|can|should|would)\ (?:i|we|you|it|the)\b
    """,
    re.IGNORECASE | re.VERBOSE,
)
SAVED, SAID, INSTRUCTION = "saved memories", "said in conversations", "instructions"


def read(value: Any, written: datetime | None, haul: Haul) -> bool:
    """Add what a JSON file of such an export holds. False if it is no such file."""
    items = value if isinstance(value, list) else [value]
    items = [each for each in items if isinstance(each, dict)]
    if not items:
        return False
    if all(isinstance(each.get("mapping"), dict) for each in items):
        for each in items:
            _chatgpt(each, haul)
    elif all(isinstance(each.get("chat_messages"), list) for each in items):
        for each in items:
            _claude(each, haul)
    elif all("conversations_memory" in each or "project_memories" in each for each in items):
        for each in items:
            projects = _dict(each.get("project_memories")).values()
            for text in (each.get("conversations_memory"), *projects):
                for _, content in blocks(str(text or "")):
                    haul.add(CLAUDE, SAVED, content, None, written, said_by="agent")
    elif all("prompt_template" in each and "docs" in each for each in items):
        for each in items:
            when = each.get("updated_at")
            for _, content in blocks(str(each.get("prompt_template") or "")):
                haul.add(CLAUDE, INSTRUCTION, content, when, written, project=each.get("name"))
            haul.left["documents of projects"] += len(each.get("docs") or ())
    else:
        return False
    return True


def _claude(conversation: Mapping[str, Any], haul: Haul) -> None:
    for message in map(_dict, conversation["chat_messages"]):
        if message.get("sender") != "human":
            haul.left["replies"] += 1
            continue
        parts = [_dict(each) for each in message.get("content") or ()]
        texts = [str(each.get("text") or "") for each in parts if each.get("type") == "text"]
        text = "\n\n".join(texts) or str(message.get("text") or "")
        attached = [*(message.get("attachments") or ()), *(message.get("files") or ())]
        haul.left["attachments"] += len(attached)
        when = message.get("created_at") or conversation.get("created_at")
        _said(CLAUDE, text, when, conversation.get("name"), haul)


def _chatgpt(conversation: Mapping[str, Any], haul: Haul) -> None:
    title = conversation.get("title")
    for message in _branch(conversation):
        author, content = _dict(message.get("author")), _dict(message.get("content"))
        when = message.get("create_time") or conversation.get("create_time")
        parts = content.get("parts")
        parts = parts if isinstance(parts, list) else []
        text = "\n\n".join(part for part in parts if isinstance(part, str))
        if content.get("content_type") == "user_editable_context":
            for name in ("user_profile", "user_instructions"):
                for _, instruction in blocks(str(content.get(name) or "")):
                    haul.add(CHATGPT, INSTRUCTION, instruction, when)
        elif author.get("role") == "assistant" and message.get("recipient") == "bio":
            haul.add(CHATGPT, SAVED, text, when, said_by="agent", conversation=title)
        elif author.get("role") != "user" or _hidden(message):
            haul.left["replies"] += 1
        else:
            haul.left["attachments"] += sum(not isinstance(part, str) for part in parts)
            _said(CHATGPT, text, when, title, haul)


def _branch(conversation: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """The messages as they were shown last; what was edited before is on other branches."""
    mapping, shown = conversation["mapping"], dict[str, None]()
    node = conversation.get("current_node")
    while isinstance(node, str) and node in mapping and node not in shown:
        shown[node] = None
        node = _dict(mapping[node]).get("parent")
    for name in reversed(shown or mapping):
        message = _dict(mapping[name]).get("message")
        if isinstance(message, dict):
            yield message


def _said(form: Form, text: str, when: object, title: object, haul: Haul) -> None:
    from memory_hooks.cues import found, withheld
    from memory_semantic import mask

    said = [each for each in found(text) if _lasts(each) and not mask(each.text)[1]]
    haul.left["sentences with a credential"] += bool(withheld(text))
    haul.left["messages of yours with nothing to keep"] += not said
    for each in said:
        haul.add(form, SAID, each.text, when, None, [each.kind], "user", conversation=title)


def _lasts(said: "Found") -> bool:
    from memory_hooks.cues import is_marked

    if _PASSING.search(said.text):
        return False
    return said.kind in _OUTRIGHT or bool(_HOLDER.search(said.text) and is_marked(said.text))


def _hidden(message: Mapping[str, Any]) -> bool:
    return bool(_dict(message.get("metadata")).get("is_visually_hidden_from_conversation"))


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
