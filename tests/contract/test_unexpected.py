"""Only the kind of an unexpected error is reported: its message may quote a memory."""

import json
import logging
from typing import Any

import pytest
from command import Command
from conftest import MakeTools
from memory_semantic import AgentMemoryError, EmbeddingGenerator, InputError, MemoryStorage

SECRET = "a private thought"
KINDS = [ValueError, TypeError, KeyError, UnicodeError, RuntimeError]


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> type[Exception]:
    return request.param


@pytest.fixture
def broken(monkeypatch: pytest.MonkeyPatch, kind: type[Exception]) -> None:
    """Whatever is stored or found, something inside fails and quotes its text."""

    def fail(*_: Any, **__: Any) -> None:
        raise kind(f"cannot handle {SECRET}")

    monkeypatch.setattr("memory_semantic.store.ranking.rank", fail)
    monkeypatch.setattr("memory_semantic.merging.merge", fail)


@pytest.mark.usefixtures("broken")
async def test_the_model_reads_the_kind_and_not_the_message(
    make_tools: MakeTools, kind: type[Exception], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    tools = await make_tools()
    said = await tools.refused("memory_store", content=SECRET)
    assert kind.__name__ in said and "failed unexpectedly" in said
    told = said + json.dumps(tools.events) + caplog.text
    assert SECRET not in told and "cannot handle" not in told


async def test_a_failing_search_tells_the_model_nothing_of_what_it_found(
    make_tools: MakeTools,
    storage: MemoryStorage,
    kind: type[Exception],
    request: pytest.FixtureRequest,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    await storage.store(SECRET)
    request.getfixturevalue("broken")
    tools = await make_tools()
    said = await tools.refused("memory_search", query="What was thought?")
    assert kind.__name__ in said
    assert SECRET not in said + json.dumps(tools.events) + caplog.text


def test_the_command_reports_kind_and_place_but_not_the_message(
    command: Command, kind: type[Exception], request: pytest.FixtureRequest
) -> None:
    command.run("store", SECRET)
    request.getfixturevalue("broken")
    for arguments in (("store", f"{SECRET}, too"), ("search", "What was thought?")):
        said = command.run(*arguments, code=1).output
        assert f"failed unexpectedly ({kind.__name__} in test_unexpected.py, line" in said
        assert SECRET not in said and "Traceback" not in said


def test_bad_input_is_our_own_error_and_a_value_error() -> None:
    assert issubclass(InputError, AgentMemoryError) and issubclass(InputError, ValueError)


BAD = {
    "agent": lambda: MemoryStorage("Not Valid"),
    "setting": lambda: MemoryStorage("sam", {"dimensions": "many"}),
    "folder": lambda: MemoryStorage("sam", {"storage_root": "~nobody-of-that-name/x"}),
    "address": lambda: EmbeddingGenerator("m", base_url="nowhere").endpoint,
    "server": lambda: MemoryStorage("sam", {"qdrant_url": "http://h", "qdrant_api_key": "ключ"}),
}


@pytest.mark.parametrize("what", BAD)
def test_bad_settings_are_bad_input(what: str) -> None:
    with pytest.raises(InputError):
        BAD[what]()


async def test_bad_arguments_are_bad_input(storage: MemoryStorage) -> None:
    for call in (
        *(storage.store(""), storage.store("x", ["y" * 51]), storage.search("x", 0)),
        *(storage.search("x", since="soon"), storage.get("7"), storage.get_recent(0)),
        *(storage.delete("mem-12345678"), storage.store_many("x"), storage.upsert(["x"] * 1_001)),
    ):
        with pytest.raises(InputError):
            await call
    tags = [f"tag {number}" for number in range(20)]
    await storage.store("x", tags)
    with pytest.raises(InputError, match="21"):
        await storage.store("x", ["one more"])


async def test_the_model_reads_what_is_wrong_with_its_arguments(make_tools: MakeTools) -> None:
    tools = await make_tools()
    assert "content is empty" in await tools.refused("memory_store", content=" ")
    assert "takes an object" in await tools.refused_as("memory_store", [1])


def test_bad_input_ends_a_command_with_code_2_and_all_else_with_code_1(command: Command) -> None:
    assert "content is empty" in command.run("store", "\u200b", code=2).stderr
    command.run("store", "x")
    (command.root / "sam" / "qdrant.db" / "manifest.json").write_text("{")
    assert "damaged" in command.run("list", code=1).stderr


def test_ctrl_c_says_that_the_command_can_be_run_again(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(MemoryStorage, "upsert", interrupted)
    assert "running it again is safe" in command.run("store", "x", code=1).stderr
