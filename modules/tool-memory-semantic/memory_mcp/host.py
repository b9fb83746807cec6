"""What the tools and recall ask of a session, answered for a client of MCP and its hooks."""

import os
from collections.abc import Mapping, Sequence
from typing import Any

from memory_semantic.identity import RECALL_MODULE, project_of

# Claude Code and Codex show a model 10,000 bytes of what a hook tells it.
MAX_BYTES = 9_000
# How much of a prompt is read: its end, where the question stands.
MAX_PROMPT_CHARS = 20_000


class Host:
    """A session in the working folder `folder`, that of this process if None, in which the user
    typed `words`. Nobody hears its events.
    """

    session_id = parent_id = None
    injection_size_limit = MAX_BYTES
    config: dict[str, Any] = {"hooks": [{"module": RECALL_MODULE}]}  # noqa: RUF012 - a constant

    def __init__(self, folder: str | None, words: Sequence[str] = ()) -> None:
        self._folder, self.words = folder, words

    @property
    def hooks(self) -> "Host":
        """Takes the events."""
        return self

    async def emit(self, event: str, data: dict[str, Any]) -> None:
        """Drop the event."""

    def get(self, point: str) -> "Host":
        """The context."""
        return self

    async def get_messages(self) -> list[dict[str, Any]]:
        """What the user typed."""
        return [{"role": "user", "content": text} for text in self.words]

    def get_capability(self, name: str) -> str | None:
        """The working folder."""
        return self._folder if name == "session.working_dir" else None

    @property
    def project_id(self) -> str:
        """The id of the project in its folder; empty if that was removed."""
        return project_of(self).get("project_id", "")


def asked_to_store(config: Mapping[str, Any], prompt: str) -> str:
    """What the model reads before it answers `prompt`, if its user states something, and the
    settings let it store that; else "".
    """
    from memory_hooks.reminder import REMINDER
    from memory_semantic.speaker import states
    from memory_semantic.tools import may_write

    return REMINDER if may_write(config) and states(prompt) else ""


def working_folder(given: object = None) -> str | None:
    """The folder that the client works in, by its environment, else as it is `given` by a hook."""
    named = os.environ.get("CLAUDE_PROJECT_DIR")  # others set it, too
    return named or (given if isinstance(given, str) and given else None)
