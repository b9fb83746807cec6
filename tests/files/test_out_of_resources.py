"""Out of descriptors, memory or room for a file: reported as such, and not as damage."""

import asyncio
import errno
import os
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from command import Command
from conftest import MakeStorage
from embeddings_server import EmbeddingsServer
from memory_semantic import MemoryStorage
from memory_semantic.errors import ResourceError, shortage
from processes import run


def test_with_few_descriptors_a_command_works_or_names_what_it_lacks(
    command: Command, make_storage: MakeStorage
) -> None:
    storage, stored, perhaps = make_storage(), {"fact"}, set[str]()
    failed = 0
    asyncio.run(storage.store("fact"))
    for number in (6, 7, 8, 10, 12):
        result = command.limited(f"-n {number}", "store", f"fact {number}")
        if result.returncode == 0:
            stored.add(f"fact {number}")
            continue
        failed += 1
        perhaps |= {f"fact {number}"} if "may or may not" in result.stderr else set()
        assert "Too many open files" in result.stderr and "ulimit -n" in result.stderr
        assert "damaged" not in result.stderr
        result = command.limited(f"-n {number}", "doctor", "--repair", "--yes")
        assert "damaged" not in result.stdout and " --repair" not in result.stdout
    assert failed and asyncio.run(storage.check()) == []
    found = {m.content for m in asyncio.run(storage.get_recent(None))}
    assert stored <= found <= stored | perhaps


def test_no_room_for_the_file_of_a_new_store(command: Command) -> None:
    result = command.limited("-f 1000", "store", "fact")
    assert result.returncode == 1 and "File too large" in result.stderr
    assert "Nothing was changed" in result.stderr and "damaged" not in result.stderr
    command.run("store", "fact")


def test_the_service_is_not_to_blame(
    command: Command, server: EmbeddingsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "a-key")
    monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
    command.run("store", "a fact")
    result = command.limited("-n 9", "search", "fact")
    assert result.returncode == 1 and "ulimit" in result.stderr, result.stderr
    assert "service's address" not in result.stderr


async def test_no_more_threads(storage: MemoryStorage, monkeypatch: pytest.MonkeyPatch) -> None:
    def start(thread: Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(Thread, "start", start)
    for call in (storage.store("a fact"), storage.search("fact")):
        with pytest.raises(ResourceError, match=r"Too many threads.*Nothing was changed"):
            await call


def test_a_call_while_the_interpreter_ends(root: Path) -> None:
    said = run(
        root,
        """
import atexit
def at_the_end():
    try:
        asyncio.run(storage().store("a fact"))
    except StorageError as error:
        print(error)
asyncio.run(storage().store("another fact"))
atexit.register(at_the_end)
""",
    )
    assert "the program is ending. Nothing was changed." in said


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
        (ImportError("libz.so: " + os.strerror(errno.ENOMEM)), errno.ENOMEM),
    ],
)
def test_what_an_error_lacks(error: Any, number: int | None) -> None:
    lacking = f"({errno.errorcode[number]}). " if number else ""
    assert lacking in shortage(error) and bool(lacking) == bool(shortage(error))
    try:
        raise ValueError from error
    except ValueError as wrapping:
        assert shortage(wrapping) == shortage(error)
