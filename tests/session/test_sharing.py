"""What the settings of sharing open between agents, in real sessions; all else stays closed."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import Clock, MakeStorage
from conversation import Config, call, chat, search, store
from embeddings_server import EmbeddingsServer
from memory_semantic import MemoryStorage
from scripted import MEMORY_MODULE, scripted_session

MODULE = "tool-memory-semantic-sharing"
Call = list[dict[str, Any]]


@pytest.fixture
def play(memory: Config) -> Callable[..., Any]:
    """Plays a session in which the model makes these calls, one after the other; as `agent`, with
    the settings of sharing in `config`, or without the module. Returns their results.
    """

    async def of_session(
        *calls: Call, agent: str = "sam", config: dict[str, Any] | None = None, **more: Any
    ) -> list[dict[str, Any]]:
        tools = {} if config is None else {MODULE: config}
        settings = {**memory, "agent_identity": agent, **more}
        return (await chat(settings, "Go on.", turns=[*calls], tools=tools)).results

    return of_session


def share(memory_id: str, to: Any) -> Call:
    return call("memory_share", memory_id=memory_id, to_agent=to)


def told(result: dict[str, Any]) -> str:
    """The message of a call that failed."""
    assert not result["success"]
    return result["error"]["message"]


def found(result: dict[str, Any]) -> list[tuple[str, str | None]]:
    """The text of each memory that was found, and the agent it belongs to, if another."""
    assert result["success"], result
    return [(each["content"], each.get("agent")) for each in result["output"]["memories"]]


async def test_an_agent_shares_with_those_in_the_settings_and_an_event_tells_it_without_the_text(
    play: Any, memory: Config, make_storage: MakeStorage
) -> None:
    sam, alice = make_storage(), make_storage("alice")
    memory_id = await sam.store("We chose PostgreSQL.", ["db"], {"session": "s"})
    turns = [share(id, "alice") for id in (memory_id, memory_id[:8])]
    tools = {MODULE: {"share_with": "alice"}}
    talk = await chat(memory, "Go on.", turns=turns, tools=tools)
    told = {"memory_id": memory_id, "status": "alice has it"}
    assert [result["output"] for result in talk.results] == [told] * 2
    shared = {"agent_id": "sam", "to_agent": "alice", "memory_id": memory_id}
    assert [shared.items() <= event.items() for _, event in talk.of_tools] == [True, True]
    assert "PostgreSQL" not in json.dumps(talk.of_tools)
    [copy] = await alice.get_recent(None)
    assert copy.metadata == {"from": "sam"} and copy.id != memory_id and copy.tags == ["db"]
    [seen] = await play(search("Which database?"), agent="alice")
    assert seen["output"]["memories"][0]["from"] == "sam"
    [own] = await play(search("Which database?"))
    assert "from" not in own["output"]["memories"][0]


async def test_an_agent_shares_with_nobody_else_and_only_its_own_memories_but_no_copy(
    play: Any, make_storage: MakeStorage, root: Path
) -> None:
    own = await make_storage().store("a fact")
    copy = await make_storage().store("another fact", metadata={"from": "bob"})
    foreign = await make_storage("team").store("a fact of the team")
    [corrected] = await make_storage().upsert(["an old fact"])
    await make_storage().upsert(["a new fact"], corrected.id)
    nobody = "to_agent must be one of: alice. Nothing was changed."
    refused = [
        *((own, to, nobody) for to in ("team", "sam", "ALICE", None, ["alice"])),
        (copy, "alice", "is a copy: only your own memories can be shared"),
        (foreign, "alice", f"You have no memory {foreign}. Nothing was changed."),
        ("mem-000000000000", "alice", "You have no memory mem-000000000000"),
        (corrected.id, "alice", f"{corrected.id} was corrected: share what replaced it. Nothing"),
        ("x", "alice", "id looks like"),
    ]
    config = {"share_with": "alice, sam", "also_search": ["team"]}
    calls = [share(memory_id, to) for memory_id, to, _ in refused]
    for (*_, said), result in zip(refused, await play(*calls, config=config), strict=True):
        assert said in told(result)
    assert sorted(path.name for path in root.iterdir()) == ["sam", "team"]


async def test_without_permission_there_is_no_memory_share(memory: Config) -> None:
    for config, more in (
        ({"also_search": ["team"]}, {}),
        ({"share_with": ""}, {}),
        ({"share_with": []}, {}),
        ({"share_with": ["alice"]}, {"read_only": True}),
        ({"share_with": ["alice"], "read_only": "true"}, {}),
    ):
        async with scripted_session([], {**memory, **more}, tools={MODULE: config}) as session:
            tools = session.coordinator.get("tools")
            assert "memory_search" in tools and "memory_share" not in tools, (config, more)


@pytest.mark.parametrize("comes_first", [False, True])
async def test_its_search_replaces_the_other_one_and_needs_no_store_of_its_own(
    memory: Config, make_storage: MakeStorage, root: Path, comes_first: bool
) -> None:
    await make_storage("team").store("The team deploys on Tuesdays.")
    sharing = {MODULE: {"also_search": ["team"]}}
    plan = {**sharing, MEMORY_MODULE.name: memory} if comes_first else sharing
    own = None if comes_first else memory
    async with scripted_session([], own, tools=plan) as session:
        tools = session.coordinator.get("tools")
        assert sorted(tools) == ["memory_search", "memory_store"]
        result = await tools["memory_search"].execute({"query": "When do they deploy?"})
        assert result.output["memories"][0]["agent"] == "team"
    assert [path.name for path in root.iterdir()] == ["team"]


async def test_a_corrected_one_of_another_comes_with_what_holds_now(
    play: Any, make_storage: MakeStorage
) -> None:
    team = make_storage("team")
    ids = [(await team.upsert(["The team deploys on Mondays."]))[0].id]
    for day in ("Tuesdays", "Fridays"):
        [stored] = await team.upsert([f"The team deploys on {day}."], ids[-1])
        ids.append(stored.id)
    [found] = await play(search(ids[0]), config={"also_search": ["team"]})
    memories = found["output"]["memories"]
    assert [(each["id"], each["agent"]) for each in memories] == [
        (ids[-1], "team"),
        (ids[0], "team"),
    ]


async def test_the_best_of_all_stores_come_first(
    play: Any, make_storage: MakeStorage, clock: Clock
) -> None:
    await make_storage().store_many(["Tea is at four.", "The database is PostgreSQL."])
    clock.advance(hours=1)
    await make_storage("team").store_many(
        ["The database of the team is MySQL.", "The database is PostgreSQL.", "Lunch is at noon."]
    )
    await make_storage("ops").store("The database is backed up at night.")
    config = {"also_search": "team,ops, sam"}
    [everything] = await play(search("the database"), config=config)
    texts = dict(found(everything))
    assert texts["The database is PostgreSQL."] is None  # one's own, though the team's is newer
    assert texts["The database of the team is MySQL."] == "team"
    assert texts["The database is backed up at night."] == "ops"
    # Tea and lunch have nothing to do with it.
    assert len(found(everything)) == len(texts) == 3 and "not_searched" not in everything["output"]
    scores = [each["score"] for each in everything["output"]["memories"]]
    assert scores == sorted(scores, reverse=True)
    [two] = await play(search("the database", limit=2), config=config)
    assert found(two) == found(everything)[:2]


async def test_a_search_is_recorded_in_its_own_log_and_in_nobody_else_s(
    play: Any, make_storage: MakeStorage, root: Path
) -> None:
    own = await make_storage().store("The database is PostgreSQL.")
    theirs = await make_storage("team").store("The database of the team is MySQL.")
    config = {"also_search": ["team", "ops"]}
    asked = search("the database"), search(theirs)
    everything, by_id = await play(*asked, config=config, usage=True)
    assert len(found(everything)) == 2 and len(found(by_id)) == 1
    [log] = root.rglob("usage.jsonl")
    assert log.parent.name == "sam"
    assert [json.loads(line)["ids"] for line in log.read_text().splitlines()] == [[own]]


async def test_an_id_is_looked_up_in_its_own_first(play: Any, make_storage: MakeStorage) -> None:
    own = await make_storage().store("own")
    of_ops = await make_storage("ops").store("of ops", metadata={"from": "bob"})
    config = {"also_search": ["team", "ops"]}
    calls = map(search, (own, of_ops, "mem-000000000000"))
    first, second, neither = await play(*calls, config=config)
    assert found(first) == [("own", None)] and "not_searched" not in first["output"]
    assert found(second) == [("of ops", "ops")]
    assert second["output"]["memories"][0]["from"] == "bob"
    assert second["output"]["not_searched"] == {"team": "no store"}
    assert found(neither) == []


async def test_stores_that_cannot_be_searched_are_named_and_only_its_own_fails_the_call(
    play: Any,
    make_storage: MakeStorage,
    server: EmbeddingsServer,
    root: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    await make_storage().store("own")
    other = make_storage("other", embedding_model="m", base_url=server.base_url)
    await other.store("of another model")
    for name, harm in (("damaged", "{"), ("lost", None)):
        await make_storage(name).store("there")
        manifest = root / name / "qdrant.db/manifest.json"
        manifest.unlink() if harm is None else manifest.write_text(harm)
    await make_storage("wordless", lexical_weight=0).store("without words")
    await make_storage("team").store("of the team")
    as_it_is = MemoryStorage.search

    async def fail(self: MemoryStorage, *asked: Any, **how: Any) -> Any:
        if self.agent_id == "team":
            raise RuntimeError("of the team")
        return await as_it_is(self, *asked, **how)

    monkeypatch.setattr(MemoryStorage, "search", fail)
    config = {"also_search": ["other", "nobody", "damaged", "lost", "wordless", "team"]}
    result, empty = await play(search("own"), search(" "), config=config)
    assert found(result) == [("own", None)] and "query is empty" in told(empty)
    why = result["output"]["not_searched"]
    assert why.pop("other") == "another embedding model" and why.pop("nobody") == "no store"
    assert "agent-memory doctor" in why.pop("damaged") and "has lost its" in why.pop("lost")
    assert "lacks the words" in why.pop("wordless")
    assert why == {"team": "failed unexpectedly (RuntimeError)"}  # not its text
    assert not (root / "nobody").exists()
    (root / "sam/qdrant.db/manifest.json").write_text("{")
    [result] = await play(search("own"), config=config)
    assert "agent-memory doctor" in told(result)


async def test_the_settings_open_what_they_name_and_nothing_else(
    play: Any, make_storage: MakeStorage
) -> None:
    agents = ("sam", "alice", "team", "bob")
    ids = {name: await make_storage(name).store(f"The secret of {name}.") for name in agents}
    config = {"share_with": ["alice"], "also_search": ["team"]}

    # Sam finds what is in the team's store, and nothing of alice, to whom sam may give, or of bob.
    secret = search("secret", limit=20)
    secrets, *by_id = await play(secret, *map(search, ids.values()), config=config)
    readable = {("The secret of sam.", None), ("The secret of team.", "team")}
    assert set(found(secrets)) == readable
    assert [bool(found(each)) for each in by_id] == [True, False, True, False]

    # That opens nothing for the others, with the module or without.
    for name in agents[1:]:
        for own in (None, {}):
            [seen] = await play(secret, agent=name, config=own)
            assert found(seen) == [(f"The secret of {name}.", None)]

    # Memories are written only to one's own store, or to that of an agent that is named.
    stored, _ = await play(store("new"), share(ids["sam"], "alice"), config=config)
    assert stored["success"]
    counts = [await make_storage(name).count() for name in agents]
    assert counts == [2, 2, 1, 1]
