"""The command `agent-memory-daemon`."""

import asyncio
import logging
import signal
import socket
import sys
from collections.abc import Awaitable, Callable
from dataclasses import astuple
from pathlib import Path
from typing import TypeVar

import click
from memory_semantic import plain

# By whole names: a process that masks a large event imports this file on its own.
from memory_daemon import upkeep
from memory_daemon.access import CHANNELS, Access, Channel, Tokens
from memory_daemon.arguments import Call
from memory_daemon.database import Database
from memory_daemon.embedded import database_of
from memory_daemon.settings import BUNDLE_TOKENS, MIN_BUNDLE_TOKENS, Refused, Settings

_FIRST_TOKEN = """
Here is a token for the tenant "default" and its agent "default". It will not be shown again:

  export MEMORY_DAEMON_TOKEN={token}

For example, in Claude Code:

  claude mcp add --transport http memory {url} --header "Authorization: Bearer {token}"
"""
_T = TypeVar("_T")


@click.group()
def cli() -> None:
    """Record what agents do, and answer from it: an MCP server over PostgreSQL."""


@cli.command("serve")
def serve_command() -> None:
    """Serve the tools over HTTP, with an embedded PostgreSQL unless MEMORY_DAEMON_DSN is set."""
    from memory_daemon.server import serve  # loads the MCP SDK, which others do not need

    settings = Settings()
    for ends in (signal.SIGINT, signal.SIGTERM):
        signal.signal(ends, lambda *_: sys.exit())  # so that the database stops too

    def ready(url: str) -> None:
        tokens = Tokens(settings.tokens)
        if not tokens.all():
            print(
                _FIRST_TOKEN.format(token=tokens.make(Access("default", agent="default")), url=url)
            )
        print(f"Serving on {url}. Ctrl-C stops it.", flush=True)

    logging.basicConfig(format="%(message)s")
    logging.getLogger("memory_daemon").setLevel(logging.INFO)
    asyncio.run(serve(settings, ready))


@cli.command()
@click.option("--tenant", help="Only events of this tenant.")
@click.option("--event", metavar="ID")
@click.option("--session", metavar="ID")
@click.option("--tag")
@click.option("--before", metavar="TIME", help="A date, or 30d for older than 30 days.")
@click.option("--yes", is_flag=True, help="Forget them. Without this, only count them.")
def forget(yes: bool, **by: str | None) -> None:
    """Delete the events that match all options, and everything derived from them."""
    given = {name: value for name, value in by.items() if value}
    if not given.keys() - {"tenant"}:
        raise Refused("Nothing was forgotten. Say what: --event, --session, --tag or --before.")
    counts = _with_database(lambda dsn: upkeep.forget(dsn, given, really=yes))
    done, ask = "Forgotten, and verified to be gone: ", "With --yes, this would be forgotten: "
    rows = ", ".join(f"{count} {table}" for table, count in counts.items())
    print(f"{done if yes else ask}{rows}.")


_TENANT = click.option("--tenant", default="default", show_default=True)
_CHANNEL = click.option("--channel", type=click.Choice(CHANNELS), default="team", show_default=True)


@cli.command("import")
@click.argument("paths", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path))
@click.option("--agent", help="Whose they are, instead of amplifier or claude-code.")
@_TENANT
@_CHANNEL
def import_command(
    paths: tuple[Path, ...], agent: str | None, tenant: str, channel: Channel
) -> None:
    """Record what Amplifier's events.jsonl and Claude Code's transcripts hold, with its times.

    PATHS are files, or folders of them. What is recorded already is not recorded again.
    """
    from memory_daemon import transfer

    files = transfer.files_in(paths)
    done, left_out = _with_call(tenant, lambda call: transfer.bring_in(files, call, channel, agent))
    counts = ", ".join(f"{done[each]:,} {each}" for each in ("recorded", "known", "secrets masked"))
    print(f"{len(files):,} files: {counts}. Agents of {tenant} see them on channel {channel}.")
    for name, count in left_out.most_common():
        print(f"  left out {count:>9,}  {plain(str(name)[:200])}")  # a file's own words


@cli.command()
@click.option("--agent", default="", help="With --channel private: whose.")
@_TENANT
@_CHANNEL
def export(agent: str, tenant: str, channel: Channel) -> None:
    """Print decisions and tasks as Markdown: those that --channel may see."""
    from memory_daemon import transfer

    print(_with_call(tenant, lambda call: transfer.written_out(call, channel, agent)), end="")


def _with_call(tenant: str, work: Callable[[Call], Awaitable[_T]]) -> _T:
    async def run(dsn: str) -> _T:
        async with Database(dsn) as database:
            return await work(Call(database, Access(tenant)))

    return _with_database(run)


def _with_database(work: Callable[[str], Awaitable[_T]]) -> _T:
    async def run() -> _T:
        async with database_of(Settings()) as dsn:
            return await work(dsn)

    return asyncio.run(run())


@cli.group()
def token() -> None:
    """Make, list and revoke the tokens of clients."""


@token.command("make")
@_TENANT
@click.option(
    "--agent", help="Whose private events it records and sees.  [default: the tenant's name]"
)
@click.option(
    "--channel",
    type=click.Choice(CHANNELS),
    default="private",
    help="The widest channel it may use.",
)
@click.option(
    "--max-tokens",
    type=click.IntRange(MIN_BUNDLE_TOKENS, BUNDLE_TOKENS),
    default=BUNDLE_TOKENS,
    help="The largest bundle it may get.",
)
def token_make(tenant: str, agent: str | None, channel: Channel, max_tokens: int) -> None:
    """Make a token and print it. It will not be shown again."""
    print(Tokens(Settings().tokens).make(Access(tenant, channel, max_tokens, agent or tenant)))


@token.command("list")
def token_list() -> None:
    """Print each token's id, tenant, widest channel, largest bundle and agent."""
    for digest, access in Tokens(Settings().tokens).all().items():
        print(digest[:8], *astuple(access))


@token.command("revoke")
@click.argument("id")
def token_revoke(id: str) -> None:
    """Revoke a token. A running daemon refuses it at once."""
    Tokens(Settings().tokens).revoke(id)
    print(f"Revoked {id}.")


@cli.command()
def doctor() -> None:
    """Check that all is well. The exit code is 1 if anything is not."""
    settings = Settings()
    where = f"{settings.host}, port {settings.port}"
    try:
        socket.create_connection((settings.host, settings.port), 1).close()
        print(f"ok      something listens on {where}")
    except OSError:
        print(
            f"note    no daemon listens on {where}: agent-memory-daemon serve starts it", flush=True
        )
    findings = _with_database(lambda dsn: upkeep.examine(settings, dsn))
    for finding, well in findings.items():
        print("ok     " if well else "PROBLEM", finding)
    sys.exit(not all(findings.values()))


def main() -> None:
    """Run a command. A refusal prints one sentence to stderr, with exit code 1."""
    try:
        cli()
    except Refused as error:
        sys.exit(f"agent-memory-daemon: {error}")


if __name__ == "__main__":
    main()
