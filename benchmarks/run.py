# /// script
# requires-python = ">=3.11"
# dependencies = [
#     "amplifier-core>=2.0.2,<3",
#     "amplifier-module-tool-memory-semantic[cli,fastembed]",
#     "matplotlib>=3.10,<4",
#     "numpy>=2",
#     "rank-bm25>=0.2.2,<0.3",
# ]
#
# [tool.uv.sources.amplifier-module-tool-memory-semantic]
# path = "../modules/tool-memory-semantic"
# editable = true
# ///
"""All figures of the documents: `uv run benchmarks/run.py --locomo locomo10.json`, or `--quick` for
a look.

Measures in parts, saves the results after each of them to docs/benchmarks/results.json, and writes
the tables and graphs. The machine should do nothing else meanwhile.
"""

import argparse
import json
import os
import platform
import re
import sys
import tempfile
import time
import tomllib
import traceback
from datetime import UTC, datetime
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import charts
import first_answer
import holds
import locomo
import page
import recall
import speed
import tokens
from page import Options, Row

ROOT = Path(__file__).parent.parent
TOGETHER = SimpleNamespace(measure=speed.measure_together, blocks=speed.blocks_together)
# What measures each part, and how many minutes it takes on two cores; what takes long comes last.
PARTS: dict[str, tuple[ModuleType | SimpleNamespace, str, str]] = {
    "recall": (recall, "4", "what a search finds: our own set, everyday, languages, corrections"),
    "locomo": (locomo, "4", "what it finds of LoCoMo, by session and by turn"),
    "holds": (holds, "5", "a week and what holds after it, in each loop; whose words are whose"),
    "tokens": (tokens, "4", "of every request, of each call, and of recall before a prompt"),
    "first_answer": (first_answer, "4", "of a process, such as `agent-memory mcp`"),
    "together": (TOGETHER, "6", "1 and 8 processes on one store, beside other stores"),
    "speed": (speed, "75", "SLOW: 100 to 100,000 memories, beside other stores; 10 minutes with "
              "--sizes 100,1000,10000"),
}  # fmt: skip


def log(words: str) -> None:
    """Say what is being done."""
    print(f"{datetime.now():%H:%M:%S} {words}", file=sys.stderr, flush=True)


def load(folder: Path) -> Row:
    """What is saved below `folder`: `parts`, and how each of them `ran`."""
    file = folder / "docs/benchmarks/results.json"
    return {"parts": {}, "ran": {}} | (json.loads(file.read_text()) if file.exists() else {})


def save(results: Row, folder: Path) -> None:
    """Write the results: lists on one line, without the folders and addresses of this machine."""
    text = re.sub(
        r"\[\n\s*([^\[\]{}]*?)\n\s*\]",
        lambda found: "[" + re.sub(r"\n\s*", " ", found[1]) + "]",
        json.dumps(results, indent=1),
    )
    places = {tempfile.gettempdir(): "TEMP", str(ROOT): "PROJECT", str(Path.home()): "~"}
    for place, name in places.items():
        text = text.replace(f"{place}/", f"{name}/")
    text = re.sub(r"\b(https?://)[^\s\"'`)]+", r"\1…", text)
    file = folder / "docs/benchmarks/results.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    new = file.with_suffix(".new")
    new.write_text(text + "\n")
    new.replace(file)


