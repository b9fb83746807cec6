"""What all stores are filled with and asked: texts of real words, and vectors made from them.

Standard library only, because it runs in the environment of each store.
"""

import math
import random
import re
from array import array
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from operator import add, mul
from typing import NamedTuple

DIMENSIONS = 1536
CHARACTERS = 300
TOPICS = 64
TWO_YEARS = timedelta(days=730)
# Numbers of the memories that are added later start here, far above those of any filling.
LATER = 100_000_000

# Simple words of the kind that notes are made of; the built-in model knows them all.
_WORDS = """
account address agent alert amount answer archive article backup balance battery border bridge
browser budget building cache calendar camera capital channel chapter city client cloud coast column
commit company contract copy country customer database deadline decision delivery deploy desert
"""
WORDS = _WORDS.split()


class Item(NamedTuple):
    """A memory, or a question: its text, its vector of unit length, when it was stored."""

    text: str
    vector: "array[float]"
    timestamp: datetime


def text(number: int) -> str:
    """The text of the memory of this number."""
    words = random.Random(number).choices(WORDS, k=60)
    return f"Memory {number}: {' '.join(words)}"[: CHARACTERS - 1] + "."  # no blank at the end


def number_of(content: str) -> int:
    """The number of the memory with this text."""
    return int(content.split(maxsplit=2)[1].rstrip(":"))


def vector(content: str) -> "array[float]":
    """A vector of unit length that depends on the text alone; well below a millisecond.

    Memories whose numbers are equal modulo 64 share a topic: their cosine is about 0.5. That of a
    question and its memory is about 0.8, and 0.4 to others of the topic.
    """
    found = re.match(r"\w+ (\d+)", content)  # some stores try a text of their own first
    number = int(found[1]) if found else 0
    numbers = list(map(add, _topic(number % TOPICS), _noise(f"memory {number}")))
    if content.startswith("Question"):
        numbers = list(map(add, numbers, _noise(content)))
    length = math.sqrt(sum(map(mul, numbers, numbers)))
    return array("f", [each / length for each in numbers])


@lru_cache(TOPICS)
def _topic(number: int) -> "array[int]":
    return _noise(f"topic {number}")


def _noise(seed: str) -> "array[int]":
    return array("h", random.Random(seed).randbytes(2 * DIMENSIONS))


def memory(number: int, timestamp: datetime | None = None) -> Item:
    """The memory of this number, of now or of another time."""
    content = text(number)
    return Item(content, vector(content), timestamp or datetime.now(UTC))


def one_of(number: int, size: int, now: datetime) -> Item:
    """One of `size` memories, whose times lie evenly in the two years before `now`."""
    return memory(number, now - TWO_YEARS * (1 - number / size))


def question(number: int, index: int = 0) -> Item:
    """A question that is nearest to the memory of this number."""
    content = f"Question {number}.{index}: {text(number)[12:100].strip()}?"
    return Item(content, vector(content), datetime.now(UTC))


def ask(index: int, size: int) -> Item:
    """The question of this index, about one of the first `size` memories."""
    return question(random.Random(f"question {index}").randrange(size), index)
