"""Tell a program what is remembered: `hook`."""

from ..options import command
from ..session import Session


@command("hook", of_agent=False, of_store=False, prints=False)
def hook(session: Session) -> None:
    """Tell Claude Code and others what is remembered, when they ask.

    `agent-memory setup` puts it into their settings. Such a program runs it when a session starts,
    and some before each prompt: it writes what happens on standard input, as JSON, and reads what
    its model is to know. This ends with 0 whatever happens, so that the session goes on.
    """
    from ..hook import main  # which `agent-memory hook` runs without loading the other commands

    main()
