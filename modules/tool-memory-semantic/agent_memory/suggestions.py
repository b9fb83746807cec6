"""The commands that the command suggests: to be pasted, they are about the store it worked on."""

import re
import shlex

import click

from .cli import COMMANDS

# Up to the end of its line or code span, or the next one. The core writes them, too.
_SUGGESTED = re.compile(
    rf"\bagent-memory (model (?:fetch|list)|{'|'.join(COMMANDS)})\b"
    r"(?=((?:(?!agent-memory )[^`\n])*))"
)
_WITHOUT_AGENT = ("agents", "model fetch", "model list")


def completed(text: str, agent: str | None = None) -> str:
    """`text` with the --agent (or `agent`) and the --root that this run was given added to each
    command that it suggests.
    """
    context = click.get_current_context(silent=True)
    given = context.params if context else {}
    options = {"--agent": agent or given.get("agent"), "--root": given.get("root")}

    def complete(found: re.Match[str]) -> str:
        words = [found[0]]
        for option, value in options.items():
            needless = option in found[2] or (option == "--agent" and found[1] in _WITHOUT_AGENT)
            words += [option, shlex.quote(value)] if value and not needless else []
        return " ".join(words)

    return _SUGGESTED.sub(complete, text)
