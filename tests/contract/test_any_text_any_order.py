"""Any text comes back unchanged, whatever the order of calls, and whatever befalls the store
(hypothesis). A store in files and one in a dictionary are called alike and must answer alike.
"""

import asyncio
import copy
import os
import shutil
import signal
import tempfile
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from dict_place import DictPlace, agree
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from memory_semantic import DamagedStoreError, InputError, Memory, MemoryStorage, upkeep
from memory_semantic.check import clean_text
from memory_semantic.limits import LOCAL_MODEL
from memory_semantic.plaintext import normal
from plain_vectors import PlainVectors
from store_files import cut, empty, remove, repair

VISIBLE = st.text(min_size=1, max_size=300).filter(
    lambda text: any(char.isprintable() and not char.isspace() for char in text)
)
# Texts that share words, of which a few are common to a third of them and more. They do not end in
# their numbers: where the engine compresses the rest of a text, any byte may follow.
TEXTS = st.sampled_from(
    [
        f"We chose {name} for service {i} today"
        for i in range(12)
        for name in ("Go", "Rust", "PostgreSQL")
    ]
    + ["데이터베이스를 옮겼다", "数据库迁移到新的服务器", "Grüße aus Köln", "!?!?!?", "a" * 10_000]
)
TAGS = st.lists(st.sampled_from(["one", "two", "three", *map(str, range(19))]))
IDS = st.sampled_from(["mem-000000000001", "mem-0000000000ab", "mem-ffffffffffff"])
WORDS = {"lexical_weight": 1.0}  # count with every model
# float16 storage moves a cosine by some 1e-5, and what a killed call has left counts for how rare a
# word is until the next rebuild. That scores are exact, test_contract shows.
SAME = 3e-3
NOT_KEPT = {"id", "embedding", "score"}

Call = Callable[[MemoryStorage], Awaitable[Any]]


def done(call: Any) -> Any:
    return asyncio.run(call)


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(VISIBLE)
def test_any_text_comes_back_as_it_was(text: str) -> None:
    with tempfile.TemporaryDirectory() as root:
        storage = MemoryStorage("sam", {"storage_root": root}, embeddings=PlainVectors())
        memory = done(storage.get(done(storage.store(text))))
        assert memory and memory.content == normal(text)
        assert [found.content for found in done(storage.search(text))] == [normal(text)]


async def id_of(storage: MemoryStorage, text: str) -> str:
    return next(m.id for m in await storage.get_recent(None) if m.content == text)


