"""Version 1.3.0 in a separate process and today's in this one, on one store at the same time."""

import asyncio
import json
import re
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from command import Command
from conftest import MakeStorage
from processes import release
from processes import start as start_today

from old import OldVersion, start, unpack
from old.hammer import SHARED, hammer

FACT = "The launch is planned for the second week of May."
OTHER = "Invoices are sent on the first working day of a month."


def contents(found: Any) -> list[str]:
    return [memory["content"] for memory in found]


@pytest.mark.parametrize("maker", ["1.3.0", "today"])
async def test_each_finds_changes_and_forgets_what_the_other_stored(
    root: Path, make_storage: MakeStorage, maker: str
) -> None:
    today = make_storage()
    with OldVersion(root) as old:
        if maker == "today":
            ours = await today.store(FACT, ["ours"])
            [theirs] = old.call("store_many", [OTHER])
        else:
            [theirs] = old.call("store_many", [OTHER])
            ours = await today.store(FACT, ["ours"])
        assert contents(old.call("search", "When do we launch?", 1)) == [FACT]
        assert [m.content for m in await today.search("When are invoices sent?", 1)] == [OTHER]

        assert old.call("store", FACT, ["theirs"]) == ours
        assert await today.store(OTHER, ["ours"]) == theirs
        assert [m.tags for m in await today.search(FACT, 1)] == [["ours", "theirs"]]
        assert old.call("count") == await today.count() == 2

        assert await today.delete([theirs]) == 1
        assert contents(old.call("get_recent", 9)) == contents(old.call("search", OTHER)) == [FACT]
        [theirs] = old.call("store_many", [OTHER])
        assert old.call("delete", [theirs]) == 1
        assert [m.content for m in await today.search(OTHER)] == [FACT]


async def test_longer_ids_are_searched_and_shown_by_the_old_version(
    root: Path, make_storage: MakeStorage
) -> None:
    ours = await make_storage().store(FACT, ["launch"])
    assert re.fullmatch("mem-[0-9a-f]{12}", ours)
    with OldVersion(root) as old:
        theirs = old.call("store", OTHER)
        assert old.call("get", theirs)["content"] == OTHER
        for found in (
            old.call("search", "launch", 1),
            old.call("get_recent", 5, None, None, ["launch"]),
        ):
            assert [(memory["id"], memory["content"]) for memory in found] == [(ours, FACT)]


@pytest.mark.parametrize("maker", ["1.3.0", "today"])
async def test_nothing_acknowledged_is_lost_between_them(
    root: Path, make_storage: MakeStorage, command: Command, maker: str
) -> None:
    if maker == "today":
        await make_storage().store(FACT)
    else:
        with OldVersion(root) as old:
            old.call("store", FACT)
    children = [start("-m", "old.hammer", root, f"old {number}", 2) for number in range(2)]
    release(children)
    ours = (hammer(make_storage(), f"new {number}", 2) for number in range(2))
    reports = [asdict(report) for report in await asyncio.gather(*ours)]
    for child in children:
        output, complaints = child.communicate()
        assert child.returncode == 0, complaints
        reports.append(json.loads(output))

    def all_of(key: str) -> set[str]:
        return {each for report in reports for each in report[key]}

    print({key: [len(report[key]) for report in reports] for key in reports[0]}, all_of("refused"))
    for words in all_of("refused"):
        assert words.endswith(".") and "damaged" not in words, words
    assert all_of("wrong") == set()
    # The old version is refused as long as an erasure is due, which may be nearly all the time.
    assert all(report["stored"] for report in reports[:2])
    memories = await make_storage().get_recent(100_000)
    kept = {memory.content for memory in memories}
    assert len(kept) == len(memories)
    assert kept >= (all_of("stored") - all_of("forgotten") - all_of("doubtful")) | {FACT}
    assert kept.isdisjoint(all_of("forgotten"))
    [shared] = [memory for memory in memories if memory.content == SHARED]
    assert set(shared.tags) >= all_of("tags")
    assert await make_storage().count() == len(memories)
    await asyncio.to_thread(command.run, "doctor", "--offline")


async def test_the_old_version_leaves_a_store_alone_while_an_erasure_is_due(
    root: Path, make_storage: MakeStorage, command: Command
) -> None:
    left, doomed = _die_while_erasing(root)
    with OldVersion(root) as old:
        for method, argument in (("search", FACT), ("store", FACT), ("delete", [left[0]["id"]])):
            assert "made by a newer version" in old.refused(method, argument)
        kept = [memory.content for memory in await make_storage().get_recent(100)]
        # Nobody was told that it is forgotten: it may have died before.
        assert [text for text in kept if text != doomed] == contents(left)

        await asyncio.to_thread(command.run, "doctor", "--repair", input="y\n")
        assert contents(old.call("get_recent", 100)) == kept
        assert old.call("store", FACT)


def _die_while_erasing(root: Path) -> tuple[list[dict[str, Any]], str]:
    """Leave a store whose erasure is due, as if a process had died in it; returns what is left, and
    the text that was to be forgotten.
    """
    for attempt in range(20):
        *left, doomed = unpack("built-in", root)["memories"]
        process = start_today(root, "asyncio.run(storage().delete(arguments))", doomed["id"])
        manifest = root / "sam/qdrant.db/manifest.json"
        while process.poll() is None:
            if json.loads(manifest.read_bytes())["format"] == 3:
                process.kill()
            time.sleep(0.0002)
        process.communicate()
        if json.loads(manifest.read_bytes())["format"] == 3:
            return left, doomed["content"]
        (root / "sam").rename(root.with_name(f"erased-{attempt}"))
    raise AssertionError("No erasure was due for long enough.")
