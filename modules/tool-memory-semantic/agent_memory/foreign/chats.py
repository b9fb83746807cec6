"""The data exports of Claude and ChatGPT: saved memories, and of conversations what capture's cues
find in the person's own sentences.
"""

import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from .haul import Form, Haul, dict_of, dicts_of, list_of
from .markdown import blocks

CLAUDE = Form("Claude's data export", "from-claude")
CHATGPT = Form("ChatGPT's data export", "from-chatgpt")
SAVED, SAID, INSTRUCTION = "saved memories", "said in conversations", "instructions"

# In a conversation about anything, most statements are about the task at hand, unless they say for
# whom they hold. The kinds that are marked well enough by their cue:
_OUTRIGHT = ("explicit", "decision", "correction", "preference", "lesson")
_HOLDER = re.compile(r"\b(?:i|i'm|i've|my|we|we're|we've|our|us)\b", re.IGNORECASE)
# An answer to what was said before, a moment, or a question without its mark.
_PASSING = re.compile(
    r"""^(?:so|ok|okay|and|but|then|hmm)\b | \balready\b
    | \b(?:how|what|which|why|where|when)\b.*
      \b(?:do|does|did|can|should|would)\ (?:i|we|you|it|the)\b
    """,
    re.IGNORECASE | re.VERBOSE,
)


def read(value: Any, written: datetime | None, haul: Haul) -> bool:
    """Add what a JSON file of such an export holds. False if it is no such file."""
    items = dicts_of(value if isinstance(value, list) else [value])

    def are(kind: Any, *names: str) -> bool:
        return all(any(isinstance(each.get(name), kind) for name in names) for each in items)

    if items and are(dict, "mapping"):
        for each in items:
            _chatgpt(each, haul)
    elif items and are(list, "chat_messages"):
        for each in items:
            _claude(each, haul)
    elif items and are(str | dict, "conversations_memory", "project_memories"):
        for each in items:
            projects = dict_of(each.get("project_memories"))
            for text in (each.get("conversations_memory"), *projects.values()):
                for _, content in blocks(str(text or "")):
                    haul.add(CLAUDE, SAVED, content, None, written, said_by="agent")
    elif items and are(list, "docs") and are(str, "uuid"):
        for each in items:
            when, name = each.get("updated_at"), each.get("name")
            for _, content in blocks(str(each.get("prompt_template") or "")):
                haul.add(CLAUDE, INSTRUCTION, content, when, written, project=name)
            haul.left["documents of projects"] += len(each["docs"])
    else:
        return False
    return True


def _claude(conversation: Mapping[str, Any], haul: Haul) -> None:
    for message in dicts_of(conversation["chat_messages"]):
        if message.get("sender") != "human":
            haul.left["replies"] += 1
            continue
        parts = [each for each in dicts_of(message.get("content")) if each.get("type") == "text"]
        text = "\n\n".join(str(each.get("text") or "") for each in parts)
        attached = (list_of(message.get(name)) for name in ("attachments", "files"))
        haul.left["attachments"] += sum(map(len, attached))
        when = message.get("created_at") or conversation.get("created_at")
        said = text or str(message.get("text") or "")
        _said(CLAUDE, said, when, conversation.get("name"), haul)


def _chatgpt(conversation: Mapping[str, Any], haul: Haul) -> None:
    title = conversation.get("title")
    for message in _branch(conversation):
        role, content = dict_of(message.get("author")).get("role"), dict_of(message.get("content"))
        when = message.get("create_time") or conversation.get("create_time")
        parts = list_of(content.get("parts"))
        text = "\n\n".join(part for part in parts if isinstance(part, str))
        hidden = dict_of(message.get("metadata")).get("is_visually_hidden_from_conversation")
        if content.get("content_type") == "user_editable_context":
            for name in ("user_profile", "user_instructions"):
                for _, instruction in blocks(str(content.get(name) or "")):
                    haul.add(CHATGPT, INSTRUCTION, instruction, when)
        elif role == "assistant" and message.get("recipient") == "bio":
            haul.add(CHATGPT, SAVED, text, when, said_by="agent", conversation=title)
        elif role != "user" or hidden:
            haul.left["replies"] += 1
        else:
            haul.left["attachments"] += sum(not isinstance(part, str) for part in parts)
            _said(CHATGPT, text, when, title, haul)


def _branch(conversation: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The messages as they were shown last; what was edited before is on other branches."""
    mapping, shown = conversation["mapping"], dict[str, None]()
    node = conversation.get("current_node")
    while isinstance(node, str) and node in mapping and node not in shown:
        shown[node] = None
        node = dict_of(mapping[node]).get("parent")
    yield from dicts_of([dict_of(mapping[it]).get("message") for it in reversed(shown or mapping)])


def _said(form: Form, text: str, when: object, title: object, haul: Haul) -> None:
    from memory_hooks.cues import found, is_marked, withheld
    from memory_semantic import mask

    kept = 0
    for kind, said in found(text):
        holds = kind in _OUTRIGHT or (_HOLDER.search(said) and is_marked(said))
        if holds and not _PASSING.search(said) and not mask(said)[1]:
            haul.add(form, SAID, said, when, None, [kind], "user", conversation=title)
            kept += 1
    haul.left["sentences with a credential"] += bool(withheld(text))
    haul.left["messages of yours with nothing to keep"] += not kept
