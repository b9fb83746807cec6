"""Every write is complete or not there: killed, or failed, at the first, second, third … step.

strace does it, because what the engine writes through memory maps cannot be reached from Python.
A step is a call that flushes something to disk, gives it its name or removes it. strace counts each
kind of call separately, so each kind has its own first, second, third.
"""

import asyncio
import json
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from memory_semantic import MemoryStorage
from memory_semantic.memory import point_id
from plain_vectors import PlainVectors
from store_files import OF_A_STORE, REPAIR, bytes_of, copy_sparse

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

NAMING = ["rename", "renameat", "renameat2"]
SYNCING = ["fsync", "msync"]
REMOVING = ["unlink", "unlinkat", "rmdir"]
BASE = [f"base fact {i}" for i in range(5)]
NEW = "the new fact zanzibar"
IN_MEMORY = 10**9  # bytes that must be free there: some ten stores at once

CHILD = """
import asyncio, json, sys
sys.path.insert(0, sys.argv[1])
from memory_semantic import MemoryStorage, StorageError
from plain_vectors import PlainVectors
storage = MemoryStorage("sam", {"storage_root": sys.argv[2]}, embeddings=PlainVectors())
async def rebuild(model):
    info = await storage.info()
    wanted = info.model_copy(update={"model": info.model._replace(model=model)})
    generator = PlainVectors() if model != "plain" else None
    return await storage.backend.rebuild(wanted, generator)
async def tag(text):
    return await storage.store(text, ["killed"])
operation, argument = sys.argv[3:]
work = {"rebuild": rebuild, "tag": tag}.get(operation) or getattr(storage, operation)
try:
    print(json.dumps({"done": asyncio.run(work(json.loads(argument)))}))
except StorageError as error:
    print(json.dumps({"error": str(error)}))
"""


def storage(root: Path, model: str = "plain") -> MemoryStorage:
    vectors = PlainVectors()
    vectors.model = model
    return MemoryStorage("sam", {"storage_root": str(root)}, embeddings=vectors)


def manifest(root: Path) -> dict[str, Any]:
    path = root / "sam/qdrant.db/manifest.json"
    return json.loads(path.read_text()) if path.exists() else {}


def made(root: Path) -> str:
    """The store's model, which a rebuild may have changed."""
    return manifest(root).get("embedding", ["plain"])[0]


def operate(root: Path, operation: str, argument: Any, harm: str, call: str, step: int) -> Any:
    """What the operation answered when this harm befell its n-th such call, None if it died, and
    whether there was such a call.
    """
    log = root / f"{call}.{step}.log"
    command = (sys.executable, "-c", CHILD, Path(__file__).parents[1], root, operation)
    if operation == "repair":
        command = (*REPAIR, root)
    process = subprocess.run(
        [
            *("strace", "-f", "-o", log, "-e", f"trace={call}"),
            *("-e", f"inject={call}:{harm}:when={step}", *command, json.dumps(argument)),
        ],
        capture_output=True,
        text=True,
        timeout=60,
    )
    happened = "(INJECTED)" in log.read_text() or "killed by SIGKILL" in log.read_text()
    answer = json.loads(process.stdout) if process.stdout.strip() else None
    if answer is None:
        assert "signal=KILL" in harm, process.stderr
    return answer, happened


async def state(root: Path, model: str = "plain") -> tuple[set[str], list[str]]:
    opened = storage(root, model)
    memories = await opened.get_recent(100)
    found = {memory.content for memory in await opened.search("fact", limit=20)}
    assert found == {memory.content for memory in memories}
    return found, await opened.check()


def verify_erased(root: Path, kept: set[str], *, acknowledged: bool) -> None:
    """Assert that forgotten memories are not back and no byte of them is left: at once if that was
    acknowledged, else after the erasure that is due.
    """
    backend = storage(root).backend
    if not acknowledged:
        asyncio.run(backend.erase())
    assert asyncio.run(state(root))[0] == kept
    if BASE[0] not in kept:
        left = bytes_of(root)
        assert BASE[0].encode() not in left and point_id(BASE[0]).bytes not in left


