"""One store in one process: `worker.py CLASS VARIANT MODE FOLDER ...`, which `peers` starts.

Each mode prints its result as one line of JSON, times in milliseconds. Without arguments it prints
what a bare interpreter takes of memory.
"""

import json
import random
import re
import resource
import sys
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any

import adapters
from adapters import Store
from workload import LATER, Item, ask, memory, one_of, question

LIMIT = 5
BATCH = 1_000  # memories that one `add` takes when a store is filled
WARM_UP = 3
# A loop of calls ends early after so long, because one slow store must not stop the comparison.
LOOP_SECONDS = 60.0
LEAST_CALLS = 5
# Of calls that come alone: after such a pause, in seconds, ours has closed its store again.
PAUSE = 0.4
LONE_CALLS = 15
FORGOTTEN = 5
KINDS = 10  # of failures that are told apart


def used_memory() -> float:
    """MB of this process that are resident."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 2**20


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


def fill(store: Store, folder: Path, size: str, now: str) -> float:
    """Store so many memories; the seconds that the store itself took."""
    number, moment = int(size), datetime.fromisoformat(now)
    batches = [range(at, min(at + BATCH, number)) for at in range(0, number, BATCH)]
    taken = timed(store.open, lambda _: folder, 1)
    for batch in batches:
        items = [one_of(each, number, moment) for each in batch]
        taken += timed(store.add, lambda _, items=items: items, 1)
    taken += timed(lambda _: store.close(), lambda _: None, 1)
    return sum(taken) / 1000


def cold(store: Store, folder: Path, size: str) -> list[str]:
    """What a new process finds with its one search."""
    store.open(folder)
    return store.search(ask(0, int(size)), LIMIT)


def warm(store: Store, folder: Path, size: str, calls: str) -> dict[str, Any]:
    """Searches in one process, in a loop and alone; the memory used."""

    def items(index: int) -> Item:
        return ask(index, int(size))

    def search(item: Item) -> list[str]:
        return store.search(item, LIMIT)

    store.open(folder)
    timed(search, items, WARM_UP)
    result: dict[str, Any] = {"search": timed(search, items, int(calls))}
    result["memory"] = used_memory()
    result["lone"] = timed(search, items, min(int(calls), LONE_CALLS), PAUSE)
    return result


def single(store: Store, folder: Path, size: str, calls: str) -> dict[str, list[float]]:
    """Memories stored one by one, in a loop and alone; then some of the first forgotten."""

    def add(item: Item) -> None:
        store.add([item])

    store.open(folder)
    number = int(calls)
    result = {"add": timed(add, lambda index: memory(LATER + index), number)}
    lone = min(number, LONE_CALLS)
    result["lone_add"] = timed(add, lambda index: memory(LATER + number + index), lone, PAUSE)
    if store.can_forget:
        chosen = random.Random("forget").sample(range(int(size)), FORGOTTEN)
        result["forget"] = timed(store.forget, lambda index: store.find(chosen[index]), FORGOTTEN)
    return result


def together(store: Store, folder: Path, seconds: str, seed: str) -> dict[str, Any]:
    """One of several processes: adds a memory, asks for it, and so on for so many seconds, from
    when a line comes. A store that cannot be opened is tried again and again, as an agent would;
    each try is a failure.
    """
    times: dict[str, list[float]] = {"add": [], "search": []}
    failures: Counter[str] = Counter()
    acknowledged: list[str] = []
    missed, is_open = 0, False

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

    attempt("search", lambda: store.search(ask(0, 1), LIMIT))  # opens it
    times["search"].clear()
    failures.clear()
    print("ready", flush=True)
    sys.stdin.readline()
    begun = time.perf_counter()
    number = LATER + int(seed) * 1_000_000
    while time.perf_counter() < begun + float(seconds):
        item, asked = memory(number), question(number)
        number += 1
        done = attempt("add", lambda item=item: store.add([item]) or True)
        acknowledged += [item.text] if done else []
        found = attempt("search", lambda asked=asked: store.search(asked, LIMIT))
        missed += bool(done and found is not None and item.text not in found)
    elapsed = time.perf_counter() - begun
    with suppress(AttributeError):  # it may never have been opened
        store.close()
    about = {"failures": failures, "acknowledged": acknowledged, "missed": missed}
    return {"seconds": elapsed, **times, **about}


def texts(store: Store, folder: Path) -> list[str]:
    """What a fresh process finds in the store."""
    store.open(folder)
    return store.texts()


def main() -> None:
    """Do what the command line says."""
    if len(sys.argv) == 1:
        print(used_memory())
        return
    name, variant, mode, folder, *arguments = sys.argv[1:]
    store: Store = getattr(adapters, name)(variant)
    modes = {each.__name__: each for each in (fill, cold, warm, single, together, texts)}
    print(json.dumps(modes[mode](store, Path(folder), *arguments)), flush=True)
    if mode not in ("fill", "together"):  # which have closed it
        store.close()


if __name__ == "__main__":
    main()
