"""The part of the benchmark that runs inside the environment of each store.

Standard library only. A script `with_*.py` wraps one store as a `Store` and ends with
`worker.main(...)`; each mode of it prints its result as one line of JSON, times in milliseconds.
Run by itself, this file prints what a bare interpreter takes of memory.
"""

import json
import math
import random
import re
import resource
import sys
import time
from array import array
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from operator import add, mul
from pathlib import Path
from typing import Any, NamedTuple

DIMENSIONS = 1536
CHARACTERS = 300
LIMIT = 5
WARM_UP = 3
# A loop of calls ends early after so long, because one slow store must not stop the comparison.
LOOP_SECONDS = 60.0
LEAST_CALLS = 5
# Of calls that come alone: after such a pause, in seconds, ours has closed its store again.
PAUSE = 0.4
LONE_CALLS = 15
FORGOTTEN = 5
# So many kinds of failure are told apart.
KINDS = 10
TOPICS = 64
WEEK = timedelta(days=7)
TWO_YEARS = timedelta(days=730)
# Numbers of the memories that are added later start here, far above those of any filling.
LATER = 100_000_000

# Simple words of the kind that notes are made of; the built-in model knows them all.
_WORDS = """
account address agent alert amount answer archive article backup balance battery border
bridge browser budget building cache calendar camera capital channel chapter city client
cloud coast column commit company contract copy country customer database deadline decision
delivery deploy desert design device discount document domain email engine error event
export factory failure family feature field figure filter finance flight folder forest
format function garden glass harbour health history hotel house image import index
insurance interest invoice island journal journey keyboard kitchen language lawyer lesson
letter library licence limit machine market meeting memory message metal migration model
money mountain museum network number office order package page paper parser password
payment person pipeline planet player policy price printer problem process product profile
project protocol quality question queue record region release report request research
result retry review river rollback route schedule school screen script season secret
server service session shipment signal station storage summary supplier support system
table teacher team test thread ticket timeout token traffic train transfer update user
vendor version village weather website window winter worker writer
"""
WORDS = _WORDS.split()


class Item(NamedTuple):
    """A memory, or a question: its text, its vector of unit length, when it was stored."""

    text: str
    vector: "array[float]"
    timestamp: datetime


class Store:
    """One store in one folder. Each peer overrides what it can do."""

    # How many memories one `add` takes when a store is filled.
    batch = 1_000
    can_forget = True

    def open(self, folder: Path) -> None:
        """Open the store in this folder, which exists; make a store if it is empty."""
        raise NotImplementedError

    def add(self, items: Sequence[Item]) -> None:
        """Store new memories: they are as durable as this store makes them when it returns."""
        raise NotImplementedError

    def search(self, question: Item, limit: int, since: datetime | None) -> list[str]:
        """The texts of the nearest memories, best first."""
        raise NotImplementedError

    def find(self, number: int) -> Any:
        """How `forget` is told of the memory of this number; not timed."""
        return number

    def forget(self, found: Any) -> None:
        """Take a memory out: no search finds it when this returns."""
        raise NotImplementedError

    def texts(self) -> list[str]:
        """The texts of all memories."""
        raise NotImplementedError

    def settle(self) -> None:
        """What the documentation recommends after a large import."""

    def close(self) -> None:
        """Let go of the store."""


def text(number: int) -> str:
    """The text of a memory: real words, because the built-in model reads them."""
    words = random.Random(number).choices(WORDS, k=60)
    return f"Memory {number}: {' '.join(words)}"[: CHARACTERS - 1] + "."  # no blank at the end


def question(index: int, number: int) -> str:
    """A question that is nearest to the memory of this number."""
    return f"Question {number}.{index}: {text(number)[12:100].strip()}?"


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


def number_of(content: str) -> int:
    """The number of the memory with this text."""
    return int(content.split(maxsplit=2)[1].rstrip(":"))


@lru_cache(TOPICS)
def _topic(number: int) -> "array[int]":
    return _noise(f"topic {number}")


def _noise(seed: str) -> "array[int]":
    return array("h", random.Random(seed).randbytes(2 * DIMENSIONS))


def memory(number: int, timestamp: datetime) -> Item:
    content = text(number)
    return Item(content, vector(content), timestamp)


def timestamp(number: int, size: int, now: datetime) -> datetime:
    """The times of `size` memories lie evenly in the two years before `now`."""
    age = TWO_YEARS * (1 - (number + 0.5) / size)
    # None is about to become older than a week: all stores are asked about the same memories.
    return now - (WEEK - timedelta(days=1) if WEEK - timedelta(days=1) < age < WEEK else age)


def ask(index: int, size: int) -> Item:
    """The question of this index, about one of the first `size` memories."""
    content = question(index, random.Random(f"question {index}").randrange(size))
    return Item(content, vector(content), datetime.now(UTC))


def used_memory() -> dict[str, float | None]:
    """MB of this process: all that is resident, and the part that is not pages of files."""
    status = Path("/proc/self/status")
    if not status.exists():  # macOS: the highest so far, in bytes
        return {"rss": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20, "anon": None}
    lines = dict(line.split(":", 1) for line in status.read_text().splitlines())
    return {
        "rss": int(lines["VmRSS"].split()[0]) / 1024,
        "anon": int(lines["RssAnon"].split()[0]) / 1024,
    }


