"""Two versions side by side, the other one a checkout of this repository:

    uv run benchmarks/versions.py --base /path/to/other/checkout

Both do the same work as in `growth.py` and `several.py`, in turn and through the scripts of this
checkout, each in an environment of its own. Prints medians of the rounds and ratios as a Markdown
table; above 1, this checkout is better.
"""

import argparse
import statistics
import sys
import tempfile
from collections import defaultdict
from pathlib import Path

import growth
import several
from report_stores import MEASURES
from stores import peers
from stores.peers import Peer

SCRIPT = "with_agent_memory.py"
PACKAGES = ("amplifier-module-tool-memory-semantic",)
VARIANTS = {"vectors": "vectors given", "local": "built-in model"}
PROCESSES, SECONDS = 8, 5


def copied(folder: Path, changes: dict[str, str]) -> str:
    """The scripts of the stores in a new `folder`, with `changes`; returns the path of ours."""
    folder.mkdir()
    for script in peers.HERE.glob("*.py"):
        text = script.read_text()
        for old, new in changes.items():
            text = text.replace(old, new)
        (folder / script.name).write_text(text)
    return str(folder / SCRIPT)


def main() -> None:
    parser = argparse.ArgumentParser(description="Compare another checkout with this one.")
    parser.add_argument("--base", type=Path, required=True, help="the other checkout")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--sizes", type=int, nargs="+", default=[1_000, 10_000])
    options = parser.parse_args()

    def log(words: str) -> None:
        print(words, file=sys.stderr)

    rows: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    with tempfile.TemporaryDirectory() as folder:
        base = copied(Path(folder, "base"), {"../../modules": f"{options.base.resolve()}/modules"})
        paths = {"base": base, "this": str(peers.HERE / SCRIPT)}
        both = {
            f"{name}, {variant}": Peer(f"{name}, {variant}", path, PACKAGES, variant)
            for variant in VARIANTS
            for name, path in paths.items()
        }
        for turn in range(options.rounds):
            # Who goes first changes: what else the machine does hits none of them alone.
            peers.PEERS[:] = list(both.values())[:: -1 if turn % 2 else 1]
            log(f"round {turn + 1} of {options.rounds}")
            grown = growth.measure(options.sizes, calls=50, runs=3, log=log)
            together = several.measure([PROCESSES], SECONDS, log)
            for size, by_name in grown["stores"].items():
                for each in MEASURES:
                    for peer, row in by_name.items():
                        name, variant = peer.split(", ")
                        what = f"{each.name}, {int(size):,}, {VARIANTS[variant]}, {each.unit}"
                        rows[what][name] += [v for v in (each.of(row),) if v is not None]
            for peer, row in together["processes"][str(PROCESSES)].items():
                name, variant = peer.split(", ")
                what = f"{PROCESSES} processes, {VARIANTS[variant]}, calls/s"
                rows[what][name] += [v for v in (row.get("calls_per_second"),) if v is not None]
    print("| what | base | this | times as good |\n|---|--:|--:|--:|")
    for what, found in rows.items():
        if found["base"] and found["this"]:
            base, this = (statistics.median(found[name]) for name in ("base", "this"))
            better = this / base if what.endswith("/s") else base / this
            print(f"| {what} | {base:.1f} | {this:.1f} | {better:.2f} |")


if __name__ == "__main__":
    main()
