"""Any text comes back unchanged, whatever the order of calls, and whatever befalls the store
(hypothesis). A store in files and one in a dictionary are called alike and must answer alike.
"""

import asyncio
import copy
import shutil
import tempfile
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

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
from store_files import cut, empty, in_a_child, remove, repair

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
MOMENTS = st.floats(0, 0.06)  # seconds
IDS = st.sampled_from(["mem-000000000001", "mem-0000000000ab", "mem-ffffffffffff"])
WORDS = {"lexical_weight": 1.0}  # count with every model
# float16 storage moves a cosine by some 1e-5, and what a killed call has left counts for how rare a
# word is until the next rebuild. That scores are exact, test_contract shows.
SAME = 3e-3
NOT_KEPT = {"id", "embedding", "score"}

Call = tuple[Any, ...]  # the name of what is done, and with which texts
CALLS = st.one_of(
    st.lists(st.tuples(TEXTS, TAGS), min_size=1, max_size=5).map(lambda items: ("store", *items)),
    st.tuples(st.just("correct"), TEXTS, TEXTS),
    st.tuples(st.sampled_from(["pin", "unpin", "unreplace"]), TEXTS),
    st.tuples(st.just("restore"), TEXTS, IDS, st.integers(-300, 100), st.sampled_from("ab")),
    st.lists(TEXTS, max_size=3).map(lambda texts: ("forget", *texts)),
)


def done(call: Any) -> Any:
    return asyncio.run(call)


def texts_of(call: Call) -> set[str]:
    """The texts that a call names, as they are stored."""
    named = {"store": [text for text, _ in call[1:]] if call[0] == "store" else []}
    named |= {"correct": call[1:2], "restore": call[1:2]}
    return {clean_text(text, "") for text in named.get(call[0], call[1:])}


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(VISIBLE)
def test_any_text_comes_back_as_it_was(text: str) -> None:
    with tempfile.TemporaryDirectory() as root:
        storage = MemoryStorage("sam", {"storage_root": root}, embeddings=PlainVectors())
        memory = done(storage.get(done(storage.store(text))))
        assert memory and memory.content == normal(text)
        assert [found.content for found in done(storage.search(text))] == [normal(text)]


