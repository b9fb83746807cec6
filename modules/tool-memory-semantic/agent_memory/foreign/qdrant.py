"""The collection that mcp-server-qdrant keeps on a Qdrant server, read from its address."""

import os
import re
from threading import Event
from typing import Any

import click

from .haul import Form, Haul, dict_of, list_of

FORM = Form("mcp-server-qdrant's collection", "from-mcp-server-qdrant")
# The variable from which mcp-server-qdrant itself takes the server's key.
KEY_VARIABLE = "QDRANT_API_KEY"
_ADDRESS = re.compile(r"(https?://[^/?#]+)/collections/([^/?#]+)/?")
_PAGE = 256  # points in an answer
_DATES = ("updated_at", "created_at", "timestamp", "date")


def read(address: str, haul: Haul) -> None:
    """Add the texts of the collection at `address`, and what metadata says of their time."""
    parts = _ADDRESS.fullmatch(address)
    if not parts:
        raise click.UsageError("Name the collection: http://localhost:6333/collections/NAME")
    try:
        from memory_server.connection import Connection
        from memory_server.settings import ServerConfig
    except ImportError:
        tool = 'uv tool install "./modules/tool-memory-semantic[cli,server]"'
        raise click.UsageError(f"A Qdrant server is read with the extra server: {tool}") from None
    key = os.environ.get(KEY_VARIABLE)
    config = ServerConfig.parse({"qdrant_api_key": key} if key else {})
    connection, offset, more = Connection(parts[1], config, Event()), None, True
    while more:
        points, offset = connection.ask(
            lambda client, start=offset: client.scroll(parts[2], limit=_PAGE, offset=start)
        )
        for point in points:
            _add(point.payload or {}, haul)
        more = offset is not None


def _add(payload: dict[str, Any], haul: Haul) -> None:
    content, about = payload.get("document"), dict_of(payload.get("metadata"))
    if not isinstance(content, str):
        haul.left["points without a document"] += 1
        return
    when = next((about[each] for each in _DATES if about.get(each)), None)
    haul.add(FORM, "documents", content, when, None, list_of(about.get("tags")))
    more = [name for name in payload if name not in ("document", "metadata")]
    more += [f"metadata.{name}" for name in about if name not in (*_DATES, "tags")]
    haul.left.update(f"the field {name}" for name in more)
