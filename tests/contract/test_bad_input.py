"""What cannot be used is refused in words that help; of what fails otherwise, its kind is told."""

import asyncio
import json
import logging
import math
from pathlib import Path
from typing import Any

import pytest
from command import Command
from conftest import MakeStorage, Tools
from memory_semantic import InputError, Memory, MemoryStorage
from memory_semantic.limits import MAX_METADATA

EMPTY = ["", "  ", " \n", "\u200b", "\ufeff", "\u00a0", "\0\a"]
HALF = ["half a pair \ud800", "\ud83d\ude00"]
TOOLS = ["memory_store", "memory_search"]
NO_TEXT = [None, 7, ["x"], {"a": 1}]
NO_MOMENT = ["yesterday", 1_750_000_000, "1750000000", "0001-01-01T00:00:00+23:00", True]
NO_LIMIT = [0, -1, 2.5, "many", "2.5", "true", True, math.nan, math.inf, [5]]
NO_ID = [None, 7, "", "nonsense", "\ud800", "mem-XYZ", "mem-a3f", "a3f2b8c1d4e56"]
NO_WHOLE_ID = ["nonsense", "mem-a3f2", "a3f2b8c1d4e5"]
LONG = "x" * 10_001


def memory(content: str, id: str = "mem-a3f2b8c1d4e5") -> Memory:
    return Memory(agent_id="sam", content=content, id=id)


def content(*texts: object) -> list[dict[str, object]]:
    return [{"content": text} for text in texts]


def tags(*lists: object) -> list[dict[str, object]]:
    return [{"content": "x", "tags": given} for given in lists]


def query(**given: list[Any]) -> list[dict[str, object]]:
    return [{"query": "x", name: value} for name, values in given.items() for value in values]


OF_A_TOOL: list[tuple[str, list[Any], str]] = [
    *((tool, [None, "content", ["content"], 7], "takes an object") for tool in TOOLS),
    ("memory_store", [{}, *content(*NO_TEXT)], "content must be a text, not "),
    ("memory_store", content(*EMPTY), "content is empty: give it at least one visible character."),
    ("memory_store", content(LONG), "content has 10,001 characters; at most 10,000 are allowed."),
    ("memory_store", content("\u200b" * 1_000_000), "content "),
    ("memory_store", content(*HALF), "content has half a character, such as half an emoji: remove"),
    ("memory_store", tags("[[[[" * 9_000, "['a']", 7, {"a": 1}), "tags must be a list of texts"),
    ("memory_store", tags([["a"]], [1], [None]), "a tag must be a text, not "),
    ("memory_store", tags([""]), "a tag is empty"),
    ("memory_store", tags(["x" * 51]), "A tag has 51 characters; 50 are allowed."),
    ("memory_store", tags(["\ud800"]), "a tag has half a character"),
    ("memory_store", tags([f"tag {i}" for i in range(21)]), "21 tags are too many; at most 20"),
    ("memory_store", tags([f"tag {i}" for i in range(100_000)]), "100,000 tags are too many"),
    ("memory_store", tags(["key=" * 2_000] * 5_000), "5,000 tags are too many"),
    ("memory_search", [{}, *query(query=NO_TEXT)], "query must be a text, not "),
    ("memory_search", query(query=EMPTY), "query is empty"),
    ("memory_search", query(query=["x" * 100_000]), "query has 100,000 characters"),
    ("memory_search", query(query=HALF), "query has half a character"),
    ("memory_search", query(limit=NO_LIMIT), "limit must be a whole number from 1 to 20."),
    ("memory_search", query(since=NO_MOMENT), "since must be an ISO 8601 date or time"),
]


@pytest.mark.parametrize(("tool", "given", "words"), OF_A_TOOL)
async def test_a_tool_explains_it_and_stores_nothing(
    tools: Tools, root: Path, tool: str, given: list[Any], words: str
) -> None:
    for arguments in given:
        said = await tools.refused_as(tool, arguments)
        assert words in said and said[-1] in ".)", arguments
    assert not root.exists() and tools.events == []


BAD_ITEMS = [[5], [("x",)], [("x", ["a"], 3)], [["x", "y"]], ["good", ""]]
BAD_METADATA = [
    *({str(number): "x" for number in range(MAX_METADATA + 1)}, ["session"]),
    *({"session": "x" * 201}, {"x" * 51: "y"}, {"session": 1}, {1: "session"}, {"session": " "}),
]

OF_PYTHON: list[tuple[str, list[Any], str]] = [
    ("store", ["", LONG, None], "content "),
    ("store_many", ["abc", None, 7], "list of texts, or of"),
    ("store_many", BAD_ITEMS, "content |metadata "),
    ("store_many", [[str(number) for number in range(1001)]], "1,001 memories at once; at most"),
    ("upsert", [["x"] * 1001], "1,001 memories at once"),
    ("upsert", [[("x", None, metadata)] for metadata in BAD_METADATA], "metadata"),
    ("restore", [[memory(" ")]], "content is empty"),
    ("restore", [[memory("x", id)] for id in NO_WHOLE_ID], "whole id looks like mem-"),
    ("restore", [[memory("x")] * 1001], "1,001 memories at once"),
    ("get", NO_ID, "id looks like mem-"),
    ("delete", [[id] for id in NO_ID], "id looks like mem-"),
    ("delete", ["mem-000000000000", None, 7], "list of ids"),
    ("search", ["", 7], "query "),
    ("get_recent", [*NO_LIMIT, "5"], "whole number of 1 or more"),
]