def machine() -> str:
    """What the figures depend on, without what names the machine or its user."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    info = Path("/proc/cpuinfo").read_text() if Path("/proc/cpuinfo").exists() else ""
    named = re.search(r"^model name\s*: (.*)", info, re.MULTILINE)
    cpu = named[1] if named else platform.processor()
    virtual = " of a virtual machine" if re.search(r"^flags.*\bhypervisor\b", info, re.M) else ""
    release = Path("/etc/os-release")
    system = platform.freedesktop_os_release()["PRETTY_NAME"] if release.exists() else sys.platform
    return (
        f"{os.cpu_count()} cores{virtual}, {cpu} ({platform.machine()}), {memory:.0f} GB of "
        f"memory; {system}; Python {platform.python_version()}"
    )


def run(options: Options) -> None:
    """Measure what is asked for; what other parts found before stays."""
    results = load(options.folder)
    project = tomllib.loads((ROOT / "modules/tool-memory-semantic/pyproject.toml").read_text())
    for part in options.parts:
        log(f"{part} begins")
        started = time.monotonic()
        ran = results["ran"][part] = {
            "quick": options.quick,
            "version": project["project"]["version"],
            "machine": machine(),
            "started": datetime.now(UTC).isoformat(timespec="seconds"),
            "load": round(os.getloadavg()[0], 2),
        }
        results["parts"].pop(part, None)  # what is old and what is new do not mix
        try:
            found = results["parts"][part] = PARTS[part][0].measure(options, log)
            if failed := speed.ours_failed(found):
                ran["failed"] = f"no figures of {', '.join(sorted(set(failed)))}"
        except Exception as error:  # the other parts may work
            traceback.print_exc()
            ran["failed"] = f"{type(error).__name__}: {error}"
        ran["seconds"] = round(time.monotonic() - started)
        save(results, options.folder)


def blocks(results: Row) -> dict[str, str]:
    """What the documents show of the results, by the names of the places."""
    ran, found = results["ran"], dict[str, str]()
    for part in (part for part in PARTS if part in ran):
        shown = PARTS[part][0].blocks(results["parts"][part]) if part in results["parts"] else {}
        found |= shown | {part: f"{page.stamp(part, ran[part])}\n\n{shown.get(part, '')}".strip()}
    machines = dict.fromkeys(each["machine"] for each in ran.values())
    return found | {"machine": f"On {'; or '.join(machines)}.", "readme": readme(results)}


def readme(results: Row) -> str:
    """README's figures: how well it finds, and how fast; a sentence where a part is missing."""
    growth, sets, talks, week = (
        results["parts"].get(part) for part in ("speed", "recall", "locomo", "holds")
    )
    sizes = [size for size in (growth or {"stores": {}})["stores"] if int(size) <= speed.SHOWN]
    if not (sets and talks and week and sizes):
        return "Not all parts of this were run."
    scores, turns = sets["scores"], talks["by session, local"]
    asked, cited = scores["BM25"]["all"]["n"], turns["with evidence"]
    five, words = (scores[of]["all"]["recall@5"][0] for of in (recall.DEFAULT, "BM25"))
    least, needed = min(each["with others"]["needed"] for each in week["loops"].values())
    rows = growth["stores"][sizes[-1]]
    search, store, forget = (page.number(each.of(rows[page.BUILT_IN])) for each in speed.ALONE)
    better = [(each.name, speed.better(rows, each)) for each in speed.ALONE]
    faster = "; ".join(f"{name} ({', '.join(who)})" for name, who in better if who)
    return f"""\
| with the built-in model | found |
|---|---|
| {asked} questions about two years of a team's work | {five:.0f} % among the first five; by \
keywords {words:.0f} % |
| {cited:,} questions of LoCoMo, by session | {100 * turns["any@5"] / cited:.0f} % among the first \
five |
| what first prompts need, among 600 other memories | {least} of {needed}, without a search |

With that model, among {int(sizes[-1]):,} memories, a search that comes alone took {search} ms, a \
store {store} ms, and a forget, after which no file has the text, {forget} ms \
({page.when(results["ran"]["speed"])}). Of single calls with vectors given, **others are faster** \
at: {faster or "nothing"}. \
[All figures](docs/benchmarks.md)."""


def arguments() -> Options:
    """What the command line asks for."""
    about = "\n".join(
        f"  {n:13}{minutes:>3} min  {what}" for n, (_, minutes, what) in PARTS.items()
    )
    parser = argparse.ArgumentParser(
        description="Measure, and write the figures into the documents.",
        epilog=f"parts, and how long they take on two cores:\n{about}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--quick", action="store_true", help="a look in some minutes, to a temporary folder")
    add("--parts", help="of those below, with commas; all by default, others stay as they were")
    add("--sizes", type=lambda text: [*map(int, text.split(","))], help="of speed: 100,1000")
    add("--locomo", type=Path, metavar="FILE", help="locomo10.json, for the part of that name")
    add("--model", action="append", default=[], metavar="NAME", help="of recall: this model, too")
    add("--qdrant", type=Path, metavar="PROGRAM", help="of speed and together: a server, too")
    add("--out", type=Path, metavar="FOLDER", help="instead of the project itself")
    add("--redraw", action="store_true", help="the figures from the results that are there")
    options = parser.parse_args()
    all_parts = [part for part in PARTS if part != "locomo" or options.locomo]
    options.parts = options.parts.split(",") if options.parts else all_parts
    if unknown := set(options.parts) - set(all_parts):
        parser.error(f"no such part, or no --locomo: {', '.join(sorted(unknown))}")
    if options.quick and options.out and options.out.resolve() == ROOT.resolve():
        parser.error("a quick run does not belong into the project")
    options.folder = options.out or (Path(tempfile.mkdtemp()) if options.quick else ROOT)
    return options


def main() -> None:
    """Measure what is asked for, and write it; the exit says whether all of ours is complete."""
    options = arguments()
    # Where it is set, every process would compile its packages anew, and no user's does.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    os.environ["AGENT_MEMORY_QDRANT_URL"] = "local"  # whatever the user's memory is on
    if not options.redraw:
        run(options)
    results: dict[str, Any] = load(options.folder)
    if not results["ran"]:
        sys.exit(f"No results in {options.folder}: run without --redraw first.")
    page.write(blocks(results), ROOT, options.folder)
    charts.write(results["parts"], options.folder / "docs/benchmarks")
    log(f"the page is {options.folder / 'docs/benchmarks.md'}")
    if failed := [part for part, ran in results["ran"].items() if "failed" in ran]:
        sys.exit(f"Not complete: {', '.join(failed)}. The page says why.")


if __name__ == "__main__":
    main()
