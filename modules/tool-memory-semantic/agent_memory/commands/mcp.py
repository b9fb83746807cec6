"""Serve the memory to other programs: `mcp`."""

import click
from memory_semantic import AgentMemoryError

from ..causes import cause
from ..options import command
from ..session import Session


@command("mcp --agent sam", "mcp --agent sam --read-only", prints=False)
@click.option("--read-only", is_flag=True, help="Only search: leave out memory_store.")
def mcp(session: Session, read_only: bool) -> None:
    """Serve the memory to Claude Code, VS Code, Cursor, Codex or any client of MCP.

    Such a program starts this by itself and speaks with it over standard input and output, until it
    disconnects: `agent-memory setup` tells those that it knows, and docs/clients.md how to tell
    others. It gets the tools memory_store and memory_search, and recall as a prompt.
    """
    import signal

    from memory_mcp.handlers import Handlers
    from memory_mcp.loop import serve

    config = {**session.settings.config, "agent_identity": None}
    config |= {"read_only": True} if read_only else {}
    try:
        config["agent_identity"] = session.agent
        whose = f"It is {session.agent}'s; agent-memory mcp --agent NAME serves another's."
    except (AgentMemoryError, OSError) as error:  # a program shows no reason why one ended
        why = error if isinstance(error, AgentMemoryError) else cause(error)
        once = "until the user corrects this and starts this program anew"
        whose = f"The memory is out of reach {once}: {why}"
    # Whatever was acknowledged is on disk, and a thread that reads standard input cannot be
    # interrupted.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    serve(Handlers(config, whose, session.named))