def finish_rebuild(root: Path) -> None:
    """Assert that the rebuild can be run again and then leaves only the store."""
    info = asyncio.run(storage(root).info())
    assert info
    wanted = info.model_copy(update={"model": info.model._replace(model="other")})
    assert asyncio.run(storage(root).backend.rebuild(wanted, PlainVectors())) == 5
    kept, problems = asyncio.run(state(root, "other"))
    assert problems == [] and kept == set(BASE)


def verify(root: Path, operation: str, answer: Any) -> str:
    """Assert that the store is whole and tells the truth; returns what became of the operation."""
    kept, problems = asyncio.run(state(root, made(root)))
    assert problems == []
    base = set() if operation == "create" else set(BASE)
    if operation == "delete":
        assert set(BASE[1:]) <= kept <= base
        changed = BASE[0] not in kept
        verify_erased(root, kept, acknowledged="done" in (answer or {}))
    elif operation == "rebuild":
        assert kept == base
        changed = manifest(root)["shard"] != "shard-1"
        finish_rebuild(root)
    else:
        assert base <= kept <= base | {NEW}
        changed = NEW in kept
    if operation in ("delete", "rebuild"):
        there = {path.name for path in (root / "sam").iterdir()}
        assert there - {"backup.jsonl.tmp"} == OF_A_STORE
    error = (answer or {}).get("error", "")
    if answer and "done" in answer:
        assert changed, "acknowledged and not there"
        outcome = "acknowledged"
    elif "in no answer" in error:
        assert changed
        outcome = "hidden"
    elif "Nothing was changed" in error and operation != "rebuild":
        assert not changed, f"something was changed: {error}"
        outcome = "refused"
    else:
        assert answer is None or "may or may not" in error or "Nothing was" in error, error
        outcome = "done" if changed else "not done"
    # And it goes on.
    later = asyncio.run(storage(root, made(root)).store("a later fact"))
    assert asyncio.run(storage(root).get(later))
    return outcome


@pytest.fixture
def tmp_path(tmp_path: Path) -> Iterator[Path]:
    """In memory where there is room: what counts is the order of the calls, and a process that is
    killed loses nothing of what it had written. The syncs would take most of the test's time.
    """
    memory = Path("/dev/shm")
    if not memory.is_dir() or shutil.disk_usage(memory).free < IN_MEMORY:
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(dir=memory) as folder:
        yield Path(folder)


@pytest.fixture
def base(tmp_path: Path) -> Path:
    root = tmp_path / "base"
    asyncio.run(storage(root).store_many(BASE))
    asyncio.run(storage(root).close())
    backup = root / "sam/backup.jsonl"  # so old that a change makes another one due
    backup.write_text(re.sub(r'"exported":"....', '"exported":"2020', backup.read_text()))
    return root


def at_every_step(
    attempt: Callable[[str, int], str | None], stride: int, naming: int = 1
) -> tuple[Counter[str], Counter[str]]:
    """Makes the attempts until there are no more such steps; returns how many there were of each
    call, and what came of them. An attempt is None if there was no such step.
    """
    outcomes: Counter[str] = Counter()
    steps: Counter[str] = Counter()
    with ThreadPoolExecutor(2) as pool:
        for call in (*NAMING, *SYNCING, *REMOVING):
            by = naming if call in NAMING else stride
            for start in range(1, 1000, 4 * by):
                results = list(pool.map(partial(attempt, call), range(start, start + 4 * by, by)))
                happened = [result for result in results if result]
                outcomes.update(happened)
                steps[call] += len(happened)
                if len(happened) < len(results):
                    break
            else:
                pytest.fail("the operation never ran through")
    return steps, outcomes