class AnyOrder(RuleBasedStateMachine):
    """A store in files, also killed, damaged and repaired, beside one in a dictionary."""

    def __init__(self) -> None:
        super().__init__()
        self.root = Path(tempfile.mkdtemp())
        self.now = datetime(2026, 1, 1, tzinfo=UTC)
        self.model = LOCAL_MODEL
        self.oracle = DictPlace()
        self.ids: dict[str, str] = {}
        self.forgotten: set[str] = set()
        self.heirs: set[UUID] = set()  # what replaces another

    def teardown(self) -> None:
        assert done(self.storage().check()) == []
        shutil.rmtree(self.root)

    def storage(self, place: DictPlace | None = None, model: str = "") -> MemoryStorage:
        """Another session each time; on the store in files, if no place is named."""
        return MemoryStorage(
            "sam",
            {"storage_root": str(self.root), "embedding_model": LOCAL_MODEL, **WORDS},
            embeddings=None if (model or self.model) == LOCAL_MODEL else PlainVectors(),
            clock=lambda: self.now,
            place=place,
        )

    async def perform(self, storage: MemoryStorage, call: Call) -> Any:
        """What the store answers to a call, but for ids."""
        what, *given = call
        ids = {memory.content: memory.id for memory in await storage.get_recent(None)}
        known = [ids[text] for text in texts_of(call) if text in ids]
        try:
            if what == "store":
                return [(each.known, each.changed) for each in await storage.upsert(given)]
            if what == "correct":
                [stored] = await storage.upsert(given[:1], ids.get(given[1]))
                return stored.known, bool(stored.replaced)
            if what == "restore":
                text, id, hours, source = given
                time, metadata = self.now + timedelta(hours=hours), {"source": source}
                fields = {"id": id, "agent_id": "sam", "content": text, "timestamp": time}
                memory = Memory(**fields, tags=["restored"], metadata=metadata)
                [stored] = await storage.restore([memory])
                assert stored.known or id in ids.values() or stored.id == id
            elif what == "forget":
                return await storage.delete(known)
            elif what == "unreplace":
                return [bool(await storage.unreplace(id)) for id in known]
            else:
                await storage.pin(known, what == "pin")
        except InputError:
            return "refused"

    @rule(call=CALLS)
    def answers_alike(self, call: Call) -> None:
        self.now += timedelta(hours=1)
        storages = self.storage(), self.storage(self.oracle)
        one, other = (done(self.perform(each, call)) for each in storages)
        assert one == other
        self._note(call, acknowledged=one != "refused")

    def _note(self, call: Call, acknowledged: bool) -> None:
        """What was forgotten is on no disk until it is stored again."""
        if call[0] == "forget" and acknowledged:
            self.forgotten |= self.ids.keys() & texts_of(call)
            done(self.storage().close())
            left = {path: path.read_bytes() for path in self.root.rglob("*") if path.is_file()}
            for text in self.forgotten:
                assert not [path for path, data in left.items() if text.encode() in data], text
        elif call[0] in ("store", "correct", "restore", "forget"):
            self.forgotten -= texts_of(call)

    @rule(call=CALLS, moment=MOMENTS)
    def is_killed(self, call: Call, moment: float) -> None:
        """What a killed process did was done or was not, and was if it was acknowledged."""
        self.now += timedelta(hours=1)
        acknowledged = in_a_child(lambda: self.perform(self.storage(), call), moment)
        before, after = copy.deepcopy(self.oracle), copy.deepcopy(self.oracle)
        done(self.perform(self.storage(after), call))
        there = self.kept()
        self.oracle = after if there == self.kept(after) else before
        assert there == self.kept(self.oracle)
        assert self.oracle is after or not acknowledged
        self._note(call, bool(acknowledged))

    @rule(days=st.integers(0, 20))
    def time_passes(self, days: int) -> None:
        self.now += timedelta(days=days)

    @rule(
        query=TEXTS,
        limit=st.integers(1, 20),
        hours=st.none() | st.integers(0, 400),
        tags=TAGS.map(lambda tags: tags[:2]),
    )
    def finds_alike(self, query: str, limit: int, hours: int | None, tags: list[str]) -> None:
        since = None if hours is None else self.now - timedelta(hours=hours)
        storages = self.storage(), self.storage(self.oracle)
        found = [done(each.search(query, limit, since, tags)) for each in storages]
        assert len(found[0]) == len(found[1])
        # Of what one replaces, the most similar counts that was found: the others are compared.
        one, other = ([m for m in each if m.key not in self.heirs] for each in found)
        both = min(len(one), len(other))
        agree(one[:both], other[:both], SAME)

    @precondition(lambda self: self.ids)
    @rule(model=st.sampled_from([LOCAL_MODEL, "plain"]), moment=st.none() | MOMENTS)
    def gets_a_model(self, model: str, moment: float | None) -> None:
        """With the same model, nothing is done; one that was killed can be done again."""
        if moment is not None:
            acknowledged = in_a_child(lambda: self._reembed(self.storage(), model), moment)
            info = done(self.storage().info())
            assert info and (not acknowledged or info.model.model == model)
            self.model = info.model.model
        done(self._reembed(self.storage(), model))
        done(self._reembed(self.storage(self.oracle), model))
        self.model = model

    async def _reembed(self, storage: MemoryStorage, model: str) -> None:
        generator = self.storage(model=model).generator(None)
        info = await upkeep.info_with(storage.place, storage.config, generator)
        if isinstance(storage.place, DictPlace):
            await storage.place.reembed(info, generator)
        else:
            await upkeep.reembed(storage.place, info, generator, lambda done, of: None)

    @rule(harm=st.sampled_from([remove, empty, cut]))
    def loses_its_journal(self, harm: Callable[[Path], None]) -> None:
        """The next call writes it anew."""
        storage = self.storage()
        done(storage.close())
        if storage.folder.journal.path.exists():
            harm(storage.folder.journal.path)

    @precondition(lambda self: self.ids and self.model == LOCAL_MODEL)
    @rule(
        harm=st.sampled_from([remove, empty, cut]),
        what=st.sampled_from(["manifest.json", "shard-*/segments/*/segment.json"]),
    )
    def is_damaged(self, harm: Callable[[Path], None], what: str) -> None:
        """A store that cannot be opened is refused, and a repair brings everything back."""
        storage = self.storage()
        done(storage.close())
        [file] = storage.folder.database.glob(what)
        harm(file)
        with pytest.raises(DamagedStoreError):
            done(storage.get_recent())
        done(repair(storage))
        for aside in storage.folder.damaged:  # which a person deletes
            shutil.rmtree(aside)

    def kept(self, place: DictPlace | None = None) -> dict[str, dict[str, Any]]:
        """What a store has of each text, but for its id."""
        memories = done(self.storage(place).get_recent(None))
        return {memory.content: memory.model_dump(exclude=NOT_KEPT) for memory in memories}

    @invariant()
    def is_the_same(self) -> None:
        kept = self.kept()
        assert kept == self.kept(self.oracle)
        ids = {memory.content: memory.id for memory in done(self.storage().get_recent(None))}
        assert len(set(ids.values())) == len(ids)
        assert all(ids[text] == id for text, id in self.ids.items() if text in ids)
        self.ids = ids
        self.heirs = {each["replaced_by"] for each in kept.values()} - {None}


TestAnyOrder = pytest.mark.timeout(300)(AnyOrder.TestCase)
TestAnyOrder.settings = settings(
    max_examples=6,  # of the seconds that they take, most is of the disk; CI has them often
    stateful_step_count=20,
    phases=[Phase.explicit, Phase.reuse, Phase.generate],  # to shrink takes minutes
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
