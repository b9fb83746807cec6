"""The command `agent-memory-daemon`."""

import asyncio
import functools
import logging
import os
import signal
import sys
from collections.abc import Callable, Coroutine
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import click
from memory_semantic import EmbeddingError, counted

from .database import CHANNELS, Access, Channel, Refused, new_token, owner
from .embedded import embedded
from .forget import forgotten

# PostgreSQL refuses to run as root, and the user it runs as instead cannot enter root's home.
_HOME = "~/.amplifier/memory-daemon" if os.geteuid() else "/var/lib/memory-daemon"
_TOKENS = """
  SELECT left(encode(sha256, 'hex'), 8), tenant_id, agent, channel, made::date::text,
    CASE WHEN may_rule THEN 'may rule' ELSE '' END FROM tokens ORDER BY made"""
_REVOKE = "DELETE FROM tokens WHERE left(encode(sha256, 'hex'), 8) = %s"


@click.group()
@click.option("--dsn", envvar="MEMORY_DAEMON_DSN", help="Your PostgreSQL, 15 to 18.")
@click.option(
    "--home",
    envvar="MEMORY_DAEMON_HOME",
    type=click.Path(path_type=Path),
    default=_HOME,
    show_default=True,
    help="Without --dsn: where the embedded PostgreSQL keeps its data.",
)
@click.pass_context
def cli(context: click.Context, dsn: str | None, home: Path) -> None:
    """Record what agents do, and answer from it: an MCP server over PostgreSQL."""
    for ends in (signal.SIGINT, signal.SIGTERM):
        signal.signal(ends, lambda *_: sys.exit())  # so that the database stops too
    logging.basicConfig(format="%(message)s")
    logging.getLogger("psycopg").setLevel(logging.ERROR)  # its warnings may quote what is recorded
    context.obj = nullcontext(dsn) if dsn else embedded(home.expanduser().absolute())


def _with_dsn(work: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    @click.pass_obj
    @functools.wraps(work)
    def run(database: Any, **options: Any) -> None:
        with database as dsn:
            asyncio.run(work(dsn, **options))

    return run


@cli.command()
@click.option("--host", envvar="MEMORY_DAEMON_HOST", default="127.0.0.1", show_default=True)
@click.option(
    "--port",
    envvar="MEMORY_DAEMON_PORT",
    type=click.IntRange(0, 65535),
    default=8765,
    show_default=True,
)
@click.option(
    "--allow-host",
    "hosts",
    envvar="MEMORY_DAEMON_ALLOWED_HOSTS",
    multiple=True,
    help="A name by which other machines reach it; in the variable, several with commas.",
)
@_with_dsn
async def serve(dsn: str, host: str, port: int, hosts: tuple[str, ...]) -> None:
    """Serve the tools over HTTP."""
    from . import server  # loads the MCP SDK, which other commands do not need

    await server.serve(dsn, host, port, " ".join(hosts).replace(",", " ").split())


@cli.command()
@click.option("--tenant", default="default", show_default=True)
@click.option("--event", metavar="ID")
@click.option("--session", metavar="ID")
@click.option("--tag")
@click.option("--before", metavar="TIME", help="Recorded before a date, or 30d: 30 days ago.")
@click.option("--not-in-force", is_flag=True, help="Keep active decisions and unfinished tasks.")
@click.option("--yes", is_flag=True, help="Forget them. Without this, only count them.")
@_with_dsn
async def forget(dsn: str, not_in_force: bool, yes: bool, **by: str | None) -> None:
    """Delete a tenant's events that match all options, and everything derived from them."""
    given = {name: value for name, value in by.items() if value is not None}
    if not given.keys() - {"tenant"}:
        raise Refused("Nothing was forgotten. Say what: --event, --session, --tag or --before.")
    count = await forgotten(dsn, given, in_force=not not_in_force, really=yes)
    what = f"{counted(count, 'event')} and all that is derived from it"
    print(f"Forgotten: {what}." if yes else f"With --yes, {what} would be forgotten.")


@cli.group()
def token() -> None:
    """Make, list and revoke the tokens of clients."""


@token.command()
@click.option("--tenant", default="default", show_default=True)
@click.option("--agent", default="default", show_default=True, help="Who records and asks.")
@click.option(
    "--channel",
    type=click.Choice(CHANNELS),
    default="private",
    show_default=True,
    help="The widest channel that it may use.",
)
@click.option("--may-rule", is_flag=True, help="It may make rules for all (scope global).")
@_with_dsn
async def make(dsn: str, tenant: str, agent: str, channel: Channel, may_rule: bool) -> None:
    """Make a token and print it. It will not be shown again."""
    if not (tenant.strip() and agent.strip()):
        raise Refused("A tenant and an agent need a name. No token was made.")
    async with owner(dsn) as connection:
        made = await new_token(connection, Access(tenant, agent, channel, may_rule))
    print(made)


@token.command("list")
@_with_dsn
async def list_(dsn: str) -> None:
    """Print each token's id, tenant, agent, widest channel, day, and whether it may make rules."""
    async with owner(dsn) as connection:
        for row in await (await connection.execute(_TOKENS)).fetchall():
            print(*row.values())


@token.command()
@click.argument("id")
@_with_dsn
async def revoke(dsn: str, id: str) -> None:
    """Revoke a token. A running daemon refuses it at once."""
    async with owner(dsn) as connection:
        gone = (await connection.execute(_REVOKE, [id])).rowcount
        if gone != 1:
            raise Refused(f"There is no token {id}. Nothing was revoked. See: token list")
    print(f"Revoked {id}.")


def main() -> None:
    """Run a command. A refusal prints one sentence to stderr, with exit code 1."""
    try:
        cli()
    except (Refused, EmbeddingError) as error:
        sys.exit(f"agent-memory-daemon: {error}")


if __name__ == "__main__":
    main()
