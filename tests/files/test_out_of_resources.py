"""Out of memory, descriptors or room for a file: reported as such, at once; no damage, no hang.

Limits hold for a whole process, so each case has its own.
"""

import asyncio
import errno
import json
import os
import re
from pathlib import Path
from typing import Any

import pytest
from command import Command
from conftest import MakeStorage
from embeddings_server import EmbeddingsServer
from memory_semantic.resources import shortage
from processes import run

TEXTS = [f"Fact {number} about the weather." for number in range(20)]

# What a limit is named in, as an argument of `ulimit`, and what is said then.
LIMITS = [
    ("-n 20", "Too many open files"),
    ("-v 300000", "Cannot allocate memory"),
    ("-v 400000", "Cannot allocate memory"),
    ("-f 1000", "File too large"),
]
COMMANDS = [["search", "weather"], ["store", "a fact"], ["forget", "--tag", "odd", "--yes"]]

# One call for each of the tools, under a limit that is set in the midst of a session.
CALLS = """
import resource
from amplifier_core.testing import MockCoordinator
from amplifier_module_tool_memory_semantic import mount
async def main():
    coordinator = MockCoordinator()
    config = {"agent_identity": "sam", "storage_root": root, "embedding_model": "local"}
    await mount(coordinator, config)
    tools = coordinator.mount_points["tools"]
    name, room, warm = arguments
    if warm:
        await tools["memory_search"].execute({"query": "weather"})
    limit = room
    if name == "AS":
        with open("/proc/self/statm") as sizes:
            limit += int(sizes.read().split()[0]) * resource.getpagesize()
    number = getattr(resource, f"RLIMIT_{name}")
    resource.setrlimit(number, (limit, resource.getrlimit(number)[1]))
    answers = [
        await tools["memory_search"].execute({"query": "weather"}),
        await tools["memory_store"].execute({"content": "a fact"}),
    ]
    print(json.dumps([None if answer.success else answer.error["message"] for answer in answers]))
asyncio.run(main())
"""


@pytest.fixture(autouse=True)
def memories(make_storage: MakeStorage) -> None:
    asyncio.run(make_storage().store_many([(text, ["odd"]) for text in TEXTS]))


def contents(make_storage: MakeStorage) -> set[str]:
    """The texts of a store in which everything agrees."""
    storage = make_storage()
    assert asyncio.run(storage.check()) == []
    return {memory.content for memory in asyncio.run(storage.get_recent(1000))}


@pytest.mark.parametrize(("limits", "said"), LIMITS)
def test_a_command_names_what_it_lacks(
    command: Command, make_storage: MakeStorage, limits: str, said: str
) -> None:
    for arguments in COMMANDS:
        result = command.limited(limits, *arguments)
        assert result.returncode == 1 and said in result.stderr, result.stderr
        assert "Nothing was changed" in result.stderr and "ulimit" in result.stderr
        assert "damaged" not in result.stderr and "Traceback" not in result.stderr
    assert contents(make_storage) == set(TEXTS)


@pytest.mark.parametrize(("limits", "said"), LIMITS)
def test_the_doctor_repairs_nothing(
    command: Command, make_storage: MakeStorage, limits: str, said: str
) -> None:
    result = command.limited(limits, "doctor", "--repair", "--yes")
    assert result.returncode == 1 and said in result.stdout, result.stdout
    assert "damaged" not in result.stdout and "→ agent-memory doctor --repair" not in result.stdout
    assert "nothing that a repair could fix" in result.stderr
    assert {path.name for path in make_storage().folder.path.iterdir()} == {
        ".gitignore",
        "qdrant.db",
    }
    assert contents(make_storage) == set(TEXTS)


@pytest.mark.parametrize("warm", [False, True])
@pytest.mark.parametrize(
    ("name", "room", "said"),
    [
        ("NOFILE", 20, "Too many open files"),
        ("AS", 100 * 2**20, "Cannot allocate memory"),
        ("FSIZE", 2**20, "File too large"),
    ],
)
def test_a_tool_call_names_what_it_lacks(
    root: Path, make_storage: MakeStorage, name: str, room: int, said: str, warm: bool
) -> None:
    answers = run(root, CALLS, name, room, warm)
    for message in json.loads(answers):
        assert message and said in message and "damaged" not in message
    assert contents(make_storage) == set(TEXTS)


def test_the_service_is_not_to_blame(
    command: Command, server: EmbeddingsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "a-key")
    monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
    command.run("store", "a fact", "--agent", "alice")
    for limits in ("-n 9", "-v 300000"):
        result = command.limited(limits, "search", "fact", "--agent", "alice")
        assert result.returncode == 1 and "ulimit" in result.stderr, result.stderr
        assert "service's address" not in result.stderr


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_no_limit_on_memory_lets_a_command_hang(
    command: Command, make_storage: MakeStorage
) -> None:
    """Each ends within a minute, one way or the other, and says why."""
    failed = 0
    for size in range(300_000, 1_500_000, 50_000):
        for arguments in (["search", "weather"], ["store", "a fact"], ["list"], ["doctor"]):
            result = command.limited(f"-v {size}", *arguments)
            said = result.stdout + result.stderr
            assert result.returncode in (0, 1) and "Traceback" not in said, (size, said)
            assert "damaged" not in said
            if result.returncode:
                assert re.search("Cannot allocate memory|Too many threads", said), (size, said)
                failed += 1
    assert failed > 20
    assert contents(make_storage) - {"a fact"} == set(TEXTS)


@pytest.mark.parametrize(
    ("error", "number"),
    [
        (OSError(errno.EMFILE, "x"), errno.EMFILE),
        (OSError(errno.ENOENT, "x"), None),
        (MemoryError(), errno.ENOMEM),
        (RuntimeError("can't start new thread"), errno.EAGAIN),
        (RuntimeError("Something else"), None),
        (Exception("IO Error: Too many open files (os error 24)"), errno.EMFILE),
        (Exception("called `unwrap()` on an `Err`: Os { code: 12, kind: Other }"), errno.ENOMEM),
        (Exception("No such file or directory (os error 2)"), None),
        (ImportError("libz.so: " + os.strerror(errno.ENOMEM)), errno.ENOMEM),
    ],
)
def test_what_an_error_lacks(error: Any, number: int | None) -> None:
    assert shortage(error) == number
    try:
        raise ValueError from error
    except ValueError as wrapping:
        assert shortage(wrapping) == number
