# /// script
# requires-python = ">=3.11"
# dependencies = [
#     "amplifier-core>=2.0.2,<3",
#     "amplifier-module-tool-memory-semantic",
#     "matplotlib>=3.10,<4",
#     "numpy>=2",
#     "rank-bm25>=0.2.2,<0.3",
# ]
#
# [tool.uv.sources.amplifier-module-tool-memory-semantic]
# path = "../modules/tool-memory-semantic"
# editable = true
# ///
"""The whole benchmark suite: `uv run benchmarks/run.py`, or `--quick` for a look.

Measures in parts, saves the results after each step, and writes a page with plots. The full run
takes half an hour, most of it at 100,000 memories, and writes to docs/; the machine should do
nothing else meanwhile.
"""

import argparse
import json
import os
import platform
import re
import subprocess
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

import report
from results import is_ours
from stores.peers import NOT_TRIED

ROOT = Path(__file__).parent.parent
PARTS = ["recall", "tokens", "money", "growth", "several", "recall_hook", "first_answer"]
SIZES = [1_000, 10_000, 100_000]
PROCESSES = [1, 8]
PRICES = {"text-embedding-3-small": 0.02, "text-embedding-3-large": 0.13}
# A store may take so long to be filled, and so long for its searches, in the full run.
FILL_SECONDS, PART_SECONDS = 900.0, 600.0


