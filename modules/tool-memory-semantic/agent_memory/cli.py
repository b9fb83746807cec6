"""The command `agent-memory`: its commands, each in a file of `commands/`."""

from importlib import import_module

import click

# In the order of use, each with the file that it is in. A file is imported when its command is
# asked for, and imports what is slow to load only when the command runs.
COMMANDS = {
    "search": "search",
    "store": "store",
    "unreplace": "pin",
    "pin": "pin",
    "unpin": "pin",
    "list": "list",
    "show": "show",
    "forget": "forget",
    "share": "share",
    "export": "export",
    "import": "import_",
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


@click.group(
    cls=_Commands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(package_name="amplifier-module-tool-memory-semantic")
def cli() -> None:
    """See, correct and repair what your agents remember.

    \b
    Examples:
      agent-memory search "which database did we pick?"
      agent-memory list --since 7d
      agent-memory forget mem-a3f2b8c1d4e5
      agent-memory export memories.jsonl
      agent-memory doctor

    The agent is that of Amplifier's settings here, or the only one, or that of your login; --agent
    names another. Of an id, the first four characters are enough, as in mem-a3f2, unless several
    begin so.
    """
