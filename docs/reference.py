"""What the tables of the documents say, read from the code.

A block in a page calls a function of this file, and cog puts what it returns below the block:
`.ci/run docs` writes all pages, `.ci/run lint` fails where one is out of date.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from inspect import getsource
from typing import Any

import click
from agent_memory.cli import cli
from memory_hooks.block import Block, line
from memory_hooks.recall import MIN_COSINE, MIN_COSINE_OF_OTHERS
from memory_semantic import limits as core
from memory_semantic.memory import Memory
from pydantic import TypeAdapter

# What stands in a table for a default that is not a value.
DEFAULTS = {
    "embedding_model": "chosen when a store is made",
    "base_url": "OpenAI, or `OPENAI_BASE_URL`",
    "dimensions": "the model's own",
    "lexical_weight": "1 with a model on this machine, else 0",
    "min_cosine": "the model's, as above",
    "qdrant_url": "`AGENT_MEMORY_QDRANT_URL`, else `local`",
    "qdrant_api_key": "`AGENT_MEMORY_QDRANT_API_KEY`",
}
MIB = 1024 * 1024
# The options of nearly every command, which the page shows once; a long one has further lines.
SHARED = re.compile(r"(?m)^  (?:-a, --agent|--root|--json|-h, --help) .*\n(?: {12,}.*\n)*")
# What the page shows of a command's help, besides its first line: no more words, no empty options.
PARTS = re.compile(r" *(?:Options|Commands|Examples):\n *\S")


def settings(config: type) -> str:
    """The table of the settings in a model or dataclass, from the descriptions of its fields."""
    properties: dict[str, dict[str, Any]] = TypeAdapter(config).json_schema()["properties"]
    rows = (
        (f"`{name}`", _default(name, each), each["description"])
        for name, each in properties.items()
    )
    return _table(("setting", "default", "meaning"), rows)


def limits() -> str:
    """The table of the limits that one meets, from the comments behind them."""
    described = re.findall(
        r"^((?!EMBED|WORKERS)[A-Z_]+) = .*  # (.+)$", getsource(core), re.MULTILINE
    )
    rows = ((f"`{name}`", _amount(getattr(core, name)), meaning) for name, meaning in described)
    return _table(("limit", "value", "meaning"), rows)


def events(carried: Mapping[str, str]) -> str:
    """The table of a module's events, from what it says each carries."""
    return _table(("event", "carries"), ((f"`{name}`", fields) for name, fields in carried.items()))


def thresholds() -> str:
    """The table of the cosines from which on a memory is recalled, by embedding model."""
    known = [(f"`{model}`", f"{least:g}") for model, least in MIN_COSINE.items()]
    return _table(("model", "close from"), [*known, ("any other", f"{MIN_COSINE_OF_OTHERS:g}")])


def recalled() -> str:
    """What a model reads before a prompt: a rule, and notes of two days, one by the agent."""
    said: list[tuple[str, int, str, dict[str, Any]]] = [
        ("a3f2", 20, "Never deploy on a Friday.", {"pinned": True, "said_by": "user"}),
        ("b71c", 20, "We chose PostgreSQL for the users table.", {"said_by": "user"}),
        ("c0de", 18, "The tests need Docker.", {"said_by": "agent"}),
    ]
    block = Block(500, None, lambda _: True, lambda each: line(each, each.id[4:8], True))
    for beginning, day, content, more in said:
        when = datetime(2026, 11, day, tzinfo=UTC)
        known = {"id": f"mem-{beginning}b8c1d4e5", "agent_id": "sam", "timestamp": when}
        block.add([Memory(**known, content=content, **more)])
    return "\n" + _fenced(block.text())


def commands() -> str:
    """What each command is, its own options, and examples, in a terminal of 100 columns."""
    return "\n".join(["", *_commands_of(cli, _top())])


def shared() -> str:
    """The options that `commands` leaves out, as `search` has them."""
    command = cli.get_command(_top(), "search")
    assert command
    context = click.Context(command, _top(), "search")
    return "\n" + _fenced("".join(SHARED.findall(command.get_help(context) + "\n")))


def _top() -> click.Context:
    return click.Context(cli, None, "agent-memory", terminal_width=100, **cli.context_settings)


def _commands_of(group: click.Group, within: click.Context, prefix: str = "") -> Iterator[str]:
    for name in group.list_commands(within):
        command = group.get_command(within, name)
        assert command
        context = click.Context(command, within, name)
        yield f"## {prefix}{name}\n"
        usage, first, *more = SHARED.sub("", command.get_help(context) + "\n").split("\n\n")
        kept = (each for each in more if PARTS.match(each))
        yield _fenced("\n\n".join((usage, first, *kept)))
        if isinstance(command, click.Group):
            yield from _commands_of(command, context, f"{name} ")


def _default(name: str, field: Mapping[str, Any]) -> str:
    default = field.get("default")
    if default is None:
        return DEFAULTS[name]
    if isinstance(default, bool):
        return str(default).lower()
    if default == []:
        return "nobody"
    return f"`{default}`" if isinstance(default, str) else _amount(default)


def _amount(number: float) -> str:
    whole = number >= MIB and number % MIB == 0
    return f"{number // MIB} MiB" if whole else f"{number:,}".removesuffix(".0")


def _table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    lines = [head, ["---" for _ in head], *rows]
    return "\n".join(["", *(f"| {' | '.join(cells)} |" for cells in lines), ""])


def _fenced(text: str) -> str:
    return f"```text\n{text.rstrip()}\n```\n"
