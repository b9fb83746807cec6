"""The command `agent-memory-daemon`."""

import argparse
import asyncio
import sys
from collections.abc import Sequence

from .access import CHANNELS, Tokens
from .doctor import examine
from .forgetting import forget
from .running import database_of, serve
from .settings import BUNDLE_TOKENS, MIN_BUNDLE_TOKENS, Refused, Settings

FIRST_TENANT = "default"
_READY = "Serving on {url}. Stop with Ctrl-C."
_FIRST_TOKEN = """
A token was made for tenant {tenant}. It is shown this once:

  export MEMORY_DAEMON_TOKEN={token}

For example, in Claude Code:

  claude mcp add --transport http memory {url} --header "Authorization: Bearer {token}"
"""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a command; the exit code is 1 where it is refused or something is not well."""
    options = _parser().parse_args(arguments)
    try:
        sys.exit(options.run(Settings.read(), options))
    except Refused as error:
        sys.exit(f"agent-memory-daemon: {error}")
    except KeyboardInterrupt:
        sys.exit(130)


def _serve(settings: Settings, _: argparse.Namespace) -> None:
    def ready(url: str) -> None:
        tokens = Tokens(settings.tokens)
        if not tokens.all():
            token = tokens.make(FIRST_TENANT)
            print(_FIRST_TOKEN.format(tenant=FIRST_TENANT, token=token, url=url))
        print(_READY.format(url=url), flush=True)

    asyncio.run(serve(settings, ready))


def _forget(settings: Settings, options: argparse.Namespace) -> int:
    by = {
        name: value
        for name in ("tenant", "event", "session", "tag", "before")
        if (value := getattr(options, name))
    }
    if not by.keys() - {"tenant"}:
        raise Refused("Nothing was forgotten. Say what: --event, --session, --tag or --before.")

    async def run(really: bool) -> dict[str, int]:
        async with database_of(settings) as dsn:
            return await forget(dsn, by, really=really)

    if not options.yes:
        print(f"This will be forgotten for good: {_told(asyncio.run(run(False)))}.")
        if input("Forget it? [y/N] ").strip().lower() != "y":
            raise Refused("Nothing was forgotten.")
    print(f"Forgotten, and checked that nothing is left: {_told(asyncio.run(run(True)))}.")
    return 0


def _told(counts: dict[str, int]) -> str:
    return ", ".join(f"{count} {table}" for table, count in counts.items())


def _token(settings: Settings, options: argparse.Namespace) -> None:
    tokens = Tokens(settings.tokens)
    if options.action == "make":
        print(tokens.make(options.tenant, options.channel, options.max_tokens))
    elif options.action == "revoke":
        tokens.revoke(options.id)
        print(f"Revoked {options.id}.")
    else:
        for access in tokens.all():
            print(access.id, access.tenant, access.channel, access.max_tokens, access.made)


def _doctor(settings: Settings, _: argparse.Namespace) -> int:
    async def run() -> int:
        problems = 0
        async with database_of(settings) as dsn:
            async for well, finding in examine(settings, dsn):
                problems += not well
                print("ok      " if well else "PROBLEM ", finding)
        return int(problems > 0)

    return asyncio.run(run())


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="agent-memory-daemon", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="command")
    command = commands.add_parser("serve", help="serve the tools over HTTP")
    command.set_defaults(run=_serve)
    command = commands.add_parser("forget", help="delete events and all that was made of them")
    command.add_argument("--tenant", help="only of this tenant")
    command.add_argument("--event", metavar="ID")
    command.add_argument("--session", metavar="ID")
    command.add_argument("--tag")
    command.add_argument("--before", metavar="TIME", help="a date, or 30d for older than 30 days")
    command.add_argument("--yes", action="store_true", help="do not ask")
    command.set_defaults(run=_forget)
    command = commands.add_parser("token", help="make, list and revoke the tokens of clients")
    command.set_defaults(run=_token)
    actions = command.add_subparsers(required=True, dest="action", metavar="action")
    action = actions.add_parser("make", help="a new token, shown this once")
    action.add_argument("--tenant", default=FIRST_TENANT)
    action.add_argument("--channel", choices=CHANNELS, default="private", help="the widest")
    action.add_argument("--max-tokens", type=_bundle_tokens, default=BUNDLE_TOKENS)
    actions.add_parser("list", help="id, tenant, channel, largest bundle, when it was made")
    action = actions.add_parser("revoke", help="take a token back, at once")
    action.add_argument("id")
    command = commands.add_parser("doctor", help="say what is right and what is not")
    command.set_defaults(run=_doctor)
    return parser


def _bundle_tokens(given: str) -> int:
    if not MIN_BUNDLE_TOKENS <= int(given) <= BUNDLE_TOKENS:
        raise argparse.ArgumentTypeError(f"from {MIN_BUNDLE_TOKENS} to {BUNDLE_TOKENS}")
    return int(given)


if __name__ == "__main__":
    main()
