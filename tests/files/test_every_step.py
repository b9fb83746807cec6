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
from pathlib import Path
from typing import Any

import pytest
from memory_semantic import MemoryStorage
from memory_semantic.files import vectors
from memory_semantic.files.folder import AgentFolder
from memory_semantic.remembered import point_id
from plain_vectors import PlainVectors
from store_files import OF_A_STORE, bytes_of, copy_sparse

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
import store_files
from memory_semantic import DamagedStoreError, MemoryStorage, StorageError, upkeep
from plain_vectors import PlainVectors
root, operation, argument = *sys.argv[2:4], json.loads(sys.argv[4])
storage = MemoryStorage("sam", {"storage_root": root}, embeddings=PlainVectors())
async def reembed(model):
    info = await storage.info()
    wanted = info.model_copy(update={"model": info.model._replace(model=model)})
    return await upkeep.reembed(storage.place, wanted, PlainVectors(), lambda done, of: None)
async def tag(text):
    return await storage.store(text, ["killed"])
async def repair(_):
    built_in = MemoryStorage("sam", {"storage_root": root, "embedding_model": "local"})
    damaged = False
    try:
        await built_in.get_recent()
    except DamagedStoreError:
        damaged = True
        await store_files.repair(built_in)
    texts = [memory.content for memory in await built_in.get_recent(None)]
    return [damaged, texts, await built_in.check(), len(await built_in.search("fact"))]
if __name__ == "__main__":  # the examination for a repair is another process
    work = {"reembed": reembed, "tag": tag, "repair": repair}.get(operation)
    try:
        done = asyncio.run((work or getattr(storage, operation))(argument))
        print(json.dumps({"done": done}))
    except StorageError as error:
        print(json.dumps({"error": str(error)}))
"""


def storage(root: Path, model: str = "plain") -> MemoryStorage:
    generator = PlainVectors()
    generator.model = model
    return MemoryStorage("sam", {"storage_root": str(root)}, embeddings=generator)


def model_of(root: Path) -> str:
    """The store's model, which a reembed may have changed."""
    manifest = AgentFolder(root, "sam").readable_manifest()
    return manifest.model.model if manifest else "plain"


def traced(root: Path, operation: str, argument: Any, *how: str | Path) -> Any:
    """What the operation answered, None if it died; strace does `how`, if it is to."""
    strace = ("strace", "-f", *how) if how else ()
    child = (sys.executable, "-c", CHILD, Path(__file__).parents[1], root, operation)
    process = subprocess.run(
        [*strace, *child, json.dumps(argument)], capture_output=True, text=True, timeout=60
    )
    return json.loads(process.stdout) if process.stdout.strip() else None


def steps_of(root: Path, operation: str, argument: Any) -> Counter[str]:
    """How often it makes each call, in the thread that makes most."""
    log = root / "steps.log"
    calls = ",".join((*NAMING, *SYNCING, *REMOVING))
    assert traced(root, operation, argument, "-o", log, "-e", f"trace={calls}")
    threads = Counter(re.findall(r"^(\d+) +(\w+)\(", log.read_text(), re.MULTILINE))
    steps = Counter[str]()
    for (_, call), number in threads.items():
        steps[call] = max(steps[call], number)
    return steps


def operate(root: Path, operation: str, argument: Any, harm: str, call: str, step: int) -> Any:
    """What the operation answered when this harm befell its n-th such call, None if it died, and
    whether there was such a call.
    """
    log = root / "harm.log"
    inject = f"inject={call}:{harm}:when={step}"
    how = ("-o", log, "-e", f"trace={call}", "-e", inject)
    answer = traced(root, operation, argument, *how)
    assert answer is not None or "signal=KILL" in harm
    return answer, "(INJECTED)" in log.read_text() or "killed by SIGKILL" in log.read_text()


async def texts(root: Path) -> set[str]:
    """What the store has, after everything in it and in its journal was examined."""
    opened = storage(root, model_of(root))
    memories = await opened.get_recent(100)
    found = {memory.content for memory in await opened.search("fact", limit=20)}
    assert found == {memory.content for memory in memories}
    assert await opened.check() == []
    return found


async def write_again(root: Path, text: str) -> None:
    """Assert that the next write of the text that was killed is there once it is acknowledged."""
    opened = storage(root)
    written = await opened.store(text, ["acknowledged"])
    [found] = await opened.with_ids([written])
    assert "acknowledged" in found.tags
    await opened.close()


def verify(root: Path, operation: str, answer: Any) -> str:
    """Assert that the store is whole and tells the truth; returns what became of the operation."""
    done, error = "done" in (answer or {}), (answer or {}).get("error", "")
    if done and operation == "delete":
        assert_gone(root)
    kept = asyncio.run(texts(root))
    if operation == "delete":
        assert set(BASE[1:]) <= kept <= set(BASE)
        changed = BASE[0] not in kept
        if not changed:
            asyncio.run(storage(root).delete([first(root)]))
        assert_gone(root)
    elif operation == "reembed":
        assert kept == set(BASE)
        changed = model_of(root) == "other"
        assert traced(root, "reembed", "other")["done"] == len(BASE)
        assert asyncio.run(texts(root)) == kept and model_of(root) == "other"
        assert not storage(root).folder.gathered
    else:
        base = set[str]() if operation == "create" else set(BASE)
        assert base <= kept <= base | {NEW}
        changed = any("killed" in m.tags for m in asyncio.run(storage(root).get_recent(100)))
        assert changed == (NEW in kept) or operation == "store again"
    # And it goes on.
    opened = storage(root, model_of(root))
    assert asyncio.run(opened.get(asyncio.run(opened.store("a later fact"))))
    assert {path.name for path in (root / "sam").iterdir()} == OF_A_STORE
    if done:
        assert changed, "acknowledged and not there"
        return "acknowledged"
    if "Nothing was changed" in error:
        assert not changed, f"something was changed: {error}"
        return "refused"
    if "It is done, but" in error:
        assert changed
        return "done, but"
    assert answer is None or "may or may not" in error, error
    return "done" if changed else "not done"


