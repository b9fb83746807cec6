"""What a real Qdrant server costs: time, memory and disk. Prints two Markdown tables.

    uv run benchmarks/server.py --program qdrant --sizes 1000 10000 100000

The same work as in `growth.py` and `several.py`, vectors given, on servers in temporary folders.
Clients and servers share this machine's processors, and a large store may still be building its
graph when the searches begin.
"""

import argparse
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import growth
import several
from report_stores import MEASURES
from stores import peers
from stores.peers import Peer
from tables import number, table

sys.path.append(str(Path(__file__).parent.parent / "tests/server"))
from qdrant_node import QdrantNode

NAME = "agent-memory, server"
CLIENTS, SECONDS, CALLS, RUNS = (1, 8, 32), 5, 100, 3
FILL_SECONDS, PART_SECONDS = 3_600, 600
OURS = "amplifier-module-tool-memory-semantic"
TIMES = [each for each in MEASURES if each.unit == "ms"]


@contextmanager
def new_node(program: Path) -> Iterator[QdrantNode]:
    """A server without anything on it, which the stores find in their environment."""
    with (
        tempfile.TemporaryDirectory() as folder,
        QdrantNode(program, Path(folder) / "node") as node,
    ):
        os.environ["AGENT_MEMORY_QDRANT_URL"] = node.url
        yield node


def status_bytes(node: QdrantNode, name: str) -> int:
    """What the system says of the memory that the node's process has."""
    assert node.process
    lines = Path(f"/proc/{node.process.pid}/status").read_text().splitlines()
    [line] = [each for each in lines if each.startswith(f"{name}:")]
    return int(line.split()[1]) * 1024


def disk_bytes(folder: Path) -> int:
    """What the files take on the disk."""
    total = 0
    for file in folder.rglob("*"):
        with suppress(FileNotFoundError):  # the server removes files at any time
            total += file.stat().st_blocks * 512 if file.is_file() else 0
    return total


def room(node: QdrantNode, size: int) -> list[float]:
    """MB after a restart and some searches: allocated, with the pages of files, and on the disk."""
    node.stop()
    node.start()
    with tempfile.TemporaryDirectory() as folder, peers.endpoint():
        peers.run(peers.PEERS[0], "warm", folder, size, CALLS, seconds=PART_SECONDS)
    memory = [status_bytes(node, name) for name in ("RssAnon", "VmRSS")]
    return [each / 1e6 for each in (*memory, disk_bytes(node.folder / "storage"))]


def main() -> None:
    parser = argparse.ArgumentParser(description="What a real Qdrant server costs.")
    parser.add_argument("--program", type=Path, required=True, help="the server's program")
    parser.add_argument("--sizes", type=int, nargs="+", default=[1_000, 10_000, 100_000])
    options = parser.parse_args()

    def log(words: str) -> None:
        print(words, file=sys.stderr)

    alone, together = [], []
    peers.PEERS[:] = [Peer(NAME, "with_agent_memory.py", (OURS,), "vectors")]
    for size in options.sizes:
        with new_node(options.program) as node:
            limits = (log, FILL_SECONDS, PART_SECONDS)
            found = growth.measure([size], CALLS, RUNS, *limits)["stores"][str(size)][NAME]
            taken = [*(each.of(found) for each in TIMES), *room(node, size)]
            alone.append([f"{size:,}", *map(number, taken)])
        several.FILLED = size
        for clients in CLIENTS:
            with new_node(options.program):
                found = several.measure([clients], SECONDS, log)["processes"][str(clients)]
            row = found[NAME]
            times = [(row[key] or {}).get("median") for key in ("search_ms", "add_ms")]
            cells = map(number, (clients, *times, row["calls_per_second"]))
            together.append([f"{size:,}", *cells])
    heads = [f"{each.name}, ms" for each in TIMES]
    print(table(["memories", *heads, "own RAM, MB", "with pages, MB", "disk, MB"], alone))
    print()
    print(table(["memories", "clients", "search, ms", "store, ms", "calls/s"], together))


if __name__ == "__main__":
    main()
