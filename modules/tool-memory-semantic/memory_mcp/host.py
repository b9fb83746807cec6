"""What the tools and recall ask of a session, answered for a client of MCP and its hooks."""

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from memory_semantic.identity import RECALL_MODULE, project_of

if TYPE_CHECKING:
    from .loop import Call

# Claude Code and Codex show a model 10,000 bytes of what a hook tells it.
MAX_BYTES = 9_000
# How long a client may take to say which folders it has open; it answers by itself. In seconds.
ROOTS_SECONDS = 2


class Host:
    """A session in `folder`, the present one if None, in which a human typed `words`; without
    events.
    """

    session_id = parent_id = None
    injection_size_limit = MAX_BYTES
    config: dict[str, Any] = {"hooks": [{"module": RECALL_MODULE}]}  # noqa: RUF012 - a constant

    def __init__(self, folder: str | None, words: Sequence[str] = ()) -> None:
        self._folder, self.words = folder, words

    @property
    def hooks(self) -> "Host":
        """Takes the events, which nobody hears here."""
        return self

    async def emit(self, event: str, data: dict[str, Any]) -> None:
        """Drop the event."""

    def get(self, point: str) -> "Host":
        """The context."""
        return self

    async def get_messages(self) -> list[dict[str, Any]]:
        """What the human typed."""
        return [{"role": "user", "content": text} for text in self.words]

    def get_capability(self, name: str) -> str | None:
        """The session's folder."""
        return self._folder if name == "session.working_dir" else None

    @property
    def project_id(self) -> str:
        """What tells the project of its folder from others."""
        return project_of(self)["project_id"]


def project(given: object = None) -> str | None:
    """The folder that a program says it works in: by its environment, else `given` by its hook."""
    named = os.environ.get("CLAUDE_PROJECT_DIR")  # others set it, too
    return named or (given if isinstance(given, str) and given else None)


def opened(call: "Call") -> str | None:
    """The folder that the client of this `call` has open, if it tells."""
    if named := project():
        return named
    told = call.ask("roots/list", {}, ROOTS_SECONDS) if "roots" in call.can else None
    uris = [urlsplit(str(root.get("uri"))) for root in (told or {}).get("roots") or ()]
    return next((unquote(uri.path) for uri in uris if uri.scheme == "file"), None)
