# /// script
# requires-python = ">=3.11"
# dependencies = [
#     "amplifier-core>=2.0.2,<3",
#     "amplifier-module-tool-memory-semantic[cli]",
#     "numpy>=2",
#     "rank-bm25>=0.2.2,<0.3",
# ]
#
# [tool.uv.sources.amplifier-module-tool-memory-semantic]
# path = "../modules/tool-memory-semantic"
# editable = true
# ///
"""The whole benchmark suite: `uv run benchmarks/run.py`, or `--quick` for a look.

Measures in parts, saves the results after each step, and writes a page. What is saved
of the same code is not measured again, so a run that broke off goes on where it was. A full run
says first how long it takes, most of it at 100,000 memories, and writes to docs/; the machine
should do nothing else meanwhile.
"""

import argparse
import os
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from datetime import UTC, datetime
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import first_answer
import growth
import recall
import recall_hook
import report
import several
import tokens
from results import (
    IN_STEPS,
    ROOT,
    code_of,
    is_empty,
    is_kept,
    joined,
    lacking,
    load,
    machine,
    our_failures,
    save,
    version,
)

# In a full run and in a quick one.
SIZES, PROCESSES = ([1_000, 10_000, 100_000], [100, 1_000]), ([1, 8], [1, 2])
# A store may take so long to be filled, and so long for its searches, in the full run.
FILL_SECONDS, PART_SECONDS = 900.0, 600.0
# What a part is made of here, which decides with the product's own code whether it is measured
# again; and about how many seconds it takes, until it was run.
PARTS = {
    "recall": ("recall.py recall_sets.py scoring.py recall", 1_000),
    "tokens": ("tokens.py recall", 30),
    "growth": ("growth.py stores", 7_000),
    "several": ("several.py stores", 600),
    "recall_hook": ("recall_hook.py tokens.py recall_sets.py recall", 120),
    "first_answer": ("first_answer.py", 120),
}
AT_ONCE = ("growth", "recall", "several", "tokens")  # in a quick look

Found = dict[str, Any]
Options = argparse.Namespace


def measured(part: str, options: Options, parts: Found) -> Iterator[Found]:
    """All that there is of a part after each of its steps; what is in `parts` is not done again."""
    quick, done = options.quick, parts.get(part, {})
    if part == "growth":
        # In a quick run, what takes long to fill is left out, and its row says so.
        calls, runs, limits = (
            (5, 1, (8.0, 30.0)) if quick else (100, 7, (FILL_SECONDS, PART_SECONDS))
        )
        for size, stores in lacking(done, part, steps_of(part, options), options.stores).items():
            found = growth.measure([size], calls, runs, stores, log, *limits)
            done = joined(done, found, part)
            yield done
    elif part == "several":
        several.FILLED = 50 if quick else several.FILLED
        for number, stores in lacking(done, part, steps_of(part, options), options.stores).items():
            found = several.measure([number], 1 if quick else 5, log, stores)
            done = joined(done, found, part)
            yield done
    elif part == "tokens":
        yield tokens.measure([10, 1_000] if quick else [10, 1_000, 10_000], log)
    elif part == "recall":
        endpoint = tuple(options.recall_endpoint) if options.recall_endpoint else None
        yield recall.measure(endpoint, log=log)
    elif part == "recall_hook":
        yield recall_hook.measure(quick, log)
    else:
        yield first_answer.measure(*(([100], 1) if quick else ([1_000, 10_000], 15)))


def steps_of(part: str, options: Options) -> list[int]:
    """The numbers of memories, or of processes."""
    return (options.sizes or SIZES[options.quick]) if part == "growth" else PROCESSES[options.quick]


