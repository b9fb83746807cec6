"""The command `agent-memory`: which file in `commands/` holds which command."""

import shlex
from difflib import get_close_matches
from importlib import import_module
from typing import Any

import click

# In the order of use. A file is imported when one of its commands is asked for, and imports what is
# slow to load only when the command runs.
COMMANDS = {
    "search": "memories",
    "store": "memories",
    "unreplace": "memories",
    "pin": "memories",
    "unpin": "memories",
    "list": "memories",
    "show": "memories",
    "forget": "forget",
    "share": "share",
    "export": "transfer",
    "import": "transfer",
    "reembed": "reembed",
    "model": "model",
    "stats": "stats",
    "setup": "setup",
    "doctor": "doctor",
    "mcp": "mcp",
    "hook": "hook",
}


class _Commands(click.Group):
    """The commands of the table above."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        file = import_module(f".commands.{COMMANDS[cmd_name]}", __package__)
        declared = [each for each in vars(file).values() if isinstance(each, click.Command)]
        return next(each for each in declared if each.name == cmd_name)

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        near = get_close_matches(args[0], COMMANDS, 1)
        if near and args[0] not in COMMANDS and not ctx.resilient_parsing:
            line = shlex.join(["agent-memory", *near, *args[1:]])
            ctx.fail(f"No such command {args[0]!r}. Did you mean: {line}")
        return super().resolve_command(ctx, args)


@click.group(
    cls=_Commands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(package_name="amplifier-module-tool-memory-semantic")
def cli() -> None:
    """See, correct and repair what your Amplifier agents remember.

    \b
    Examples:
      agent-memory search "which database did we pick?"
      agent-memory list --since 7d
      agent-memory forget mem-a3f2b8c1d4e5
      agent-memory export memories.jsonl
      agent-memory doctor

    The agent is that of Amplifier's settings here, or the only one; --agent names another. Of an
    id, the beginning is enough, such as mem-a3f2, unless several begin so.
    """
