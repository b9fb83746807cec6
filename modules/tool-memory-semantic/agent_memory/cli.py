"""The command `agent-memory`: its commands, and which file of `commands` holds each."""

from collections import UserDict
from importlib import import_module

import click

# The file of each, and how its help begins, in the order of their use. A file is imported when one
# of its commands is asked for; to list them all takes no import.
COMMANDS = {
    "agents": ("memories", "List the agents that have a store here."),
    "search": ("memories", "Find memories by meaning, the best first."),
    "store": ("memories", 'Remember a TEXT ("-" is standard input).'),
    "list": ("memories", "List memories, the newest first."),
    "show": ("memories", "Show one memory whole."),
    "forget": ("forget", "Delete memories for good."),
    "export": ("transfer", 'Write all memories to a FILE ("-" is standard output).'),
    "import": ("transfer", 'Read memories from a FILE ("-" is standard input).'),
    "move": ("move", "Move a store to a Qdrant server, or back to this machine."),
    "reembed": ("reembed", "Change the embedding model of a store."),
    "stats": ("stats", "Show numbers, growth and tags over time."),
    "doctor": ("doctor", "Diagnose problems and suggest fixes."),
    "completion": ("completion", "Print what makes a SHELL complete this command."),
}
# What lists show of them.
_LISTED = {name: click.Command(name, short_help=begins) for name, (_, begins) in COMMANDS.items()}


class _Files(UserDict[str, click.Command]):
    """The commands, each loaded from its file when it is looked up."""

    def __getitem__(self, key: str) -> click.Command:
        file = import_module(f".commands.{COMMANDS[key][0]}", __package__)
        declared = [each for each in vars(file).values() if isinstance(each, click.Command)]
        return next(each for each in declared if each.name == key)


class _Commands(click.Group):
    """The commands of the table above."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        return _LISTED.get(cmd_name)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name, listed, rest = super().resolve_command(ctx, args)  # ends for what is no command
        return name, self.commands[name] if name and listed else None, rest


@click.group(
    cls=_Commands,
    commands=_Files(_LISTED),
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(package_name="amplifier-module-tool-memory-semantic")
def cli() -> None:
    """See, correct, move and repair what your Amplifier agents remember.

    \b
    Examples:
      agent-memory search "which database did we pick?"
      agent-memory list --since 7d
      agent-memory forget mem-a3f2b8c1d4e5
      agent-memory export memories.jsonl
      agent-memory doctor

    The agent is the one that Amplifier's settings name in this folder; --agent names another.
    """
