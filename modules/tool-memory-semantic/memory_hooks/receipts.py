"""What the person is told of what is stored: what, whose words it rests on, and how to undo it."""

from collections.abc import Mapping
from typing import Any

from memory_semantic.masking import mask

from .display import quoted

# Whose words a memory rests on, if `memory_store` names others than the agent.
_WHOSE = {"user": "said by you", "tool": "said by a page or tool"}


class Receipts:
    """Those of one session. `new` has the ids of what it stored, and nobody had before."""

    def __init__(self) -> None:
        self.new = set[str]()
        self._lines = dict[str, str]()  # not taken yet, by memory

    def note(
        self,
        output: Mapping[str, Any],
        given: Mapping[str, Any],
        options: str,
        *,
        told: bool = False,
    ) -> None:
        """Note what `memory_store` answered to these arguments; `options` name the store to the
        command. The same text again, with what it replaces, is one line; none if the person is
        `told` by others.
        """
        memory_id, status = str(output.get("memory_id", "")), str(output.get("status"))
        pinned, replaced = ". Pinned" in status, output.get("replaced")
        if memory_id and not status.startswith("already known"):
            self.new.add(memory_id)
        elif not (pinned or replaced):
            return
        undo = f"unreplace {replaced}" if replaced else f"unpin {memory_id}"
        undo = f"forget {memory_id}" if memory_id in self.new else undo
        if not told:
            self._lines[memory_id] = _line(output, given, undo + options)

    def take(self) -> list[str]:
        """The lines that were not taken yet."""
        lines, self._lines = self._lines, {}
        return list(lines.values())


def _line(output: Mapping[str, Any], given: Mapping[str, Any], undo: str) -> str:
    quote = output.get("quoted")
    shown = (given.get("content"), given.get("quote") if quote is True else quote)
    text, words = (mask(str(each or ""))[0] for each in shown)
    instead = f" in place of {output['replaced']}" if output.get("replaced") else ""
    whose = _WHOSE.get(str(output.get("said_by")), "noted by the agent")
    whose += f": {quoted(words)}" if words else ""
    what = f"Remembered {output['memory_id']}{instead}: {quoted(text)}"
    return f"{what} ({whose}; undo: agent-memory {undo})"
