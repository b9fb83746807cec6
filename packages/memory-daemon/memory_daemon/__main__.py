"""The command `agent-memory-daemon`."""

import asyncio
import logging
import os
import secrets
import signal
import sys
from collections.abc import Awaitable, Callable
from contextlib import nullcontext
from pathlib import Path
from typing import TypeVar

import click

from .database import CHANNELS, Access, Channel, Refused, owner, sha256
from .embedded import embedded
from .forget import forget

_FIRST_TOKEN = """
Here is a token for the tenant "default" and its agent "default". It will not be shown again:

  export MEMORY_DAEMON_TOKEN={token}

For example, in Claude Code:

  claude mcp add --transport http memory {url} --header "Authorization: Bearer {token}"
"""
# PostgreSQL refuses to run as root, and the user it runs as instead cannot enter root's home.
_HOME = "~/.amplifier/memory-daemon" if os.geteuid() else "/var/lib/memory-daemon"
_Result = TypeVar("_Result")


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

    def run(work: Callable[[str], Awaitable[_Result]]) -> _Result:
        async def working(address: str) -> _Result:
            return await work(address)

        with nullcontext(dsn) if dsn else embedded(home.expanduser().absolute()) as address:
            return asyncio.run(working(address))

    context.obj = run


@cli.command("serve")
@click.option("--host", envvar="MEMORY_DAEMON_HOST", default="127.0.0.1", show_default=True)
@click.option("--port", envvar="MEMORY_DAEMON_PORT", default=8765, show_default=True)
@click.option(
    "--allow-host",
    "hosts",
    envvar="MEMORY_DAEMON_ALLOWED_HOSTS",
    multiple=True,
    help="A name by which other machines reach it.",
)
@click.pass_obj
def serve_command(run: Callable[..., None], host: str, port: int, hosts: tuple[str, ...]) -> None:
    """Serve the tools over HTTP, with an embedded PostgreSQL unless --dsn is given."""
    from .server import serve  # loads the MCP SDK, which others do not need

    for ends in (signal.SIGINT, signal.SIGTERM):
        signal.signal(ends, lambda *_: sys.exit())  # so that the database stops too
    logging.basicConfig(format="%(message)s")

    async def work(dsn: str) -> None:
        first = ""
        async with owner(dsn) as connection:
            if not (await connection.execute("SELECT FROM tokens LIMIT 1")).rowcount:
                first = await _make(connection, Access())

        def ready(url: str) -> None:
            if first:
                print(_FIRST_TOKEN.format(token=first, url=url))
            print(f"Serving on {url}. Ctrl-C stops it.", flush=True)

        await serve(dsn, host, port, [*hosts], ready)

    run(work)


@cli.command("forget")
@click.option("--tenant", help="Only events of this tenant.")
@click.option("--event", metavar="ID")
@click.option("--session", metavar="ID")
@click.option("--tag")
@click.option("--before", metavar="TIME", help="Recorded before a date, or 30d: 30 days ago.")
@click.option(
    "--but-in-force", is_flag=True, help="Spare active decisions, and tasks that are not done."
)
@click.option("--yes", is_flag=True, help="Forget them. Without this, only count them.")
@click.pass_obj
def forget_command(
    run: Callable[..., dict[str, int]], but_in_force: bool, yes: bool, **by: str | None
) -> None:
    """Delete the events that match all options, and everything derived from them."""
    given = {name: value for name, value in by.items() if value}
    if not given.keys() - {"tenant"}:
        raise Refused("Nothing was forgotten. Say what: --event, --session, --tag or --before.")
    counts = run(lambda dsn: forget(dsn, given, in_force=not but_in_force, really=yes))
    rows = ", ".join(f"{count} {table}" for table, count in counts.items())
    print(f"{'Forgotten: ' if yes else 'With --yes, this would be forgotten: '}{rows}.")


@cli.group()
def token() -> None:
    """Make, list and revoke the tokens of clients."""


@token.command("make")
@click.option("--tenant", default="default", show_default=True)
@click.option("--agent", default="default", show_default=True, help="Who records and asks with it.")
@click.option(
    "--channel",
    type=click.Choice(CHANNELS),
    default="private",
    show_default=True,
    help="The widest channel that it may use.",
)
@click.option("--may-rule", is_flag=True, help="It may make rules for all (scope global).")
@click.pass_obj
def token_make(
    run: Callable[..., str], tenant: str, agent: str, channel: Channel, may_rule: bool
) -> None:
    """Make a token and print it. It will not be shown again."""

    async def work(dsn: str) -> str:
        async with owner(dsn) as connection:
            return await _make(connection, Access(tenant, agent, channel, may_rule))

    print(run(work))


async def _make(connection, access: Access) -> str:
    made = f"mem_{secrets.token_urlsafe(32)}"
    values = [sha256(made), access.tenant, access.agent, access.channel, access.may_rule]
    await connection.execute("INSERT INTO tokens VALUES (%s, %s, %s, %s, %s)", values)
    return made


@token.command("list")
@click.pass_obj
def token_list(run: Callable[..., list[dict[str, object]]]) -> None:
    """Print each token's id, tenant, agent, widest channel, whether it may rule, and its age."""

    async def work(dsn: str) -> list[dict[str, object]]:
        async with owner(dsn) as connection:
            found = await connection.execute(
                "SELECT left(encode(sha256, 'hex'), 8), tenant_id, agent, channel, CASE WHEN"
                " may_rule THEN 'may rule' ELSE '' END, made::date::text FROM tokens ORDER BY made"
            )
            return await found.fetchall()

    for row in run(work):
        print(*row.values())


@token.command("revoke")
@click.argument("id")
@click.pass_obj
def token_revoke(run: Callable[..., None], id: str) -> None:
    """Revoke a token. A running daemon refuses it at once."""

    async def work(dsn: str) -> None:
        async with owner(dsn) as connection:
            gone = await connection.execute(
                "DELETE FROM tokens WHERE starts_with(encode(sha256, 'hex'), %s)", [id]
            )
            if gone.rowcount != 1:
                raise Refused(f"{gone.rowcount} tokens begin with {id}. No token was revoked.")

    run(work)
    print(f"Revoked {id}.")


def main() -> None:
    """Run a command. A refusal prints one sentence to stderr, with exit code 1."""
    try:
        cli()
    except Refused as error:
        sys.exit(f"agent-memory-daemon: {error}")


if __name__ == "__main__":
    main()
