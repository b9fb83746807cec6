"""Completion of the command in a shell: `completion`."""

import click

_EXAMPLES = """\b
Examples:
  eval "$(agent-memory completion bash)"
  agent-memory completion fish > ~/.config/fish/completions/agent-memory.fish"""


@click.command(epilog=_EXAMPLES)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print the completion script for SHELL."""
    from click.shell_completion import get_completion_class

    found = get_completion_class(shell)
    assert found is not None
    command = ctx.find_root().command
    click.echo(found(command, {}, "agent-memory", "_AGENT_MEMORY_COMPLETE").source())
