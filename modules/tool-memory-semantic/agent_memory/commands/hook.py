"""Tell a program what is remembered: `hook`."""

from ..options import command
from ..session import Session


@command("hook", of_agent=False, of_store=False, prints=False)
def hook(session: Session) -> None:
    """Tell the model of another program what is remembered.

    Programs run this when a session starts, and some before each prompt; you need not. It reads the
    event from standard input, as JSON, and prints what the model should know. The exit code is
    always 0, so that the session goes on.
    """
    from ..hook import main  # which `agent-memory hook` runs without loading the other commands

    main()
