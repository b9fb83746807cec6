"""The person sees which tags there are: tags."""

import asyncio

from agent_memory.output import local_time
from command import Command
from conftest import Clock, MakeStorage


def test_lists_the_most_used_first(
    command: Command, make_storage: MakeStorage, clock: Clock
) -> None:
    storage = make_storage()
    asyncio.run(storage.store("one", ["ops", "database"]))
    clock.advance(days=1)
    asyncio.run(storage.store("two", ["ops", "api"]))
    day, next_day = "2026-06-15T12:00:00.000000+00:00", "2026-06-16T12:00:00.000000+00:00"
    assert command.json("tags") == [
        {"tag": "ops", "memories": 2, "last_stored": next_day},
        {"tag": "api", "memories": 1, "last_stored": next_day},
        {"tag": "database", "memories": 1, "last_stored": day},
    ]
    first, *_ = command.run("tags").stdout.splitlines()
    assert first == f"2\t{local_time(clock.now)}\tops"


def test_lists_more_tags_than_stats_draws(command: Command) -> None:
    for number in range(12):
        command.run("store", f"note {number}", "--tag", f"tag {number}")
    assert len(command.json("tags")) == 12


def test_says_if_no_memory_has_a_tag(command: Command) -> None:
    command.run("store", "one")
    assert command.json("tags") == []
    assert "no memory with a tag" in command.run("tags").stderr