def timed(
    call: Callable[[Any], Any], items: Callable[[int], Any], calls: int, pause: float = 0
) -> list[float]:
    """Milliseconds of each call, in a loop or each after a pause in seconds; the items are made
    outside the timing.
    """
    times: list[float] = []
    end = time.perf_counter() + LOOP_SECONDS
    for index in range(calls):
        item = items(index)
        time.sleep(pause)
        started = time.perf_counter()
        call(item)
        times.append((time.perf_counter() - started) * 1000)
        if time.perf_counter() > end and len(times) >= LEAST_CALLS:
            break
    return times


def fill(store: Store, folder: Path, size: str, now: str) -> None:
    """Store so many memories; prints the seconds that the store itself took."""
    seconds, number = 0.0, int(size)
    started = time.perf_counter()
    store.open(folder)
    seconds += time.perf_counter() - started
    for start in range(0, number, store.batch):
        numbers = range(start, min(start + store.batch, number))
        moment = datetime.fromisoformat(now)
        items = [memory(each, timestamp(each, number, moment)) for each in numbers]
        started = time.perf_counter()
        store.add(items)
        seconds += time.perf_counter() - started
    started = time.perf_counter()
    store.settle()
    store.close()
    _print({"seconds": seconds + time.perf_counter() - started})


def cold(store: Store, folder: Path, size: str) -> None:
    """What a new process finds with its one search."""
    store.open(folder)
    _print(store.search(ask(0, int(size)), LIMIT, None))
    store.close()


def warm(store: Store, folder: Path, size: str, calls: str) -> None:
    """Searches in one process, without and with the last week as the filter; the memory used."""
    number = int(size)

    def items(index: int) -> Item:
        return ask(index, number)

    def search(item: Item) -> list[str]:
        return store.search(item, LIMIT, None)

    def search_week(item: Item) -> list[str]:
        return store.search(item, LIMIT, item.timestamp - WEEK)

    store.open(folder)
    timed(search, items, WARM_UP)
    result: dict[str, Any] = {"search": timed(search, items, int(calls))}
    timed(search_week, items, WARM_UP)
    result["week"] = timed(search_week, items, int(calls))
    result["memory"] = used_memory()
    result["lone"] = timed(search, items, min(int(calls), LONE_CALLS), PAUSE)
    store.close()
    _print(result)


def single(store: Store, folder: Path, size: str, calls: str) -> None:
    """Memories stored one by one, in a loop and alone; then some of the first forgotten."""

    def added(index: int) -> Item:
        return memory(LATER + index, datetime.now(UTC))

    def add(item: Item) -> None:
        store.add([item])

    store.open(folder)
    number = int(calls)
    result = {"add": timed(add, added, number)}
    lone = min(number, LONE_CALLS)
    result["lone_add"] = timed(add, lambda index: added(number + index), lone, PAUSE)
    if store.can_forget:
        chosen = random.Random("forget").sample(range(int(size)), FORGOTTEN)
        result["forget"] = timed(store.forget, lambda index: store.find(chosen[index]), FORGOTTEN)
    store.close()
    _print(result)


def several(store: Store, folder: Path, seconds: str, seed: str, start: str) -> None:
    """One of several processes: adds a memory, asks for it, and so on for so many seconds.

    Begins when the file `start` exists. A store that cannot be opened is tried again and again, as
    an agent would; each try is a failure.
    """
    times: dict[str, list[float]] = {"add": [], "search": []}
    failures: Counter[str] = Counter()
    acknowledged: list[str] = []
    missed = 0
    is_open = False

    def attempt(kind: str, call: Callable[[], Any]) -> Any:
        nonlocal is_open
        started = time.perf_counter()
        try:
            if not is_open:
                store.open(folder)
                is_open = True
            result = call()
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:  # engines in Rust panic with what is no Exception
            words = " ".join(str(error).replace(str(folder), "FOLDER").split())[:100]
            # Without digits, so that what differs in a number alone counts as one kind.
            words = re.sub(r"\d+", "#", words)
            what = f"{kind if is_open else 'open'}: {type(error).__name__}: {words}"
            failures[what if what in failures or len(failures) < KINDS else "others"] += 1
            if not is_open:
                time.sleep(0.05)
            return None
        times[kind].append((time.perf_counter() - started) * 1000)
        return result

    attempt("search", lambda: store.search(ask(0, 1), LIMIT, None))  # opens it
    times["search"].clear()
    failures.clear()
    _print("ready")
    while not Path(start).exists():
        time.sleep(0.002)
    begun = time.perf_counter()
    index = 0
    while time.perf_counter() < begun + float(seconds):
        number = LATER + int(seed) * 1_000_000 + index
        index += 1
        item = memory(number, datetime.now(UTC))
        done = attempt("add", lambda item=item: store.add([item]) or True)
        if done:
            acknowledged.append(item.text)
        words = question(0, number)
        asked = Item(words, vector(words), datetime.now(UTC))
        found = attempt("search", lambda asked=asked: store.search(asked, LIMIT, None))
        missed += bool(done and found is not None and item.text not in found)
    elapsed = time.perf_counter() - begun
    _print(
        {
            "seconds": elapsed,
            "add": times["add"],
            "search": times["search"],
            "failures": failures,
            "acknowledged": acknowledged,
            "missed": missed,
        }
    )


def texts(store: Store, folder: Path) -> None:
    """What a fresh process finds in the store."""
    store.open(folder)
    _print(store.texts())
    store.close()


def _print(result: Any) -> None:
    print(json.dumps(result), flush=True)


def main(store: Store) -> None:
    """Do what the command line says: a mode, the folder, and what else the mode takes."""
    modes = [fill, cold, warm, single, several, texts]
    mode, folder, *arguments = sys.argv[1:]
    {each.__name__: each for each in modes}[mode](store, Path(folder), *arguments)


if __name__ == "__main__":
    _print(used_memory())
