"""Any text comes back unchanged, whatever the order of calls (hypothesis)."""

import asyncio
import shutil
import tempfile
from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from memory_semantic import MemoryStorage
from memory_semantic.check import clean_tags, clean_text
from memory_semantic.plaintext import normal
from plain_vectors import PlainVectors

VISIBLE = st.text(min_size=1, max_size=300).filter(
    lambda text: any(char.isprintable() and not char.isspace() for char in text)
)
TAGS = st.lists(
    st.text(min_size=1, max_size=20).filter(lambda t: t.strip().isprintable()), max_size=4
)


def done(call: Any) -> Any:
    return asyncio.run(call)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(VISIBLE)
def test_any_text_comes_back_as_it_was(text: str) -> None:
    with tempfile.TemporaryDirectory() as root:
        storage = MemoryStorage("sam", {"storage_root": root}, embeddings=PlainVectors())
        memory = done(storage.get(done(storage.store(text))))
        assert memory and memory.content == normal(text)
        assert [found.content for found in done(storage.search(text))] == [normal(text)]


class AgainstADictionary(RuleBasedStateMachine):
    """Store, store again, delete and search, beside a plain dictionary that does the same."""

    def __init__(self) -> None:
        super().__init__()
        self.root = tempfile.mkdtemp()
        self.now = datetime(2026, 1, 1, tzinfo=UTC)
        self.known: dict[str, tuple[str, list[str], datetime]] = {}
        self.storage = MemoryStorage(
            "sam",
            {"storage_root": self.root},
            embeddings=PlainVectors(),
            clock=lambda: self.now,
        )

    def teardown(self) -> None:
        assert done(self.storage.check()) == []
        shutil.rmtree(self.root)

    @rule(text=st.sampled_from([f"fact {i}" for i in range(8)]), tags=TAGS)
    def store(self, text: str, tags: list[str]) -> None:
        self.now += timedelta(hours=1)
        text = clean_text(text, "content")
        try:
            tags = clean_tags(tags)
        except ValueError:
            return
        before = self.known.get(text)
        old: list[str] = before[1] if before else []
        merged = [*old, *(tag for tag in tags if tag not in old)]
        if len(merged) > 20:
            return
        memory_id = done(self.storage.store(text, tags))
        assert not before or before[0] == memory_id
        self.known[text] = (memory_id, merged, self.now)

    @rule(data=st.data())
    def delete(self, data: st.DataObject) -> None:
        if self.known:
            text = data.draw(st.sampled_from(sorted(self.known)))
            assert done(self.storage.delete([self.known.pop(text)[0]])) == 1

    @rule(days=st.integers(0, 20))
    def wait(self, days: int) -> None:
        self.now += timedelta(days=days)

    @rule(hours=st.integers(0, 400))
    def search_since(self, hours: int) -> None:
        since = self.now - timedelta(hours=hours)
        found = {memory.content for memory in done(self.storage.search("fact", 20, since))}
        assert found == {text for text, (_, _, time) in self.known.items() if time >= since}

    @invariant()
    def is_the_same(self) -> None:
        memories = done(self.storage.get_recent(100))
        assert {m.content: (m.id, m.tags, m.timestamp) for m in memories} == self.known


TestAgainstADictionary = AgainstADictionary.TestCase
TestAgainstADictionary.settings = settings(
    max_examples=10,
    stateful_step_count=15,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
