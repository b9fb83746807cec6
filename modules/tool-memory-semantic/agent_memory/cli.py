"""The commands of `agent-memory`: how they are asked. What they do is in the files they import."""

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING

import click

from .options import When, command, limit_option, since_filter, tag_filter, tag_label, yes_option

if TYPE_CHECKING:
    from .session import Session


class _InOrder(click.Group):
    """The commands in the order of their declaration, which is that of their use."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)


@click.group(
    cls=_InOrder,
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


@command(cli, "agents", "agents --json", of_agent=False)
def agents(session: "Session") -> None:
    """List the agents that have a store here."""
    from . import memories

    memories.agents(session)


@command(cli, 'search "which database did we pick?"', 'search "deploys" --since 30d --tag ops -n 3')
@click.argument("query")
@limit_option(5, "How many at most, up to 20.")
@since_filter
@tag_filter
def search(
    session: "Session", query: str, limit: int, since: datetime | None, tags: Sequence[str]
) -> None:
    """Find memories by meaning, the best first."""
    from . import memories

    memories.search(session, query, limit, since, tags)


@command(cli, 'store "We chose PostgreSQL for the users table." --tag database', "store - < note")
@click.argument("text")
@tag_label
def store(session: "Session", text: str, tags: Sequence[str]) -> None:
    """Remember a TEXT ("-" is standard input)."""
    from . import memories

    memories.store(session, text, tags)


@command(cli, "list", "list --since 7d", "list --tag database --limit 100", "list --all --json")
@since_filter
@tag_filter
@limit_option(20)
@click.option("--all", "everything", is_flag=True, help="All of them.")
def list_(
    session: "Session", since: datetime | None, tags: Sequence[str], limit: int, everything: bool
) -> None:
    """List memories, the newest first."""
    from . import memories

    memories.list_(session, since, tags, None if everything else limit)


@command(cli, "show mem-a3f2b8c1d4e5", "show a3f2b8c1d4e5 --json")
@click.argument("memory_id", metavar="ID")
def show(session: "Session", memory_id: str) -> None:
    """Show one memory whole."""
    from . import memories

    memories.show(session, memory_id)


@command(
    cli,
    "forget mem-a3f2b8c1d4e5",
    "forget --tag captured --since 1d",
    "forget --before 2025-01-01 --yes",
)
@click.argument("ids", nargs=-1, metavar="[ID]...")
@tag_filter
@since_filter
@click.option("--before", type=When(), help="Only those stored before: 2025-01-31, 52w.")
@yes_option
def forget(
    session: "Session",
    ids: Sequence[str],
    tags: Sequence[str],
    since: datetime | None,
    before: datetime | None,
    yes: bool,
) -> None:
    """Delete memories for good.

    Shows them and asks before. Afterwards it makes sure that they are gone from search and from the
    files on disk; a server takes them out of its files later.
    """
    from . import forget as forgetting

    if bool(ids) == bool(tags or since or before):
        raise click.UsageError("Name memories by their ids, or by --tag, --since and --before.")
    forgetting.forget(session, ids, tags, since, before, yes)


@command(cli, "export memories.jsonl", "export - | gzip > memories.jsonl.gz")
@click.argument("file", type=click.Path(dir_okay=False, allow_dash=True))
@yes_option
def export(session: "Session", file: str, yes: bool) -> None:
    """Write all memories to a FILE ("-" is standard output).

    A JSON object on each line, the first of which says what the file is: the texts in plain words,
    ids, times and tags, but no vectors. `agent-memory import` reads it, on any machine.

    A store that is read-only, as in a snapshot, is read from a private temporary copy.
    """
    from . import transfer

    transfer.export(session, file, yes)


@command(cli, "import memories.jsonl", "import notes.txt --tag notes", "import memory-store.yaml")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, allow_dash=True))
@tag_label
def import_(session: "Session", file: str, tags: Sequence[str]) -> None:
    """Read memories from a FILE ("-" is standard input).

    Takes an export, what list, search and show print as JSON, the YAML of the dev-memory bundle, or
    text with a memory on each line; packed with gzip, too. Safe to rerun: resumes after an
    interruption. Ids and times are kept, unless another memory has the id; a text that is known
    gets the tags of both and the later time.
    """
    from . import transfer

    transfer.import_(session, file, tags)


@command(
    cli, "move --to https://example.com:6333", "move --to local", "move --to local --remove-source"
)
@click.option("--to", metavar="URL", required=True, help='A Qdrant server, or "local".')
@click.option("--from", "source", metavar="URL", help="Where it is.  [default: the other place]")
@click.option("--remove-source", is_flag=True, help="Delete it there, once all of it is here.")
@yes_option
def move(session: "Session", to: str, source: str | None, remove_source: bool, yes: bool) -> None:
    """Move a store to a Qdrant server, or back to this machine.

    Copies everything, vectors as they are, and compares both. The store stays where it was too,
    until --remove-source. Safe to rerun: resumes after an interruption and takes along what was
    stored meanwhile, but brings back what was forgotten in the new place alone. Afterwards set
    qdrant_url, so that sessions use the new place.
    """
    from . import move as moving

    moving.move(session, to, source, remove_source, yes)


@command(
    cli,
    "reembed --model text-embedding-3-small",
    "reembed --model local",
    "reembed --model nomic-embed-text --base-url http://localhost:11434/v1",
)
@click.option(
    "--model", "-m", metavar="NAME", required=True, help='"local", or the name at the service.'
)
@click.option("--base-url", metavar="URL", help="The service.  [default: as the settings say]")
@click.option(
    "--dimensions", metavar="N", type=click.IntRange(1), help="A vector length to ask it for."
)
@yes_option
def reembed(
    session: "Session", model: str, base_url: str | None, dimensions: int | None, yes: bool
) -> None:
    """Change the embedding model of a store.

    Says what it will take, and asks. Meanwhile the store can be used as ever. Safe to rerun:
    resumes after an interruption. With the model that it has, the store is rebuilt without
    embedding anything, so that one of an older version gets what it lacks.
    """
    from . import upkeep

    upkeep.reembed(session, model, base_url, dimensions, yes)


@command(cli, "stats", "stats --html memory.html", "stats --json")
@click.option("--html", metavar="FILE", type=click.Path(dir_okay=False), help="Write a page.")
def stats(session: "Session", html: str | None) -> None:
    """Show numbers, growth and tags over time.

    With --html as a page for the browser: the memories over time and as a map by meaning, with
    search. It is one file, and loads nothing from the network.
    """
    from . import stats as numbers

    numbers.page(session, html) if html else numbers.stats(session)


@command(cli, "doctor", "doctor --agent sam --offline", "doctor --repair")
@click.option("--offline", is_flag=True, help="Do not try the embeddings service.")
@click.option("--repair", is_flag=True, help="Rebuild a damaged store from what can be read.")
@yes_option
def doctor(session: "Session", offline: bool, repair: bool, yes: bool) -> None:
    """Diagnose problems and suggest fixes.

    Exit code 1 if there is a problem. A repair says what it will take, asks, and keeps the damaged
    files. It also finishes what was interrupted, and gives new ids to memories that share one.
    """
    from . import upkeep

    upkeep.doctor(session, offline, repair, yes)


_COMPLETION = """\b
Examples:
  eval "$(agent-memory completion bash)"
  agent-memory completion fish > ~/.config/fish/completions/agent-memory.fish"""


@cli.command(epilog=_COMPLETION)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print what makes a SHELL complete this command."""
    from click.shell_completion import get_completion_class

    found = get_completion_class(shell)
    assert found is not None
    click.echo(found(cli, {}, "agent-memory", "_AGENT_MEMORY_COMPLETE").source())
