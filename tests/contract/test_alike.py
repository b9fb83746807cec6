"""What is alike: shown where a memory is stored, and the later first where it is found."""

from datetime import timedelta

import pytest
from conftest import Clock, MakeStorage, MakeTools
from memory_semantic import estimate_tokens

OLD = "The staging server of the shop is at 10.0.0.7."
NEW = "The staging server of the shop is at 10.0.0.9."
OTHER = "Sam prefers tea to coffee in the afternoon."


async def test_what_a_new_memory_may_replace_comes_with_its_answer(
    make_tools: MakeTools, make_storage: MakeStorage, clock: Clock
) -> None:
    sam = make_storage()
    await sam.upsert([OTHER], said_by="agent")
    [old] = await sam.upsert([OLD], said_by="user")
    tools = await make_tools()
    stored = await tools.call("memory_store", content=NEW)
    assert stored["alike"] == [f"{old.id[:12]} {clock():%Y-%m-%d}: {OLD}"]
    assert "store it again with `replaces`" in stored["note"]
    unlike = "The cache is Redis, not Valkey."
    assert "alike" not in await tools.call("memory_store", content=unlike)
    # What is replaced is told no more.
    await sam.upsert([NEW], old.id)
    assert "alike" not in await tools.call("memory_store", content=NEW)


async def test_no_other_project_or_time_is_alike(make_storage: MakeStorage, clock: Clock) -> None:
    sam = make_storage()
    here, there = ({"project": name, "project_id": name} for name in ("shop", "site"))
    await sam.store_many([(OLD, None, there)])
    await sam.upsert([OLD + " Ask Kim."], expires=clock() + timedelta(hours=1))
    [stored] = await sam.upsert([(NEW, None, here)], alike=True)
    assert [each.content for each in stored.alike] == [OLD + " Ask Kim."]
    clock.advance(hours=2)
    [stored] = await sam.upsert([(NEW, None, here)], alike=True)
    assert list(stored.alike) == []
    for place in (there, None):  # what holds everywhere is compared with all
        [stored] = await sam.upsert([(NEW, None, place)], alike=True)
        assert [each.content for each in stored.alike] == [OLD]


async def test_rules_are_compared_among_rules_first(make_storage: MakeStorage) -> None:
    sam = make_storage()
    notes = [f"We deployed on Friday the {n}th." for n in range(11, 20)]
    await sam.store_many(notes)
    rule = "Deploy on Fridays only before noon."
    await sam.upsert([rule], pin=True)
    [stored] = await sam.upsert(["Never deploy on a Friday."], pin=True, alike=True)
    assert stored.alike[0].content == rule and len(stored.alike) == 3


@pytest.mark.parametrize(
    "text", ["We deploy on Friday the {}th, {}", "금요일에는 배포하지 않는다 {} {}"]
)
async def test_what_is_alike_takes_at_most_110_tokens(
    make_tools: MakeTools, make_storage: MakeStorage, text: str
) -> None:
    await make_storage().store_many([text.format(n, "and on Monday " * n) for n in range(20)])
    answer = await (await make_tools()).call("memory_store", content=text.format(40, ""))
    assert len(answer["alike"]) == 3
    assert estimate_tokens("\n".join([*answer["alike"], answer["note"]])) <= 110


async def test_of_two_results_that_are_alike_the_later_comes_first(
    make_tools: MakeTools, make_storage: MakeStorage, clock: Clock
) -> None:
    sam = make_storage()
    question = "At which address is the staging server of the shop, 10.0.0.7?"
    old = await sam.store(OLD)
    clock.advance(days=30)
    new = await sam.store(NEW)
    stored = clock()
    clock.advance(days=30)
    await sam.store(OTHER)
    assert [each.id for each in await sam.search(question, 2)] == [old, new]  # by the formula
    answer = await (await make_tools()).call("memory_search", query=question, limit=2)
    assert [each["id"] for each in answer["memories"]] == [new, old]
    first, second = answer["memories"]
    assert second["see_also"] == f"{new[:12]} of {stored:%Y-%m-%d}" and "see_also" not in first
    newest = await sam.store(NEW.replace("9.", "8."))  # at a chain of three, the latest
    answer = await (await make_tools()).call("memory_search", query=question)
    assert answer["memories"][0]["id"] == newest
    told = {memory.get("see_also", "")[:12] for memory in answer["memories"]}
    assert told == {"", newest[:12]}


async def test_of_two_of_one_moment_none_is_the_later(
    make_tools: MakeTools, make_storage: MakeStorage
) -> None:
    ids = await make_storage().store_many([OLD, NEW])
    question = "At which address is the staging server of the shop, 10.0.0.7?"
    answer = await (await make_tools()).call("memory_search", query=question)
    assert [each["id"] for each in answer["memories"]] == ids and "see_also" not in str(answer)
