"""What a real Qdrant server costs: time, recall, memory and disk. Prints Markdown tables.

    uv run benchmarks/server.py --program qdrant
    uv run benchmarks/server.py --program qdrant --parts graph room --sizes 10000 100000

Each part runs on servers of its own in a temporary folder. No embedding model is loaded: vectors
of 1,536 dimensions are computed from texts of 300 characters. Clients and server share this
machine's processors.
"""

import argparse
import os
import resource
import statistics
import sys
import time
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import server_clients as clients
import server_stores as stores
from memory_semantic.store import EVERYWHERE, Question
from memory_server.requests import similarity
from qdrant_client import models
from server_room import agents, room, snapshot
from server_stores import Options, new_node, row, say, table, with_graph

EXACT = models.SearchParams(exact=True)


def speed(options: Options) -> None:
    say(
        f"Through MemoryStorage, with default settings: {options.calls} calls of each kind, by "
        f"asyncio tasks in up to {clients.PROCESSES} processes, on the machine of the server. "
        "Searches first; each store adds a new text, to a store with words. The last two columns "
        "are averages: requests counted in the client, and the time that the server reports for "
        "the requests of a call."
    )
    for size in options.sizes:
        with new_node(options) as node:
            storage = stores.storage_at(node.url, lexical_weight=1)
            stores.create(storage)
            filled, settled, indexed = stores.fill(storage, node.url, size)
            say(
                f"\n{size:,} memories: filled in {filled:.0f} s, idle {settled:.0f} s later, "
                f"with {indexed:,} vectors indexed (those of words included)."
            )
            heads = "clients", "median ms", "p95 ms", "calls/s", "requests", "server ms"
            table("call", *heads)
            first = clients.LATER
            for kind, weight in (("search", 0), ("search", 1), ("store", 1)):
                for number in options.clients:
                    load = clients.Load(node.url, kind, weight, number, options.calls, first)
                    times = clients.measure(load)
                    first += options.calls + number
                    words = f", lexical_weight {weight}" if kind == "search" else ""
                    row(f"{kind}{words}", number, *_figures(times))


def _figures(times: clients.Times) -> list[str]:
    p50, p95 = np.percentile(times.calls, [50, 95])
    number = len(times.calls)
    figures = [f"{p50:.1f}", f"{p95:.1f}", f"{number / (times.ended - times.begun):.0f}"]
    server = 1_000 * sum(times.requests) / number
    return [*figures, f"{len(times.requests) / number:.2f}", f"{server:.1f}"]


def graph(options: Options) -> None:
    size = max(options.sizes)
    say(
        f"{size:,} memories, {options.questions} questions, one at a time: the request of "
        "MemoryStorage.search (without words) against an exact search with the vectors as they "
        "are kept, float16."
    )
    heads = (
        "recall@10",
        "recall@100",
        "ms @10",
        "ms @100",
        "exact ms @100",
        "indexed",
        "idle after, s",
    )
    table("qdrant_quantization", *heads)
    for kind in ("int8", "binary", "none"):
        with new_node(options) as node:
            settings = {"qdrant_quantization": kind, **with_graph(size)}
            storage = stores.storage_at(node.url, lexical_weight=0, **settings)
            stores.create(storage)
            _, settled, indexed = stores.fill(storage, node.url, size)
            _, info = stores.opened(storage)
            client = stores.client_of(node.url)

            def ask(request: models.QueryRequest, client: Any = client) -> tuple[list[Any], float]:
                started = time.perf_counter()
                [answer] = client.query_batch_points(stores.ALIAS, [request])
                taken = 1_000 * (time.perf_counter() - started)
                return [point.id for point in answer.points], taken

            asked = [stores.vector(stores.question(i)) for i in range(options.questions)]
            ten = [similarity(Question(each), info.shard, EVERYWHERE, 10) for each in asked]
            hundred = [similarity(Question(each), info.shard, EVERYWHERE, 100) for each in asked]
            exact = [each.model_copy(update={"params": EXACT}) for each in hundred]
            for each in (ten[0], exact[0]):
                ask(each)
            found = {
                name: list(map(ask, requests))
                for name, requests in (("10", ten), ("100", hundred), ("exact", exact))
            }
            recalls = [_recall(found[str(n)], found["exact"], n) for n in (10, 100)]
            medians = [statistics.median(ms for _, ms in answers) for answers in found.values()]
            cells = [*(f"{each:.3f}" for each in recalls), *(f"{each:.1f}" for each in medians)]
            row(kind, *cells, f"{indexed:,}", f"{settled:.0f}")


def _recall(found: Sequence[tuple[list[Any], float]], exact: Sequence[Any], number: int) -> float:
    pairs = zip(found, exact, strict=True)
    return statistics.mean(
        len(set(ids) & set(right[:number])) / min(number, len(right))
        for (ids, _), (right, _) in pairs
    )


PARTS = {part.__name__: part for part in (speed, graph, room, agents, snapshot)}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--program", type=Path, required=True, help="the server's program")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--sizes", type=int, nargs="+")
    parser.add_argument("--clients", type=int, nargs="+", default=[1, 8, 32])
    parser.add_argument("--agents", type=int, nargs="+")
    parser.add_argument("--quick", action="store_true", help="tiny, to see whether it runs")
    given = parser.parse_args()
    quick = given.quick
    options = Options(
        program=given.program,
        sizes=sorted(given.sizes or ([200, 500] if quick else [1_000, 10_000, 100_000])),
        clients=given.clients,
        agents=sorted(given.agents or ([1, 3] if quick else [1, 10, 100, 300])),
        calls=32 if quick else 320,
        questions=10 if quick else 200,
    )
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))  # a server with many stores needs it
    failed = False
    for name in given.parts:
        say(f"\n## {name}\n")
        started = time.monotonic()
        try:
            PARTS[name](options)
        except Exception:
            failed = True
            traceback.print_exc()
        minutes, load = (time.monotonic() - started) / 60, os.getloadavg()[0]
        say(f"\nThis took {minutes:.1f} minutes; load average {load:.1f}, {os.cpu_count()} CPUs")
    sys.exit(failed)


if __name__ == "__main__":
    main()