@pytest.mark.parametrize("harm", ["signal=KILL", "error=EIO"])
@pytest.mark.parametrize(
    ("operation", "stride"),
    # Making and copying a shard, which "delete" does as well, syncs some three hundred times, file
    # after file, much alike.
    [("store", 1), ("delete", 7), ("create", 6), ("rebuild", 11)],
)
def test_at_every_step(base: Path, tmp_path: Path, operation: str, stride: int, harm: str) -> None:
    assert shutil.which("strace"), "these tests need strace: apt-get install strace"
    memories = asyncio.run(storage(base).get_recent(100))
    asyncio.run(storage(base).close())
    [first] = [memory.id for memory in memories if memory.content == BASE[0]]
    method, argument = {
        "delete": ("delete", [first]),
        "rebuild": ("rebuild", "other"),
    }.get(operation, ("store", NEW))

    def attempt(call: str, step: int) -> str | None:
        root = tmp_path / f"{call} {step}"
        if operation == "create":
            root.mkdir()
        else:
            copy_sparse(base, root)
        answer, happened = operate(root, method, argument, harm, call, step)
        outcome = verify(root, operation, answer)
        assert "error" not in (answer or {}) or "(EIO)" in answer["error"], answer
        asyncio.run(storage(root).close())
        shutil.rmtree(root)
        return outcome if happened else None

    steps, outcomes = at_every_step(attempt, stride)
    print(f"{operation}, {harm}: {dict(steps)}, {dict(outcomes)}")
    assert steps["rename"] and steps["fsync"] > 5 and steps["msync"] > 5


@pytest.mark.parametrize("text", [BASE[0], NEW])
def test_the_next_write_of_the_same_text(base: Path, tmp_path: Path, text: str) -> None:
    """It is there once it is acknowledged, wherever the write before it was killed."""

    async def write_again(root: Path) -> None:
        opened = storage(root)
        written = await opened.store(text, ["acknowledged"])
        [found] = await opened.with_ids([written])
        assert "acknowledged" in found.tags
        await opened.close()

    def attempt(call: str, step: int) -> str | None:
        root = tmp_path / f"{call} {step}"
        copy_sparse(base, root)
        _, happened = operate(root, "tag", text, "signal=KILL", call, step)
        asyncio.run(write_again(root))
        shutil.rmtree(root)
        return "right" if happened else None

    steps, outcomes = at_every_step(attempt, 1)
    assert steps["rename"] and steps["msync"] > 5 and outcomes


@pytest.mark.parametrize("lost", ["qdrant.db", "qdrant.db/manifest.json"])
def test_a_repair(tmp_path: Path, lost: str) -> None:
    """Killed anywhere, it can be run again, and then all is there that was before."""
    base = tmp_path / "base"
    built_in = MemoryStorage("sam", {"storage_root": str(base), "embedding_model": "local"})
    asyncio.run(built_in.store_many(BASE))
    asyncio.run(built_in.close())
    harmed = base / "sam" / lost
    shutil.rmtree(harmed) if harmed.is_dir() else harmed.unlink()

    def attempt(call: str, step: int) -> str | None:
        root = tmp_path / f"{call} {step}"
        copy_sparse(base, root)
        answer, _ = operate(root, "repair", None, "signal=KILL", call, step)
        again = subprocess.run([*REPAIR, root], capture_output=True, timeout=60, check=True)
        found, texts, faults, searched = json.loads(again.stdout)
        assert set(texts) == set(BASE) and len(texts) == searched == 5 and faults == []
        assert answer is None or found == "all well", "acknowledged and not whole"
        shutil.rmtree(root)
        if answer is not None:  # perhaps the process that reads the shard for it was killed
            return None
        return "there" if found == "all well" else "repaired again"

    steps, outcomes = at_every_step(attempt, 97, naming=7)
    print(f"repair without {lost}: {dict(steps)}, {dict(outcomes)}")
    assert steps["rename"] and steps["msync"] and outcomes["repaired again"]
