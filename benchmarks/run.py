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

Measures in parts, saves the results after each of them, and writes a page. A full run takes an hour
and a half, most of it at 100,000 memories, and writes to docs/; the machine should do nothing else
meanwhile.
"""

import argparse
import os
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import alike
import first_answer
import growth
import holds
import locomo
import quotes
import recall
import recall_hook
import report
import several
import tokens
from results import ROOT, is_empty, load, machine, our_failures, save, version

# A store may take so long to be filled, and so long for its searches: in a full run and in a quick
# one, where what takes long is left out and its row says so.
LIMITS = (900.0, 600.0), (8.0, 30.0)
Options = argparse.Namespace
Found = dict[str, Any]


def log(words: str) -> None:
    print(f"{datetime.now():%H:%M:%S} {words}", file=sys.stderr, flush=True)


def _growth(options: Options) -> Found:
    sizes = options.sizes or ([100, 1_000] if options.quick else [1_000, 10_000, 100_000])
    calls, runs = (5, 1) if options.quick else (100, 7)
    return growth.measure(sizes, calls, runs, log, *LIMITS[options.quick])


def _several(options: Options) -> Found:
    if options.quick:
        several.FILLED = 50
        return several.measure([1, 2], 1, log)
    return several.measure([1, 8], 5, log)


PARTS: dict[str, Callable[[Options], Found]] = {
    "recall": lambda options: recall.measure(log=log),
    "locomo": lambda options: locomo.measure(options.locomo, log),
    "recall_hook": lambda options: recall_hook.measure(options.quick, log),
    "holds": lambda options: {
        "loops": holds.measure(log),
        "quotes": quotes.measure(log),
        "alike": alike.by_tool(),
    },
    "tokens": lambda options: tokens.measure([10, 1_000] if options.quick else [10, 10_000], log),
    "several": _several,
    "first_answer": lambda options: first_answer.measure(
        *(([100], 1) if options.quick else ([1_000, 10_000], 15))
    ),
    "growth": _growth,
}


def run(options: Options) -> None:
    """Measure what is asked for; what other parts found before stays."""
    results = load(options.folder)
    for part in options.parts:
        log(f"{part} begins")
        started = time.monotonic()
        ran = results["ran"][part] = {
            "quick": options.quick,
            "version": version(),
            "machine": machine(),
            "started": datetime.now(UTC).isoformat(timespec="seconds"),
            "load": round(os.getloadavg()[0], 2),
        }
        results["parts"].pop(part, None)  # what is old and what is new do not mix
        try:
            found = results["parts"][part] = PARTS[part](options)
            if is_empty(found):
                ran["failed"] = "it gave no figures"
        except Exception as error:  # the other parts may work
            traceback.print_exc()
            ran["failed"] = f"{type(error).__name__}: {error}"
        ran["seconds"] = round(time.monotonic() - started)
        save(results, options.folder)


def arguments() -> Options:
    parser = argparse.ArgumentParser(description="Measure, and write a page.")
    add = parser.add_argument
    add("--quick", action="store_true", help="a look in some minutes, to a temporary folder")
    add("--parts", help=f"of {','.join(PARTS)}; all by default, others stay as they were")
    add("--sizes", type=lambda text: [*map(int, text.split(","))], help="such as 100,1000")
    add("--locomo", type=Path, metavar="FILE", help="locomo10.json, for the part of that name")
    add("--out", type=Path, metavar="FOLDER", help="instead of docs/")
    add("--redraw", action="store_true", help="the page from the results that are there")
    options = parser.parse_args()
    all_parts = [part for part in PARTS if part != "locomo" or options.locomo]
    options.parts = options.parts.split(",") if options.parts else all_parts
    if unknown := set(options.parts) - set(all_parts):
        parser.error(f"no such part, or no --locomo: {', '.join(sorted(unknown))}")
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
    if not options.redraw:
        run(options)
    results = load(options.folder)
    if not results["ran"]:
        sys.exit(f"No results in {options.folder}: run without --redraw first.")
    report.write(results, options.folder)
    log(f"the page is {options.folder / 'benchmarks.md'}")
    if failed := sorted(set(our_failures(results))):
        sys.exit(f"Not all of ours is complete: {', '.join(failed)}. The page says why.")


if __name__ == "__main__":
    main()
