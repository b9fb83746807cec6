"""Writes the reference of the command line from its own help: `uv run docs/command_line.py`."""

from pathlib import Path

import click
from agent_memory.cli import cli

PAGE = Path(__file__).with_name("command-line.md")


def reference() -> str:
    """The page: each command with its help, as a terminal of 100 columns shows it."""
    top = click.Context(cli, None, "agent-memory", terminal_width=100, **cli.context_settings)
    parts = ["# agent-memory: the command line\n", _help(cli, top)]
    for name, command in cli.commands.items():
        context = click.Context(command, top, name)
        parts += [f"## {name}\n", _help(command, context)]
    return "\n".join(parts)


def _help(command: click.Command, context: click.Context) -> str:
    return f"```text\n{command.get_help(context)}\n```\n"


if __name__ == "__main__":
    PAGE.write_text(reference())
