"""What embedding memories will take, said before it starts: tokens and time."""

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from memory_semantic import counted, limits

if TYPE_CHECKING:
    from memory_semantic import EmbeddingGenerator, Memory

_CHARS_PER_TOKEN = 4  # of English; a guess good enough to decide by
_WRITE_SECONDS = 0.0005  # per memory, measured in an import of 2,000
_SAMPLE = "How long does one text take?"


async def plan(memories: Sequence["Memory"], generator: "EmbeddingGenerator") -> str:
    """What embedding the memories will take, in words for a person. It is tried with other texts:
    no memory is embedded yet.
    """
    characters = sum(len(memory.content) for memory in memories)
    number = min(len(memories), limits.EMBEDDING_BATCH)
    await generator.load()  # once, however many texts there are
    started = time.perf_counter()
    if number:
        length = characters // len(memories)
        likely = (_SAMPLE * (length // len(_SAMPLE) + 1))[:length]
        await generator.generate_batch([f"{likely} {each}" for each in range(number)])
    seconds = (time.perf_counter() - started) / max(1, number) + _WRITE_SECONDS
    service = None if generator.on_this_machine else generator.endpoint or "OpenAI"
    return sentence(len(memories), characters, len(memories) * seconds, service)


def sentence(memories: int, characters: int, seconds: float, service: str | None) -> str:
    """So many memories and characters to embed, in so many seconds, here or at a `service`."""
    minutes, rest = divmod(max(1, round(seconds)), 60)
    lasting = f"{minutes} min {rest} s" if minutes else f"{rest} s"
    where = f"Their text goes to {service}" if service else "Nothing is sent anywhere"
    tokens = counted(characters // _CHARS_PER_TOKEN, "token")
    return f"{counted(memories)} to embed, about {tokens}, about {lasting}. {where}."