def measure_growth(options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """All sizes so far, after each of them."""
    import growth

    sizes = options.sizes or ([100, 1_000] if options.quick else SIZES)
    calls, runs = (5, 1) if options.quick else (100, 7)
    # In a quick run, what takes long to fill is left out, and its row says so.
    limits = (8.0, 30.0) if options.quick else (FILL_SECONDS, PART_SECONDS)
    result: dict[str, Any] = {}
    for size in sizes:
        step = growth.measure([size], calls, runs, options.stores, log, *limits)
        result = {**step, "stores": {**result.get("stores", {}), **step["stores"]}}
        yield result


def measure_several(options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """All numbers of processes so far, after each of them."""
    import several

    if options.quick:
        several.FILLED = 50
    numbers, seconds = ([1, 2], 1) if options.quick else (PROCESSES, 5)
    result: dict[str, Any] = {}
    for number in numbers:
        step = several.measure([number], seconds, log, options.stores)
        result = {**step, "processes": {**result.get("processes", {}), **step["processes"]}}
        yield result


def measure_tokens(options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    import tokens

    yield tokens.measure([10, 1_000] if options.quick else [10, 1_000, 10_000], log)


def measure_recall(options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    import recall

    endpoint = tuple(options.recall_endpoint) if options.recall_endpoint else None
    yield recall.measure(endpoint, options.locomo, log)


def measure_recall_hook(options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    import recall_hook

    yield recall_hook.measure(options.quick, log)


def measure_first_answer(options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """In an environment of its own, because it also runs the command."""
    script = Path(__file__).with_name("first_answer.py")
    command = [os.environ.get("UV", "uv"), "run", "--script", str(script)]
    command += ["--sizes", "100", "--runs", "1"] if options.quick else []
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    yield json.loads(done.stdout)


def measure_money(options: argparse.Namespace, parts: dict[str, Any]) -> dict[str, Any]:
    import money

    if "tokens" not in parts:
        raise ValueError("money is counted from what the part tokens finds, which is not there")
    embedding = PRICES | {model: float(price) for model, price in options.embedding_price or ()}
    prices = {"input": options.input_price, "cached_input": options.cached_price}
    prices |= {"output": options.output_price}
    given = {name: price for name, price in prices.items() if price is not None}
    return money.measure(money.Prices(embedding=embedding, **given), parts["tokens"])


STEPS = {
    "recall": measure_recall,
    "tokens": measure_tokens,
    "growth": measure_growth,
    "several": measure_several,
    "recall_hook": measure_recall_hook,
    "first_answer": measure_first_answer,
}


def run(options: argparse.Namespace, folder: Path) -> None:
    """Measure the parts that were asked for; what other parts found before stays."""
    file = results_file(folder)
    results: dict[str, Any] = json.loads(file.read_text()) if file.exists() else {}
    results = {"parts": {}, "ran": {}} | results
    with ProcessPoolExecutor(3, get_context("spawn")) as pool:
        # Three at once, where it is only a look.
        ahead = {
            part: pool.submit(whole, part, options)
            for part in ("growth", "recall", "several", "tokens")
            if options.quick and part in options.parts
        }
        for part in (part for part in PARTS if part in options.parts):
            ran: dict[str, Any] = {
                "quick": options.quick,
                "machine": machine(),
                "started": datetime.now(UTC).isoformat(timespec="seconds"),
                "load": round(os.getloadavg()[0], 2),
            }
            started = time.monotonic()
            results["parts"].pop(part, None)  # what is old and what is new do not mix
            try:
                if part == "money":
                    steps = [measure_money(options, results["parts"])]
                else:
                    steps = [ahead[part].result()] if part in ahead else STEPS[part](options)
                for result in steps:
                    log(f"{part}: saved")
                    results["parts"][part] = result
                    results["ran"][part] = {**ran, "failed": "interrupted"}
                    save(results, file)
            except Exception as error:  # the other parts may work, and hours are not to be lost
                traceback.print_exc()
                ran["failed"] = f"{type(error).__name__}: {error}"
            results["ran"][part] = {**ran, "seconds": round(time.monotonic() - started)}
            save(results, file)


def whole(part: str, options: argparse.Namespace) -> dict[str, Any]:
    """All that a part finds, in another process."""
    *_, result = STEPS[part](options)
    return result


def machine() -> dict[str, Any]:
    """What the figures depend on, without what names the machine or its user."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    cpu, virtual = platform.processor(), False
    if (info := Path("/proc/cpuinfo")).exists():
        lines = [line.split(":", 1) for line in info.read_text().splitlines() if ":" in line]
        about = {name.strip(): value.strip() for name, value in lines}
        cpu = about.get("model name", cpu)
        virtual = "hypervisor" in about.get("flags", "").split()
    try:
        system = platform.freedesktop_os_release()["PRETTY_NAME"]
    except (OSError, KeyError):
        system = f"{platform.system()} {platform.mac_ver()[0]}".strip()
    return {
        "cpu": cpu or platform.machine(),
        "architecture": platform.machine(),
        "cores": os.cpu_count(),
        "virtual": virtual,
        "memory_gb": round(memory / 2**30, 1),
        "system": system,
        "kernel": f"{platform.system()} {platform.release()}",
        "file_system": file_system(Path(tempfile.gettempdir())),
        "python": platform.python_version(),
    }


def file_system(path: Path) -> str | None:
    """The kind of file system that a path is on, where the kernel says it."""
    mounts = Path("/proc/mounts")
    if not mounts.exists():
        return None
    kinds = {fields[1]: fields[2] for fields in map(str.split, mounts.read_text().splitlines())}
    resolved = path.resolve()
    return next(
        (kinds[str(each)] for each in (resolved, *resolved.parents) if str(each) in kinds), None
    )


def save(results: dict[str, Any], file: Path) -> None:
    """Write the results: lists on one line, without the folders and addresses of this machine."""
    text = json.dumps(results, indent=1)
    text = re.sub(r"\[\n\s*([^\[\]{}]*?)\n\s*\]", _on_one_line, text)
    places = {tempfile.gettempdir(): "TEMP", str(ROOT): "PROJECT", str(Path.home()): "~"}
    for place, name in places.items():
        text = text.replace(f"{place}/", f"{name}/")
    text = re.sub(r"\b(https?://)[^\s\"'`)]+", r"\1…", text)
    file.parent.mkdir(parents=True, exist_ok=True)
    new = file.with_suffix(".new")
    new.write_text(text + "\n")
    new.replace(file)


def _on_one_line(found: re.Match[str]) -> str:
    return "[" + re.sub(r"\n\s*", " ", found[1]) + "]"


def results_file(folder: Path) -> Path:
    return folder / "benchmarks/results.json"


def log(words: str) -> None:
    print(f"{datetime.now():%H:%M:%S} {words}", file=sys.stderr, flush=True)


def our_failures(results: dict[str, Any]) -> Iterator[str]:
    """Parts that broke off, and our own stores that failed; that another's does is a result."""
    yield from (part for part, ran in results["ran"].items() if "failed" in ran)
    for part, groups in (("growth", "stores"), ("several", "processes")):
        for rows in results["parts"].get(part, {}).get(groups, {}).values():
            for name, row in rows.items():
                if is_ours(name) and "failed" in row and not row["failed"].startswith(NOT_TRIED):
                    yield name


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Measure, and write a page with plots.")
    add = parser.add_argument
    add("--quick", action="store_true", help="a look in three minutes, to a temporary folder")
    add("--parts", help=f"of {','.join(PARTS)}; all by default, others stay as they were")
    add("--sizes", help="memories, such as 100,1000")
    add("--stores", action="append", metavar="NAME", help="only this store; several times")
    add("--recall-endpoint", nargs=2, metavar=("URL", "MODEL"), help="measure recall with it too")
    add("--locomo", type=Path, metavar="FILE", help="the file of the LoCoMo set, for recall")
    add(
        "--embedding-price",
        nargs=2,
        action="append",
        metavar=("MODEL", "DOLLARS"),
        help="for a million tokens",
    )
    add("--input-price", type=float, help="dollars for a million tokens that a model reads")
    add("--cached-price", type=float, help="the same, from its cache")
    add("--output-price", type=float, help="dollars for a million tokens that a model writes")
    add("--out", type=Path, metavar="FOLDER", help="instead of docs/")
    add("--redraw", action="store_true", help="page and plots from the results that are there")
    options = parser.parse_args()
    options.parts = options.parts.split(",") if options.parts else PARTS
    if unknown := set(options.parts) - set(PARTS):
        parser.error(f"no such part: {', '.join(sorted(unknown))}")
    try:
        options.sizes = [int(size) for size in options.sizes.split(",")] if options.sizes else None
    except ValueError:
        parser.error("--sizes takes numbers with commas between them, such as 100,1000")
    if options.quick and options.out and options.out.resolve() == (ROOT / "docs").resolve():
        parser.error("a quick run does not belong into docs/")
    return options


def main() -> None:
    options = arguments()
    # Where it is set, every process would compile its packages anew, and no user's does.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    os.environ["AGENT_MEMORY_QDRANT_URL"] = "local"  # whatever the user's memory is on
    folder = options.out or (Path(tempfile.mkdtemp()) if options.quick else ROOT / "docs")
    started = time.monotonic()
    if not options.redraw:
        run(options, folder)
    if not results_file(folder).exists():
        sys.exit(f"No results in {folder}: run without --redraw first.")
    results = json.loads(results_file(folder).read_text())
    report.write(results, folder)
    log(f"{time.monotonic() - started:.0f} s; the page is {folder / 'benchmarks.md'}")
    if failed := sorted(set(our_failures(results))):
        sys.exit(f"Not all of ours is complete: {', '.join(failed)}. The page says why.")


if __name__ == "__main__":
    main()
