"""How commands are declared: the options they share, their help, and what becomes of their errors.

Nothing heavy is imported before a command runs, so that help and completion come at once.
"""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import wraps
from typing import Any

import click
from memory_semantic import AgentMemoryError, InputError

from .causes import cause

# Whatever a command does, doing it twice is the same as doing it once.
_INTERRUPTED = "Interrupted. What it was doing may or may not be done; running it again is safe."


class BadInputError(click.ClickException):
    """What was given cannot be used: exit code 2."""

    exit_code = 2


class _Command(click.Command):
    """A command that refuses empty values. They come from shell variables that are not set; with a
    default in their place, the command could work on somebody's real memories.
    """

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        try:
            left = super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            texts = any(isinstance(each, click.Argument) for each in self.params)
            if texts and (not error.option_name.startswith("--") or " " in error.option_name):
                told = f"{error.message} Put -- before a text that begins with -."
                raise click.NoSuchOption(
                    error.option_name, told, error.possibilities, ctx
                ) from None
            raise
        for param in () if ctx.resilient_parsing else self.params:
            given = ctx.params.get(param.name or "")
            for value in given if isinstance(given, tuple) else (given,):
                if isinstance(value, str) and not value.strip():
                    raise click.BadParameter("it is empty.", ctx, param)
        return left


class When(click.ParamType[datetime]):
    """A date or a time by the local clock (2026-01-31, 2026-01-31T09:00), or how long ago (7d), or
    `ahead`. A date is its beginning, or with `end` its end.
    """

    name = "when"
    _UNITS = {"h": "hours", "d": "days", "w": "weeks"}  # noqa: RUF012 - a constant

    def __init__(self, end: bool = False, ahead: bool = False) -> None:
        self._end, self._ahead = end, ahead

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> datetime:
        """The moment that `value` names. Fails with a usage error."""
        try:
            if value[-1:] in self._UNITS and value[:-1].isdecimal():
                number = int(value[:-1])
                if not number:  # nothing was stored since, and all of it before
                    raise ValueError
                span = timedelta(**{self._UNITS[value[-1]]: number})
                return datetime.now(UTC) + (span if self._ahead else -span)
            from memory_semantic import times

            return times.moment(value, None, end=self._end)
        except (ValueError, OverflowError):
            ago = "in what time" if self._ahead else "how long ago"
            self.fail(f"give a date such as 2026-01-31, or {ago}, such as 12h, 7d, 4w.")


_AGENT = click.Option(
    ["--agent", "-a"],
    metavar="NAME",
    help="Whose memories.  [default: as the settings say, the only one, or your login]",
)
_ROOT = click.Option(
    ["--root"],
    metavar="DIR",
    type=click.Path(file_okay=False, readable=False),
    help="The folder that holds all stores.  [default: as the settings say]",
)
_JSON = click.Option(["--json", "as_json"], is_flag=True, help="Print JSON, for scripts.")


def command(
    *examples: str, of_agent: bool = True, of_store: bool = True, prints: bool = True
) -> Callable[[Callable[..., None]], click.Command]:
    """Declare a command with the options that all commands have, and with examples in its help. It
    has --json unless it `prints` nothing, --root if it is about stores.

    Errors end it with a sentence: exit code 1 if something failed, 2 if it was used wrongly.
    """

    def add(function: Callable[..., None]) -> click.Command:
        @wraps(function)
        def call(
            root: str | None = None, as_json: bool = False, agent: str | None = None, **own: Any
        ) -> None:
            named = ""
            try:
                from .session import Session

                session = Session(agent, root, as_json)
                named = session.named
                function(session, **own)
            except InputError as error:
                raise BadInputError(str(error)) from error
            except AgentMemoryError as error:
                raise click.ClickException(_with_options(str(error), named)) from error
            except KeyboardInterrupt as error:
                raise click.ClickException(_INTERRUPTED) from error
            except (BrokenPipeError, click.ClickException, click.Abort, click.exceptions.Exit):
                raise
            except Exception as error:
                raise click.ClickException(cause(error)) from error

        lines = "\n".join(["\b", "Examples:", *(f"  agent-memory {each}" for each in examples)])
        name = function.__name__.removesuffix("_")
        declared = click.command(name, cls=_Command, epilog=lines)(call)
        shared = {_AGENT: of_agent, _ROOT: of_store, _JSON: prints}
        declared.params += [option for option, has in shared.items() if has]
        return declared

    return add


def _with_options(said: str, named: str) -> str:
    """What an error says; a command that it names is to have the options by which the store was
    `named`, too.
    """
    lacks = named and "agent-memory " in said and " --agent " not in said
    return f"{said}\nTo the command above, add{named}" if lacks else said


def _tags(help: str) -> Callable[..., Any]:
    return click.option("--tag", "-t", "tags", multiple=True, metavar="TAG", help=help)


tag_filter = _tags("Only those with this tag, or any of several.")
tag_label = _tags("A label to filter by; repeatable.")
since_filter = click.option(
    "--since", type=When(), help="Only those stored since: 7d, 12h, 2026-01-31."
)
until_filter = click.option(
    "--until", type=When(end=True), help="Only those stored until: 7d, 12h, 2026-01-31."
)
yes_option = click.option("--yes", "-y", is_flag=True, help="Do not ask.")


def limit_option(default: int, help: str = "How many at most.") -> Callable[..., Any]:
    """The option for the number of rows."""
    number = click.IntRange(1)
    return click.option(
        "--limit", "-n", metavar="N", type=number, default=default, show_default=True, help=help
    )