def first(root: Path) -> str:
    """The id of the first text."""
    memories = asyncio.run(storage(root).get_recent(100))
    return next(memory.id for memory in memories if memory.content == BASE[0])


def assert_gone(root: Path) -> None:
    left, key = bytes_of(root / "sam"), point_id(BASE[0])
    assert BASE[0].encode() not in left and key.bytes not in left


@pytest.fixture
def tmp_path(tmp_path: Path) -> Iterator[Path]:
    """In memory where there is room: what counts is the order of the calls, and a process that is
    killed loses nothing of what it had written. The syncs would take most of the test's time.
    """
    memory = Path("/dev/shm")
    is_large = memory.is_dir() and shutil.disk_usage(memory).free > IN_MEMORY
    with tempfile.TemporaryDirectory(dir=memory if is_large else tmp_path) as folder:
        yield Path(folder)


@pytest.fixture
def base(tmp_path: Path) -> Path:
    root = tmp_path / "base"
    asyncio.run(storage(root).store_many(BASE))
    asyncio.run(storage(root).close())
    manifest = AgentFolder(root, "sam").manifest()
    assert manifest
    third = manifest.model_copy(update={"model": manifest.model._replace(model="a third")})
    gathered = vectors.path_of(root / "sam/qdrant.db", third)
    vectors.add(gathered, ((point_id(text), [0.5] * 32) for text in BASE))
    return root


def at_every_step(
    steps: Counter[str], attempt: Callable[[str, int], str | None], stride: int, naming: int
) -> Counter[str]:
    """Makes an attempt at every so many of these steps, the last one first; returns what came of
    them. An attempt is None if there was no such step.
    """
    chosen = [
        (call, step)
        for call, number in steps.items()
        for step in range(number, 0, -(naming if call in NAMING else stride))
    ]
    with ThreadPoolExecutor(2) as pool:
        outcomes = [each for each in pool.map(lambda at: attempt(*at), chosen) if each]
    assert 2 * len(outcomes) >= len(chosen)  # the engine's threads take some steps more or fewer
    return Counter(outcomes)


@pytest.mark.parametrize(("harm", "often"), [("signal=KILL", 1), ("error=EIO", 2)])
@pytest.mark.parametrize(
    ("operation", "stride", "naming"),
    # Making a shard syncs some two hundred times, file after file, much alike.
    [
        *(("store", 1, 1), ("store again", 1, 1)),
        *(("delete", 10, 2), ("create", 10, 2), ("reembed", 16, 3)),
    ],
)
def test_at_every_step(
    base: Path, tmp_path: Path, operation: str, stride: int, naming: int, harm: str, often: int
) -> None:
    assert shutil.which("strace"), "these tests need strace: apt-get install strace"
    method, argument = {
        "delete": ("delete", [first(base)]),
        "reembed": ("reembed", "other"),
        "store again": ("tag", BASE[0]),
    }.get(operation, ("tag", NEW))
    asyncio.run(storage(base).close())

    def prepare(name: str) -> Path:
        root = tmp_path / name
        root.mkdir() if operation == "create" else copy_sparse(base, root)
        return root

    def attempt(call: str, step: int) -> str | None:
        root = prepare(f"{call} {step}")
        answer, happened = operate(root, method, argument, harm, call, step)
        if method == "tag" and operation != "create":
            copy_sparse(root, again := root.with_name(f"{root.name} again"))
            asyncio.run(write_again(again, argument))
            shutil.rmtree(again)
        outcome = verify(root, operation, answer)
        assert "error" not in (answer or {}) or "(EIO)" in answer["error"], answer
        asyncio.run(storage(root).close())
        shutil.rmtree(root)
        return outcome if happened else None

    steps = steps_of(prepare("steps"), method, argument)
    outcomes = at_every_step(steps, attempt, often * stride, often * naming)
    print(f"{operation}, {harm}: {dict(steps)}, {dict(outcomes)}")
    assert steps["fsync"] > 5 and steps["msync"] > 5 and len(outcomes) > 1


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
        answer, happened = operate(root, "repair", None, "signal=KILL", call, step)
        damaged, texts, faults, searched = traced(root, "repair", None)["done"]
        assert set(texts) == set(BASE) and len(texts) == searched == 5 and faults == []
        assert answer is None or not damaged, "acknowledged and not whole"
        assert not list((root / "sam").glob("*.tmp"))
        shutil.rmtree(root)
        if answer is not None:  # perhaps the process that reads the shard for it was killed
            return "acknowledged" if happened else None
        return "repaired again" if damaged else "there"

    copy_sparse(base, tmp_path / "steps")
    steps = steps_of(tmp_path / "steps", "repair", None)
    outcomes = at_every_step(steps, attempt, 40, 5)
    print(f"repair without {lost}: {dict(steps)}, {dict(outcomes)}")
    assert steps["rename"] and steps["msync"] and outcomes["repaired again"]
