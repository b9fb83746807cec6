"""What import takes of an export of conversations, and how much of it is worth it.

`uv run benchmarks/import/score.py` writes the labelled turns of `turns.txt` as Claude's export,
reads it as `agent-memory import` does, and prints the share for both halves. `--show` also prints
what was taken of the first half without being worth it.
"""

import json
import re
import sys
import tempfile
from pathlib import Path
from typing import Any

from agent_memory.foreign import recognise

TURNS = Path(__file__).with_name("turns.txt")
_WORTH = re.compile(r"\[\[(.+?)\]\]")


def conversations() -> list[tuple[str, str, list[str]]]:
    """The title, the day and the human's turns of each conversation, with the labels in them."""
    found = []
    for line in TURNS.read_text(encoding="utf-8").splitlines():
        if line.startswith("== "):
            title, day = line[3:].rsplit(" | ", 1)
            found.append((title, day, []))
        else:
            found[-1][2].append(line[2:].replace("\\n", "\n"))
    return found


def claude_export() -> list[dict[str, Any]]:
    """The conversations in the form of Claude's `conversations.json`."""
    chats = []
    for number, (title, day, turns) in enumerate(conversations()):
        messages = []
        for turn in turns:
            text = _WORTH.sub(r"\1", turn)
            for sender, said in (("human", text), ("assistant", f"We decided: always {text}")):
                content = [{"type": "text", "text": said}]
                at = f"{day}T09:00:00Z"
                messages.append(
                    {"sender": sender, "text": said, "content": content, "created_at": at}
                )
        chats.append({"uuid": f"c{number}", "name": title, "chat_messages": messages})
    return chats


def taken() -> list[tuple[str, str, bool]]:
    """Each text that import takes, the title of its conversation, and whether it is worth it: at
    least half of its characters are labelled so.
    """
    labelled = {
        title: [worth for turn in turns for worth in _WORTH.findall(turn)]
        for title, _, turns in conversations()
    }
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "conversations.json").write_text(json.dumps(claude_export()))
        haul = recognise(folder)
    assert haul
    found = []
    for text, entry in haul.found.items():
        title = entry.fields["metadata"]["conversation"]
        covered = sum(len(worth) for worth in labelled[title] if worth in text)
        whole = any(text in worth for worth in labelled[title])
        found.append((text, title, whole or 2 * covered >= len(text)))
    return found


def main() -> None:
    """Print the figures."""
    everything = conversations()
    found = taken()
    for name, half in (("first half", everything[0::2]), ("second half", everything[1::2])):
        titles = {title for title, _, _ in half}
        turns = [turn for _, _, turns in half for turn in turns]
        labels = sum(len(_WORTH.findall(turn)) for turn in turns)
        here = [good for _, title, good in found if title in titles]
        print(
            f"{name}: {len(turns)} turns, {labels} worth it; taken {len(here)}, of it {sum(here)}"
        )
    print(f"worth it: {sum(good for *_, good in found) / len(found):.1%} of {len(found)} taken")
    if "--show" in sys.argv:
        odd = {title for title, _, _ in everything[0::2]}
        print(*(f"- {text}" for text, title, good in found if not good and title in odd), sep="\n")


if __name__ == "__main__":
    main()
