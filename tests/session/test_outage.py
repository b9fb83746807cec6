"""While the embeddings service fails, no prompt waits for long, and the person knows."""

from typing import Any

import pytest
from amplifier_core import AmplifierSession
from conversation import Config, converse
from embeddings_server import EmbeddingsServer, error
from memory_hooks import recall
from memory_semantic import MemoryStorage

# So little that nothing fits, and each prompt is searched for.
LITTLE = {"token_budget": 1, "prompt_token_budget": 1}


async def test_after_two_failures_no_prompt_waits_for_a_time_that_doubles_until_a_success(
    service: Config,
    remote: MemoryStorage,
    server: EmbeddingsServer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    await remote.store("Something.")
    now, asked = 0.0, list[int]()
    monkeypatch.setattr("memory_hooks.pause.monotonic", lambda: now)

    def after(seconds: float) -> Any:
        async def step(_: AmplifierSession) -> None:
            nonlocal now
            now += seconds
            asked.append(len(server.requests))

        return step

    async def up(_: AmplifierSession) -> None:
        server.script = []

    server.requests.clear()
    server.script = [error(401)] * 100
    hello = "What did we decide?"
    times = (31, 31, 31, 1000, 10_000)  # the pauses are 30, 60, …, at most 900
    steps = [step for seconds in times for step in (hello, after(seconds))]
    again = ["What now?", "And now?", after(0)]
    talk = await converse(recall.NAME, service, hello, *steps, up, *again, settings=LITTLE)
    assert asked == [2, 3, 3, 4, 5, 7]
    assert [name for name, _ in talk.events].count("memory:inject_failed") == 5
    first, second = talk.shown
    assert first.startswith("Recall from long-term memory failed for this prompt. The embeddings")
    assert "the next try comes 30 seconds later" in second
