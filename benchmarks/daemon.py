"""How well and how fast agent-memory-daemon finds and records. Prints Markdown tables.

    uv run benchmarks/daemon.py --found --locomo locomo10.json --sizes 1000 100000

Everything is recorded and asked through the tools, by an MCP client. LoCoMo's data is not part of
this repository: it is in github.com/snap-research/LoCoMo, in data/ (CC BY-NC 4.0).
"""

import argparse
import asyncio
import itertools
import json
import os
import random
import re
import runpy
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from recall_sets import own, rows

BATCH = 100  # events in a call
CHUNK_CHARS = 870
SMALL_TENANT = 1_000  # events
QUESTIONS = 60
BUDGETS = (65_000, 16_000, 4_000)  # tokens of a bundle
SETTLE_SECONDS = 40  # after which the database knows how frequent the words are
AGENTS, DAYS, SESSIONS, EVENTS = ("sam", "eve", "kim"), 35, 42, 19  # of a team's record
# What is worth knowing in it, and a question in other words, whose bundle must hold `answer`.
FACTS = rows("team_record/facts")
Event = dict[str, Any]


class Agent:
    """An agent with a token and a connection."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def call(self, tool: str, **arguments: Any) -> str:
        result = await self._client.call_tool(tool, arguments)
        [content] = result.content
        assert content.type == "text" and not result.is_error, content
        return content.text

    async def record(self, session: str, events: list[Event]) -> None:
        for start in range(0, len(events), BATCH):
            some = events[start : start + BATCH]
            await self.call("record_event", session_id=session, events=some)

    async def bundle(self, question: str, max_tokens: int = BUDGETS[0]) -> str:
        """The bundle for a question that is asked from a session of its own."""
        asked = {"query_text": question, "max_tokens": max_tokens}
        return await self.call("build_acb", session_id="asks", **asked)


class Daemon:
    """A daemon in a process of its own, on what `home` has, and the agents that talk to it."""

    def __init__(self, home: Path) -> None:
        self._command = [sys.executable, "-m", "memory_daemon"]
        own = {"MEMORY_DAEMON_HOME": str(home), "MEMORY_DAEMON_PORT": "0"}
        self._environment = os.environ | own

    @asynccontextmanager
    async def serving(self) -> AsyncIterator["Daemon"]:
        command = [*self._command, "serve"]
        with subprocess.Popen(command, env=self._environment, stdout=subprocess.PIPE) as it:
            line = next(line.decode() for line in it.stdout or () if line.startswith(b"Serving"))
            self._url, self.pid = line.split()[2].rstrip("."), it.pid
            async with AsyncExitStack() as self._open:
                self._open.callback(it.terminate)
                yield self

    async def agent(self, tenant: str, name: str = "sam") -> Agent:
        command = [*self._command, "token", "make", "--tenant", tenant, "--agent", name]
        token = subprocess.check_output(command, env=self._environment, text=True).split()[-1]
        headers = {"Authorization": f"Bearer {token}"}
        http = httpx2.AsyncClient(headers=headers, timeout=60)
        transport = streamable_http_client(self._url, http_client=http)
        await self._open.enter_async_context(http)
        return Agent(await self._open.enter_async_context(Client(transport)))


# An agent, what it asks, and the share of the answer that a bundle holds.
Asked = tuple[Agent, str, Callable[[str], float]]


async def print_shares(name: str, asked: Sequence[Asked]) -> None:
    """Print a row: the mean share in bundles of each size."""
    print(f"| {name}, {len(asked):,} questions", end="")
    for budget in BUDGETS:
        held = [share(await agent.bundle(question, budget)) for agent, question, share in asked]
        print(f" | {statistics.mean(held):.3f}", end="", flush=True)
    print(" |")


async def measure_locomo(daemon: Daemon, file: Path) -> None:
    """The turns of the first conversation that answer a question about it."""
    sample, agent, known = json.loads(file.read_text())[0], await daemon.agent("locomo"), set[str]()
    for session, turns in sample["conversation"].items():
        if isinstance(turns, list):  # what else is there says who speaks, and when
            events = [{"event_id": turn["dia_id"], "text": turn["text"]} for turn in turns]
            await agent.record(session, events)
            known |= {event["event_id"] for event in events}
    asked: list[Asked] = []
    for each in sample["qa"]:
        wanted = known & set(re.findall(r"D\d+:\d+", " ".join(each["evidence"])))
        if wanted and each["category"] != 5:  # adversarial: without an answer
            asked.append((agent, each["question"], of_events(wanted)))
    await asyncio.sleep(SETTLE_SECONDS)
    await print_shares("LoCoMo, one conversation", asked)


def of_events(wanted: set[str]) -> Callable[[str], float]:
    """The share of these events that a bundle shows."""

    def share(bundle: str) -> float:
        shown = set(re.findall(r"^## \w+ (\S+) ", bundle, re.MULTILINE))
        return len(wanted & shown) / len(wanted)

    return share


def team_record() -> Iterator[tuple[str, str, list[Event]]]:
    """Sessions of five weeks: an agent, the session's name, and its events, the oldest first."""
    notes, read = itertools.cycle(memory.content for memory in own().memories.values()), texts()
    facts = {nth * SESSIONS // len(FACTS): fact for nth, fact in enumerate(FACTS)}
    for nth in range(SESSIONS):
        events: list[Event] = []
        for place in range(EVENTS):
            kind = ("message", "tool_call", "tool_result")[place % 3]
            text = {"message": next(notes), "tool_call": f"read file {place}"}.get(kind, next(read))
            events.append({"kind": kind, "text": text})
        if nth in facts:
            event = {key: facts[nth][key] for key in ("kind", "text", "name") if key in facts[nth]}
            events[5 + nth % 10] = event
        began = datetime.now(UTC) - timedelta(days=DAYS * (1 - nth / SESSIONS))
        for minutes, event in enumerate(events):
            event["ts"] = (began + timedelta(minutes=2 * minutes)).isoformat()
        yield AGENTS[nth % 3], f"s{nth}", events


async def measure_team(daemon: Daemon) -> None:
    agents, count = {name: await daemon.agent("team", name) for name in AGENTS}, 0
    for name, session, events in team_record():
        await agents[name].record(session, events)
        count += len(events)
    await asyncio.sleep(SETTLE_SECONDS)
    sam = agents[AGENTS[0]]
    asked = [(sam, fact["question"], lambda b, it=fact["answer"]: it in b) for fact in FACTS]
    await print_shares(f"the record of a team, {count} events", asked)


def texts() -> Iterator[str]:
    """Endless chunks of Python's library: when it is used up, it is cut at other places."""
    files = sorted(Path(os.__file__).parent.rglob("*.py"))
    for shift in itertools.count():
        for file in files:
            if "site-packages" not in file.parts:
                text = file.read_text(errors="replace").replace("\0", "")
                starts = range(shift * 97, len(text), CHUNK_CHARS)
                yield from filter(str.strip, (text[at : at + CHUNK_CHARS] for at in starts))


def questions() -> list[str]:
    """First lines of docstrings."""
    code = "".join(itertools.islice(texts(), 20_000))
    found = set(re.findall(r'"""([A-Z][^"\n]{20,90})[.\n]', code))
    return random.Random(7).sample(sorted(found), QUESTIONS)


async def fill(daemon: Daemon, size: int) -> None:
    """Record the events of a large and of a small tenant, an event a minute until now."""
    now, endless = datetime.now(UTC), texts()
    for tenant, count in (("large", size), ("small", SMALL_TENANT)):
        agent = await daemon.agent(tenant)
        for left in range(count, 0, -BATCH):
            times = [now - timedelta(minutes=left - nth) for nth in range(BATCH)]
            events = [{"text": next(endless), "ts": when.isoformat()} for when in times]
            await agent.record(f"s{left}", events)


async def measure(name: str, calls: Iterable[Callable[[], Awaitable[Any]]]) -> None:
    """Print a row: the time that a call takes, in milliseconds."""
    times: list[float] = []
    for call in calls:
        started = time.monotonic()
        await call()
        times.append(1_000 * (time.monotonic() - started))
    p50, p95 = statistics.median(times), statistics.quantiles(times, n=20)[-1]
    print(f"| {name} | {p50:.0f} | {p95:.0f} |", flush=True)


async def measure_speed(daemon: Daemon, size: int) -> None:
    print(f"\n| {size:,} events | p50 ms | p95 ms |\n|---|--:|--:|")
    large, writer = await daemon.agent("large"), await daemon.agent("writer")
    for tenant, agent in {"large": large, "small": await daemon.agent("small")}.items():
        asked = [partial(agent.bundle, question) for question in questions()]
        await asyncio.gather(*(warm() for warm in asked[:5]))
        await measure(f"build_acb, {tenant} tenant", asked)
    played = runpy.run_path(str(Path(__file__).parent.parent / "examples/daemon.py"))
    await large.record("monday", played["EVENTS"])
    asked = [partial(large.bundle, played["QUESTION"])] * QUESTIONS
    await measure("build_acb, SCN-A1 in the large tenant", asked)
    events = [{"text": text} for text in itertools.islice(texts(), 400)]
    one = [partial(writer.record, "writes", [event]) for event in events[:100]]
    await measure("record_event, one at a time", one)
    hundred = [partial(writer.record, "writes", events[:BATCH])] * 8
    await measure("record_event, 100 in a call", hundred)
    pages = int(Path(f"/proc/{daemon.pid}/statm").read_text().split()[1])
    print(f"| the daemon's memory, MB | {pages * os.sysconf('SC_PAGE_SIZE') / 1e6:.0f} | |")


async def first_answer(daemon: Daemon) -> None:
    started = time.monotonic()
    async with daemon.serving():
        await (await daemon.agent("t")).record("s", [{"text": "hello"}])
        print(f"First answer from an empty folder: {time.monotonic() - started:.1f} s")


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--found", action="store_true")
    parser.add_argument("--locomo", type=Path, metavar="locomo10.json")
    parser.add_argument("--sizes", type=int, nargs="*", default=[])
    options = parser.parse_args()
    found = [measure_team] if options.found else []
    found += [partial(measure_locomo, file=options.locomo)] if options.locomo else []
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)  # as root, PostgreSQL runs as another user
        print("\n| |", *(f"{budget:,} |" for budget in BUDGETS), "\n|---|--:|--:|--:|")
        for nth, measured in enumerate(found):
            async with Daemon(Path(folder) / f"found{nth}").serving() as daemon:
                await measured(daemon)
        for size in options.sizes:
            daemon = Daemon(Path(folder) / str(size))
            async with daemon.serving():
                await fill(daemon, size)
                await asyncio.sleep(SETTLE_SECONDS)
            async with daemon.serving():
                await measure_speed(daemon, size)
        if options.sizes:
            await first_answer(Daemon(Path(folder) / "first"))


if __name__ == "__main__":
    asyncio.run(main())