def run(options: Options) -> None:
    """Measure what is asked for and not saved yet; what other parts found before stays."""
    results = load(options.folder)
    before, parts = results["ran"], results["parts"]
    codes = {part: code_of(PARTS[part][0]) for part in options.parts}
    kept = {
        part
        for part, code in codes.items()
        if is_kept(results, part, code, options.quick)
        and not options.again
        and not (part == "recall" and options.recall_endpoint)
    }
    wanted = [
        part
        for part in options.parts
        if part not in kept
        or (
            part in IN_STEPS and lacking(parts[part], part, steps_of(part, options), options.stores)
        )
    ]
    tell(wanted, kept, before)
    with ProcessPoolExecutor(3, get_context("spawn")) as pool:
        ahead = {
            part: pool.submit(last_of, part, options, {name: parts[name] for name in kept})
            for part in wanted
            if options.quick and part in AT_ONCE
        }
        for part in wanted:
            ran = {
                "quick": options.quick,
                "version": version(),
                "code": codes[part],
                "machine": machine(),
                "started": datetime.now(UTC).isoformat(timespec="seconds"),
                "load": round(os.getloadavg()[0], 2),
                "seconds": 0,
            }
            if part in kept:
                ran = before[part]
                ran.pop("failed", None)
            else:
                parts.pop(part, None)  # what is old and what is new do not mix
            started = time.monotonic()
            try:
                steps = ahead[part].result() if part in ahead else measured(part, options, parts)
                for found in steps:
                    log(f"{part}: saved")
                    parts[part], before[part] = found, {**ran, "failed": "interrupted"}
                    save(results, options.folder)
                if is_empty(parts.get(part)):
                    ran["failed"] = "it gave no figures"
            except Exception as error:  # the other parts may work, and hours are not to be lost
                traceback.print_exc()
                ran["failed"] = f"{type(error).__name__}: {error}"
            ran["seconds"] += round(time.monotonic() - started)
            before[part] = ran
            save(results, options.folder)


def last_of(part: str, options: Options, parts: Found) -> list[Found]:
    """All that a part finds, in another process."""
    return list(measured(part, options, parts))[-1:]


def tell(wanted: list[str], kept: set[str], before: Found) -> None:
    """Say what is measured, and how long that takes by the last full run, or by an estimate."""
    if kept:
        log(f"saved of the same code, not measured again: {', '.join(sorted(kept))} (see --again)")
    runs = {part: before.get(part, {"quick": True}) for part in wanted}
    seconds = {
        part: PARTS[part][1] if ran["quick"] else ran["seconds"] for part, ran in runs.items()
    }
    if not wanted:
        return
    each = ", ".join(f"{part} {taken / 60:.0f}" for part, taken in seconds.items())
    log(f"a full run of what is left takes about {sum(seconds.values()) / 60:.0f} minutes: {each}")


def log(words: str) -> None:
    print(f"{datetime.now():%H:%M:%S} {words}", file=sys.stderr, flush=True)


def numbers(text: str) -> list[int]:
    return [int(number) for number in text.split(",")]


def arguments() -> Options:
    parser = argparse.ArgumentParser(description="Measure, and write a page.")
    add = parser.add_argument
    add("--quick", action="store_true", help="a look in three minutes, to a temporary folder")
    add("--again", action="store_true", help="measure what is saved, too")
    add("--parts", help=f"of {','.join(PARTS)}; all by default, others stay as they were")
    add("--sizes", type=numbers, help="memories, such as 100,1000")
    add("--stores", action="append", metavar="NAME", help="only this store; several times")
    add("--recall-endpoint", nargs=2, metavar=("URL", "MODEL"), help="measure recall with it too")
    add("--out", type=Path, metavar="FOLDER", help="instead of docs/")
    add("--redraw", action="store_true", help="the page from the results that are there")
    options = parser.parse_args()
    options.parts = options.parts.split(",") if options.parts else list(PARTS)
    if unknown := set(options.parts) - set(PARTS):
        parser.error(f"no such part: {', '.join(sorted(unknown))}")
    docs = ROOT / "docs"
    if options.quick and options.out and options.out.resolve() == docs.resolve():
        parser.error("a quick run does not belong into docs/")
    options.folder = options.out or (Path(tempfile.mkdtemp()) if options.quick else docs)
    return options


def main() -> None:
    options = arguments()
    # Where it is set, every process would compile its packages anew, and no user's does.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    os.environ["AGENT_MEMORY_QDRANT_URL"] = "local"  # whatever the user's memory is on
    started = time.monotonic()
    if not options.redraw:
        run(options)
    results = load(options.folder)
    if not results["ran"]:
        sys.exit(f"No results in {options.folder}: run without --redraw first.")
    report.write(results, options.folder)
    log(f"{time.monotonic() - started:.0f} s; the page is {options.folder / 'benchmarks.md'}")
    if failed := sorted(set(our_failures(results))):
        sys.exit(f"Not all of ours is complete: {', '.join(failed)}. The page says why.")


if __name__ == "__main__":
    main()
