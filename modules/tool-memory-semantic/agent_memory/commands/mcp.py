"""Serve the memory to other programs: `mcp`."""

import click
from memory_semantic import AgentMemoryError

from ..options import command
from ..session import Session, run


@command("mcp --agent sam", "mcp --agent sam --read-only", prints=False)
@click.option("--read-only", is_flag=True, help="Only search: leave out memory_store.")
def mcp(session: Session, read_only: bool) -> None:
    """Serve the memory to Claude Code, VS Code, Cursor, Codex or any client of MCP.

    Such a program starts this by itself and speaks with it over standard input and output, until it
    goes away; docs/mcp.md says what to write in its settings. It gets the tools memory_store and
    memory_search, and recall as a prompt and as a resource.
    """
    import signal

    config = {**session.settings.config, "agent_identity": None}
    try:
        config["agent_identity"] = session.agent
        whose = f"They are {session.agent}'s; agent-memory mcp --agent NAME serves another's."
    except (click.UsageError, AgentMemoryError) as error:  # a program shows no reason why one ended
        whose = f"They are out of reach until the user corrects this: {error}"
    from memory_mcp.server import serve

    # Whatever was acknowledged is on disk, and a thread that reads standard input cannot be
    # interrupted.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    run(serve(config | ({"read_only": True} if read_only else {}), whose))
