"""What embedding memories will take, said before it starts: tokens and time."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from memory_semantic import counted, limits

if TYPE_CHECKING:
    from memory_semantic import EmbeddingGenerator, Memory

_CHARS_PER_TOKEN = 4  # of English; a guess good enough to decide by
_WRITE_SECONDS = 0.0005  # per memory, measured in an import of 2,000
_SAMPLE = "How long does one text take?"


@dataclass(frozen=True)
class Plan:
    """What embedding will take; `memories` is how many there are."""

    memories: int
    tokens: int
    seconds: float
    service: str | None

    @property
    def sentence(self) -> str:
        """The plan in words, for a person."""
        minutes, seconds = divmod(max(1, round(self.seconds)), 60)
        time = f"{minutes} min {seconds} s" if minutes else f"{seconds} s"
        where = f"Their text goes to {self.service}" if self.service else "Nothing is sent anywhere"
        work = f"{counted(self.memories)} to embed, about {counted(self.tokens, 'token')}"
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
    return Plan(
        memories=len(memories),
        tokens=characters // _CHARS_PER_TOKEN,
        seconds=len(memories) * seconds,
        service=None if generator.on_this_machine else generator.endpoint or "OpenAI",
    )
