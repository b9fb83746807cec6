"""What the tools and recall ask of a session, answered for a client of MCP."""

import asyncio
from typing import Any
from urllib.parse import unquote, urlsplit

from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp_types import InputRequiredResult, ListRootsRequest, ListRootsResult
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from memory_semantic.errors import InputError

# How long a client may take to say which folders it has open; it answers by itself.
ROOTS_SECONDS = 2.0
_ROOTS = "roots"


class Host:
    """A session without a conversation, without events and without settings of its own: those
    come with each tool. What it knows is the folder that the client has open.
    """

    session_id = parent_id = injection_size_limit = None

    def __init__(self, unnamed: str) -> None:
        self._unnamed = unnamed  # why it is unknown whose memory it is
        self.config: dict[str, Any] = {}
        self._folder: str | None = None  # None is the folder that this process runs in
        self._asks = True

    @property
    def hooks(self) -> "Host":
        """Takes the events, which nobody hears here."""
        return self

    async def emit(self, event: str, data: dict[str, Any]) -> None:
        """Drop the event."""

    def get(self, point: str) -> "Host":
        """The context, which holds no messages."""
        return self

    async def get_messages(self) -> list[Any]:
        """What was said: nothing that a server is shown."""
        return []

    def get_capability(self, name: str) -> str | None:
        """The folder that the client has open, as a session's working folder, if it told it.
        Raises InputError if asked for an identity that is unknown.
        """
        if name == "agent_identity" and self._unnamed:
            raise InputError(self._unnamed)
        return self._folder if name == "session.working_dir" else None

    async def locate(
        self, ctx: ServerRequestContext, answers: dict[str, Any] | None
    ) -> InputRequiredResult | None:
        """Learn which folder the client has open. If this returns a question, the client has to
        answer that, and comes back with the `answers`.
        """
        can = ctx.session.client_capabilities
        if not (self._asks and can and can.roots):
            return None
        if ctx.protocol_version in MODERN_PROTOCOL_VERSIONS:
            if not answers:
                return InputRequiredResult(input_requests={_ROOTS: ListRootsRequest()})
            self._take(answers.get(_ROOTS))
            return None
        try:
            async with asyncio.timeout(ROOTS_SECONDS):
                self._take(await ctx.session.send_request(ListRootsRequest(), ListRootsResult))
        except (TimeoutError, MCPError):
            self._asks = False
        return None

    def _take(self, answer: object) -> None:
        roots = answer.roots if isinstance(answer, ListRootsResult) else []
        places = [urlsplit(str(root.uri)) for root in roots]
        paths = [unquote(place.path) for place in places if place.scheme == "file"]
        self._folder = paths[0] if paths else None
