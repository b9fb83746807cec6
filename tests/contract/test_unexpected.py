"""Only the kind of an unexpected error is reported: its message may quote a memory."""

import json
import logging
from collections.abc import Callable
from typing import Any

import pytest
from command import Command
from conftest import Tools
from memory_semantic import MemoryStorage

SECRET = "a private thought"


@pytest.fixture(params=[ValueError, KeyError, RuntimeError])
def kind(request: pytest.FixtureRequest) -> type[Exception]:
    return request.param


@pytest.fixture
def fail(monkeypatch: pytest.MonkeyPatch, kind: type[Exception]) -> Callable[[], None]:
    """From when it is called, something inside fails and quotes what is stored or found."""

    def raise_it(*_: Any, **__: Any) -> None:
        raise kind(f"cannot handle {SECRET}")

    def begin() -> None:
        for name in ("store.ranking.rank", "merging.merge"):
            monkeypatch.setattr(f"memory_semantic.{name}", raise_it)

    return begin


async def test_the_model_reads_the_kind_and_not_the_message(
    tools: Tools, kind: type[Exception], fail: Callable[[], None], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    await tools.call("memory_store", content=SECRET)
    fail()
    for tool in ("memory_store", "memory_search"):
        said = await tools.refused(tool, content=f"{SECRET}, too", query="What was thought?")
        assert kind.__name__ in said and "failed unexpectedly" in said
        told = said + json.dumps(tools.events) + caplog.text
        assert SECRET not in told and "cannot handle" not in told


def test_the_command_reports_kind_and_place_but_not_the_message(
    command: Command, kind: type[Exception], fail: Callable[[], None]
) -> None:
    command.run("store", SECRET)
    fail()
    for arguments in (("store", f"{SECRET}, too"), ("search", "What was thought?")):
        said = command.run(*arguments, code=1).output
        assert f"failed unexpectedly ({kind.__name__} in test_unexpected.py, line" in said
        assert SECRET not in said and "Traceback" not in said


def test_ctrl_c_says_that_the_command_can_be_run_again(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(MemoryStorage, "upsert", interrupted)
    assert "running it again is safe" in command.run("store", "x", code=1).stderr