@pytest.mark.parametrize(("method", "given", "words"), OF_PYTHON)
async def test_a_method_refuses_it_and_stores_nothing(
    storage: MemoryStorage, root: Path, method: str, given: list[Any], words: str
) -> None:
    for argument in given:
        with pytest.raises(InputError, match=words):
            await getattr(storage, method)(argument)
    assert not root.exists()


OTHER_CHARACTERS = [
    *("..", ".", "../alice", "a/b", "a\\b", "/etc", "~", "%2e%2e", "a\0b", "sam\n", " sam"),
    *("müller", "сам", "١٢٣", "a b", "a" * 65, "a" * 300, "", "   "),
]
IDENTITIES: list[tuple[Any, str]] = [
    *((name, "Use 1 to 64 of the characters a-z, 0-9, _ and -.") for name in OTHER_CHARACTERS),
    *((name, "It was not expanded") for name in ("${AGENT}", "{{ agent }}")),
    *((name, "put it in quotes") for name in (None, 7, 1.0, True, ["sam"])),
    ("Bob", "Write it in lower case: bob"),
    ("Not Valid", "The agent_identity 'Not Valid' cannot name a store"),
]


@pytest.mark.parametrize(("name", "words"), IDENTITIES)
def test_identities_that_cannot_name_a_store(name: Any, words: str) -> None:
    with pytest.raises(ValueError, match="agent_identity") as told:
        MemoryStorage(name)
    assert words in str(told.value)


PREFIXES = ("a/b", "a.b", "x" * 65)


def test_settings_are_refused_with_their_rule_and_unquoted(make_storage: MakeStorage) -> None:
    there = {"qdrant_url": "http://h"}
    for config, words in (
        ({"max_query_results": True}, "max_query_results is wrong: it must be a number, not bool"),
        ({"lock_timeout": "false"}, "lock_timeout is wrong: it must be a valid number"),
        ({"read_only": "perhaps"}, "read_only is wrong: it must be a valid boolean"),
        ({"embedding_model": 7}, "embedding_model is wrong: it must be a valid string"),
        ({"dimensions": 8.5}, "dimensions is wrong: it must be a valid integer"),
        ({"lexical_weight": 1.5}, "lexical_weight is wrong: it must be less than or equal to 1"),
        ({"storage_root": "~no-such-user/x"}, "storage_root"),
        ({"storage_root": "a\0b"}, "storage_root"),
        ({"storage_root": "${HOME}/x"}, "storage_root"),
        ({**there, "qdrant_api_key": "ключ"}, "qdrant_api_key"),
        ({**there, "qdrant_replicas": 0}, "The setting qdrant_replicas is wrong"),
        ({**there, "qdrant_timeout": 0}, "The setting qdrant_timeout is wrong"),
        ({**there, "qdrant_api_key": 7}, "The setting qdrant_api_key is wrong"),
        *(({**there, "qdrant_prefix": x}, "The setting qdrant_prefix is") for x in PREFIXES),
        ({"dimensions": "very-secret", "storage_root": ["very-secret"]}, "root.*dimensions"),
    ):
        with pytest.raises(InputError, match=words) as told:
            make_storage(**config)
        assert "very-secret" not in str(told.value)


SECRET = "a private thought"


@pytest.mark.parametrize("kind", [ValueError, KeyError, RuntimeError])
async def test_an_unexpected_error_is_reported_by_its_kind_and_not_by_its_message(
    tools: Tools,
    command: Command,
    kind: type[Exception],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise kind(f"cannot handle {SECRET}")

    caplog.set_level(logging.DEBUG)
    await tools.call("memory_store", content=SECRET)
    for name in ("store.ranking.rank", "merging.merge"):
        monkeypatch.setattr(f"memory_semantic.{name}", fail)
    told = ""
    for tool in TOOLS:
        said = await tools.refused(tool, content=f"{SECRET}, too", query="What was thought?")
        assert kind.__name__ in said and "failed unexpectedly" in said
        told += said
    for arguments in (("store", f"{SECRET}, too"), ("search", "What was thought?")):
        said = (await asyncio.to_thread(command.run, *arguments, code=1)).output
        assert f"failed unexpectedly ({kind.__name__} in test_bad_input.py, line" in said
        told += said
    told += json.dumps(tools.events) + caplog.text
    for hidden in (SECRET, "cannot handle", "Traceback"):
        assert hidden not in told


def test_ctrl_c_says_it_can_be_run_again(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    async def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(MemoryStorage, "upsert", interrupted)
    assert "running it again is safe" in command.run("store", "x", code=1).stderr