class AnyOrder(RuleBasedStateMachine):
    """A store in files beside one in a dictionary: stored, restored, searched, forgotten, given
    another model, killed, damaged and repaired.
    """

    def __init__(self) -> None:
        super().__init__()
        self.root = Path(tempfile.mkdtemp())
        self.now = datetime(2026, 1, 1, tzinfo=UTC)
        self.model = LOCAL_MODEL
        self.oracle = DictPlace()
        self.ids: dict[str, str] = {}
        self.forgotten: set[str] = set()
        self.links = False  # whether any memory is replaced

    def teardown(self) -> None:
        assert done(self.files.check()) == []
        shutil.rmtree(self.root)

    @property
    def other_model(self) -> str:
        return "plain" if self.model == LOCAL_MODEL else LOCAL_MODEL

    @property
    def files(self) -> MemoryStorage:
        """Another session each time."""
        return self.with_place(None)

    def with_place(self, oracle: DictPlace | None) -> MemoryStorage:
        return MemoryStorage(
            "sam",
            {"storage_root": str(self.root), "embedding_model": LOCAL_MODEL, **WORDS},
            embeddings=None if self.model == LOCAL_MODEL else PlainVectors(),
            clock=lambda: self.now,
            place=oracle,
        )

    def both(self, call: Call) -> tuple[Any, Any]:
        """What the two answer, or how they refuse."""

        async def answer(storage: MemoryStorage) -> Any:
            try:
                return await call(storage)
            except InputError as error:
                return str(error)

        return done(answer(self.files)), done(answer(self.with_place(self.oracle)))

    @rule(items=st.lists(st.tuples(TEXTS, TAGS), min_size=1, max_size=5))
    def store(self, items: list[tuple[str, list[str]]]) -> None:
        self.now += timedelta(hours=1)
        one, other = self.both(lambda storage: storage.upsert(items))
        if isinstance(one, str):
            assert one == other
            return
        assert [(s.known, s.changed) for s in one] == [(s.known, s.changed) for s in other]
        self.forgotten -= {text for text, _ in items}

    @precondition(lambda self: self.ids)
    @rule(data=st.data(), text=TEXTS)
    def correct(self, data: st.DataObject, text: str) -> None:
        old = data.draw(st.sampled_from(sorted(self.ids)))
        self.now += timedelta(hours=1)

        async def replace(storage: MemoryStorage) -> tuple[bool, bool]:
            [stored] = await storage.upsert([text], await id_of(storage, old))
            return stored.known, bool(stored.replaced)

        one, other = self.both(replace)
        assert isinstance(one, str) == isinstance(other, str) == (text == old)
        assert isinstance(one, str) or one == other
        self.forgotten -= {text} if text != old else set()

    @precondition(lambda self: self.ids)
    @rule(data=st.data(), what=st.sampled_from(["pin", "unpin", "unreplace"]))
    def mark(self, data: st.DataObject, what: str) -> None:
        text = data.draw(st.sampled_from(sorted(self.ids)))

        async def mark(storage: MemoryStorage) -> None:
            id = await id_of(storage, text)
            if what == "unreplace":
                await storage.unreplace(id)
            else:
                await storage.pin([id], what == "pin")

        self.both(mark)

    @rule(text=TEXTS, id=IDS, hours=st.integers(-300, 100), source=st.sampled_from("ab"))
    def restore(self, text: str, id: str, hours: int, source: str) -> None:
        def memory() -> Memory:
            moment = self.now + timedelta(hours=hours)
            fields = {"id": id, "agent_id": "sam", "content": text, "timestamp": moment}
            return Memory(**fields, tags=["restored"], metadata={"source": source})

        known = text in self.ids
        one, _ = self.both(lambda storage: storage.restore([memory()]))
        assert known or id in self.ids.values() or one[0].id == id
        self.forgotten -= {text}

    @rule(texts=st.lists(TEXTS, max_size=3))
    def forget(self, texts: list[str]) -> None:
        known = self.ids.keys() & texts
        one, _ = self.both(lambda storage: self._delete(storage, known))
        assert one == len(known)
        self.forgotten |= known
        self.nothing_forgotten_is_left()

    @staticmethod
    async def _delete(storage: MemoryStorage, texts: set[str]) -> int:
        memories = await storage.get_recent(None)
        return await storage.delete([m.id for m in memories if m.content in texts])

    @rule(days=st.integers(0, 20))
    def wait(self, days: int) -> None:
        self.now += timedelta(days=days)

    @rule(
        query=TEXTS,
        limit=st.integers(1, 20),
        hours=st.none() | st.integers(0, 400),
        tags=TAGS.map(lambda tags: tags[:2]),
    )
    def search(self, query: str, limit: int, hours: int | None, tags: list[str]) -> None:
        since = None if hours is None else self.now - timedelta(hours=hours)
        one, other = self.both(lambda storage: storage.search(query, limit, since, tags))
        if not self.links:  # of what one replaces, the most similar counts that was found
            agree(one, other, SAME)

    @precondition(lambda self: self.ids)
    @rule(model=st.sampled_from([LOCAL_MODEL, "plain"]))
    def reembed(self, model: str) -> None:
        """With the same model, nothing is done."""
        self._done(lambda storage: self._reembed(storage, model))
        self.model = model

    async def _reembed(self, storage: MemoryStorage, model: str) -> None:
        self.model = model
        generator = self.files.generator(None)
        await generator.generate("a sample")
        info = await storage.info()
        assert info
        same = storage.generator(info).model == model
        chosen = info.model._replace(
            model=model, version=generator.version, dimensions=generator.dimensions or 0
        )
        wanted = info.model_copy(update={"model": info.model if same else chosen})
        if isinstance(storage.place, DictPlace):
            await storage.place.reembed(wanted, generator)
        else:
            await upkeep.reembed(storage.place, wanted, generator, lambda done, of: None)

    def _done(self, call: Call) -> None:
        before = self.model
        done(call(self.files))
        self.model = before
        done(call(self.with_place(self.oracle)))

    @rule(
        items=st.lists(st.tuples(TEXTS, TAGS.map(lambda tags: tags[:1])), min_size=1, max_size=5),
        texts=st.lists(TEXTS, max_size=3),
        what=st.sampled_from(["store", "forget", "reembed"]),
        moment=st.floats(0, 0.06),
    )
    def kill(self, items: Any, texts: list[str], what: str, moment: float) -> None:
        """A process is killed while it works: its call was done or it was not, and what it has
        acknowledged was.
        """
        calls: dict[str, Call] = {
            "store": lambda storage: storage.upsert(items),
            "forget": lambda storage: self._delete(storage, self.ids.keys() & texts),
            "reembed": lambda storage: self._reembed(storage, self.other_model),
        }
        if what == "reembed" and not self.ids:
            return
        self.now += timedelta(hours=1)
        model = self.model
        acknowledged = self._killed(calls[what], moment)
        self.model = model
        if what == "reembed":  # either is done, and whichever it is, it can be done again
            info, other = done(self.files.info()), self.other_model
            assert info and (not acknowledged or info.model.model == other)
            self.model = info.model.model
            done(self._reembed(self.files, other))
            self.model = model
            done(self._reembed(self.with_place(self.oracle), other))
            self.model = other
            return
        before, after = copy.deepcopy(self.oracle), copy.deepcopy(self.oracle)
        with suppress(InputError):
            done(calls[what](self.with_place(after)))
        there = self.kept(self.files)
        self.oracle = after if there == self.kept(self.with_place(after)) else before
        assert there == self.kept(self.with_place(self.oracle))
        assert self.oracle is after or not acknowledged
        if what == "forget" and acknowledged:
            self.forgotten |= self.ids.keys() & texts
            self.nothing_forgotten_is_left()
        self.forgotten -= {clean_text(text, "") for text, _ in items}  # bytes of them may be left

    def _killed(self, call: Call, moment: float) -> bool:
        """Whether a process that is killed at this moment (seconds) has said before that the call
        is done.
        """
        reading, writing = os.pipe()
        child = os.fork()
        if not child:
            try:
                done(call(self.files))
                os.write(writing, b".")
                signal.pause()
            finally:
                os._exit(1)
        os.close(writing)
        time.sleep(moment)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        with os.fdopen(reading, "rb") as answer:
            return bool(answer.read())

    @rule(harm=st.sampled_from([remove, empty, cut]))
    def lose_the_journal(self, harm: Callable[[Path], None]) -> None:
        """The next call writes it anew."""
        done(self.files.close())
        if self.files.folder.journal.path.exists():
            harm(self.files.folder.journal.path)

    @precondition(lambda self: self.ids and self.model == LOCAL_MODEL)
    @rule(
        harm=st.sampled_from([remove, empty, cut]),
        what=st.sampled_from(["manifest.json", "shard-*/segments/*/segment.json"]),
    )
    def damage(self, harm: Callable[[Path], None], what: str) -> None:
        """A store that cannot be opened is refused, and a repair brings everything back."""
        done(self.files.close())
        [file] = self.files.folder.database.glob(what)
        harm(file)
        with pytest.raises(DamagedStoreError):
            done(self.files.get_recent())
        done(repair(self.files))
        for aside in self.files.folder.damaged:  # which a person deletes
            shutil.rmtree(aside)

    @staticmethod
    def kept(storage: MemoryStorage) -> dict[str, dict[str, Any]]:
        """What a store has of each text, but for its id."""
        return {m.content: m.model_dump(exclude=NOT_KEPT) for m in done(storage.get_recent(None))}

    def nothing_forgotten_is_left(self) -> None:
        done(self.files.close())
        left = {path: path.read_bytes() for path in self.root.rglob("*") if path.is_file()}
        for text in self.forgotten:
            found = [path for path, data in left.items() if clean_text(text, "").encode() in data]
            assert not found, text

    @invariant()
    def is_the_same(self) -> None:
        storage = self.files
        assert self.kept(storage) == self.kept(self.with_place(self.oracle))
        ids = {memory.content: memory.id for memory in done(storage.get_recent(None))}
        assert len(set(ids.values())) == len(ids)
        assert all(ids[text] == id for text, id in self.ids.items() if text in ids)
        self.ids = ids
        self.links = any(kept["replaced_by"] for kept in self.kept(storage).values())


TestAnyOrder = pytest.mark.timeout(300)(AnyOrder.TestCase)
TestAnyOrder.settings = settings(
    max_examples=6,  # of the 20 seconds that they take, most is of the disk; CI has them often
    stateful_step_count=20,
    phases=[Phase.explicit, Phase.reuse, Phase.generate],  # to shrink takes minutes
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
