"""What embedding memories will take, said before it starts: tokens, money and time."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from memory_semantic import counted, limits

if TYPE_CHECKING:
    from memory_semantic import EmbeddingGenerator, Memory

# OpenAI's prices of 2026, in dollars per million tokens; other services set their own.
PRICES = {
    "text-embedding-3-small": 0.02,
    "text-embedding-3-large": 0.13,
    "text-embedding-ada-002": 0.10,
}
_CHARS_PER_TOKEN = 4  # of English; a guess good enough for a price
_WRITE_SECONDS = 0.0005  # per memory, measured in an import of 2,000
_SAMPLE = "How long does one text take?"


@dataclass(frozen=True)
class Plan:
    """What embedding will take; `memories` is how many there are."""

    memories: int
    tokens: int
    dollars: float | None
    seconds: float
    service: str | None

    @property
    def sentence(self) -> str:
        """The plan in words, for a person."""
        cost = "" if self.dollars is None else f", about ${self.dollars:.2g}"
        minutes, seconds = divmod(max(1, round(self.seconds)), 60)
        time = f"{minutes} min {seconds} s" if minutes else f"{seconds} s"
        where = f"Their text goes to {self.service}" if self.service else "Nothing is sent anywhere"
        work = f"{counted(self.memories)} to embed, about {counted(self.tokens, 'token')}{cost}"
        return f"{work}, about {time}. {where}."


async def plan(memories: Sequence["Memory"], generator: "EmbeddingGenerator") -> Plan:
    """What embedding the memories will take, tried with other texts: no memory is embedded yet."""
    characters = sum(len(memory.content) for memory in memories)
    number = min(len(memories), limits.EMBEDDING_BATCH)
    started = time.perf_counter()
    if number:
        length = characters // len(memories)
        likely = (_SAMPLE * (length // len(_SAMPLE) + 1))[:length]
        await generator.generate_batch([f"{likely} {each}" for each in range(number)])
    seconds = (time.perf_counter() - started) / max(1, number) + _WRITE_SECONDS
    tokens = characters // _CHARS_PER_TOKEN
    local = generator.on_this_machine
    price = None if generator.endpoint else PRICES.get(generator.model)
    return Plan(
        memories=len(memories),
        tokens=tokens,
        dollars=None if price is None or local else tokens / 1e6 * price,
        seconds=len(memories) * seconds,
        service=None if local else generator.endpoint or "OpenAI",
    )
