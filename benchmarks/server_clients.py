"""Clients of a Qdrant server, in processes of their own, that call it at the same time."""

import asyncio
import multiprocessing
import re
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from threading import Barrier
from typing import Any
from unittest.mock import patch

import httpx
from memory_semantic import MemoryStorage
from server_stores import question, storage_at
from stores import worker

PROCESSES = 4  # of clients: more would only take the processors from the server
LATER = 100_000_000  # numbers of the memories that are stored during a measurement start here

_CALL_SECONDS = 30.0  # a loop of calls ends after so long
_START_SECONDS = 120.0

_barrier: Any = None


@dataclass(frozen=True)
class Load:
    """`calls` of one kind, `search` or `store`, by so many clients at once. The numbers of new
    texts start at `first`.
    """

    url: str
    kind: str
    weight: float
    clients: int
    calls: int
    first: int = LATER


@dataclass
class Times:
    """What calls took: the milliseconds of each, when the first began and the last ended, and the
    seconds of work that the server reported for each request.
    """

    calls: list[float]
    begun: float
    ended: float
    requests: list[float]


def measure(load: Load) -> Times:
    """What the calls of `load` took, in up to PROCESSES processes that begin together."""
    number = min(load.clients, PROCESSES)
    spawn = multiprocessing.get_context("spawn")
    barrier = spawn.Barrier(number)
    with ProcessPoolExecutor(number, spawn, _meet_at, (barrier,)) as pool:
        shares = [range(load.clients)[start::number] for start in range(number)]
        parts = list(pool.map(_work, [load] * number, shares))
    return Times(
        [each for part in parts for each in part.calls],
        min(part.begun for part in parts),
        max(part.ended for part in parts),
        [each for part in parts for each in part.requests],
    )


def _meet_at(barrier: Barrier) -> None:
    global _barrier
    _barrier = barrier


def _work(load: Load, clients: range) -> Times:
    each = max(1, load.calls // load.clients)
    calls: list[float] = []
    requests: list[float] = []
    storages = [storage_at(load.url, lexical_weight=load.weight) for _ in clients]

    async def one(client: int, storage: MemoryStorage, end: float) -> None:
        for index in range(client * each, (client + 1) * each):
            started = time.perf_counter()
            if load.kind == "store":
                await storage.store(worker.text(load.first + index))
            else:
                assert await storage.search(question(index))
            calls.append(1_000 * (time.perf_counter() - started))
            if time.monotonic() > end:
                return

    async def connected() -> None:
        await asyncio.gather(*(storage.search("warm up") for storage in storages))

    async def all_clients() -> None:
        end = time.monotonic() + _CALL_SECONDS
        pairs = zip(clients, storages, strict=True)
        await asyncio.gather(*(one(client, storage, end) for client, storage in pairs))

    asyncio.run(connected())
    _barrier.wait(_START_SECONDS)
    begun = time.monotonic()
    with patch.object(httpx.Client, "send", _counting(httpx.Client.send, requests)):
        asyncio.run(all_clients())
    return Times(calls, begun, time.monotonic(), requests)


def _counting(send: Callable[..., httpx.Response], requests: list[float]) -> Callable[..., Any]:
    def counting(client: httpx.Client, request: httpx.Request, **rest: Any) -> httpx.Response:
        answer = send(client, request, **rest)
        # The server's answer ends with the status and the time, so the rest need not be read.
        reported = re.findall(rb'"time":([0-9.e-]+)', answer.content[-300:])
        requests.append(float(reported[-1]) if reported else 0.0)
        return answer

    return counting
