"""How well and how fast agent-memory-daemon finds and records. Prints Markdown tables.

    uv run benchmarks/daemon.py --found [--locomo locomo10.json]
    uv run benchmarks/daemon.py --sizes 1000 100000

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
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import httpx2
import numpy as np
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from recall_sets import own
from team_record import AGENTS, FACTS, NEAR_ANSWER, NEAR_QUESTION, near_duplicates, team_record

Event = dict[str, Any]

BATCH = 100  # events in a call
CHUNK_CHARS = 870
SMALL_TENANT = 1_000  # events
QUESTIONS = 60
BUDGETS = (65_000, 16_000, 4_000)  # tokens of a bundle
SETTLE_SECONDS = 20  # after which the daemon's database knows how frequent the words are


class Agent:
    """An agent with a token and a connection."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def call(self, tool: str, **arguments: Any) -> str:
        result = await self._client.call_tool(tool, arguments)
        [content] = result.content
        assert content.type == "text" and not result.is_error, content
        return content.text

    async def record(self, session: str, events: Iterable[Event]) -> None:
        for batch in batched(events, BATCH):
            await self.call("record_event", session_id=session, events=batch)

    async def bundle(self, question: str, max_tokens: int = BUDGETS[0]) -> str:
        """The bundle for a question that is asked from a session of its own."""
        return await self.call(
            "build_acb", session_id="asks", query_text=question, max_tokens=max_tokens
        )


class Daemon(NamedTuple):
    """A daemon in a process of its own, on what `home` has."""

    command: list[str]
    home: Path
    url: str = ""
    pid: int = 0

    @asynccontextmanager
    async def serving(self) -> AsyncIterator["Daemon"]:
        environment = {
            **os.environ,
            "MEMORY_DAEMON_HOME": str(self.home),
            "MEMORY_DAEMON_PORT": "0",
        }
        process = subprocess.Popen(
            [*self.command, "serve"], env=environment, stdout=subprocess.PIPE, text=True
        )
        try:
            line = next(line for line in process.stdout or () if line.startswith("Serving"))
            yield self._replace(url=line.split()[2].rstrip("."), pid=process.pid)
        finally:
            process.terminate()
            process.wait()

    @asynccontextmanager
    async def agent(self, tenant: str, name: str = "sam") -> AsyncIterator[Agent]:
        made = await asyncio.to_thread(
            subprocess.run,
            [*self.command, "token", "make", "--tenant", tenant, "--agent", name],
            env={**os.environ, "MEMORY_DAEMON_HOME": str(self.home)},
            capture_output=True,
            text=True,
            check=True,
        )
        headers = {"Authorization": f"Bearer {made.stdout.split()[-1]}"}
        async with (
            httpx2.AsyncClient(headers=headers, timeout=60) as http,
            Client(streamable_http_client(self.url, http_client=http)) as client,
        ):
            yield Agent(client)


def batched(items: Iterable[Event], size: int) -> Iterator[list[Event]]:
    rest = iter(items)
    while batch := list(itertools.islice(rest, size)):
        yield batch


# How well


def ids(bundle: str) -> list[str]:
    """The ids of the events that a bundle or a list of decisions shows, in order."""
    return re.findall(r"^## \w+(?: \([^)]*\))? (\S+) ", bundle, re.MULTILINE)


def locomo(file: Path) -> Iterator[tuple[str, dict[str, list[Event]], list[tuple[str, set[str]]]]]:
    """Each conversation: the turns of its sessions, and its questions with the turns that answer.

    The last session is now, so that newness counts as it would for its users.
    """
    for sample in json.loads(file.read_text()):
        talk = sample["conversation"]
        times = {
            key: datetime.strptime(talk[f"{key}_date_time"], "%I:%M %p on %d %B, %Y")
            for key in talk
            if re.fullmatch(r"session_\d+", key)
        }
        age = datetime.now() - max(times.values()) - timedelta(hours=1)
        sessions = {
            key: [
                {
                    "event_id": turn["dia_id"],
                    "ts": (start + age + timedelta(seconds=10 * nth)).astimezone(UTC).isoformat(),
                    "text": turn["text"],
                }
                for nth, turn in enumerate(talk[key])
            ]
            for key, start in times.items()
        }
        known = {event["event_id"] for events in sessions.values() for event in events}
        asked = [
            (each["question"], set(re.findall(r"D\d+:\d+", " ".join(each["evidence"]))) & known)
            for each in sample["qa"]
            if each["category"] != 5 and each.get("evidence")
        ]
        yield sample["sample_id"], sessions, [(question, ids) for question, ids in asked if ids]


async def measure_locomo(daemon: Daemon, file: Path) -> None:
    """The share of a question's turns that its bundle holds."""
    shares: dict[int, list[float]] = {budget: [] for budget in BUDGETS}
    for name, sessions, asked in locomo(file):
        async with daemon.agent(name) as agent:
            for session, events in sessions.items():
                await agent.record(session, events)
            await asyncio.sleep(SETTLE_SECONDS)
            for budget, (question, wanted) in itertools.product(BUDGETS, asked):
                found = wanted & set(ids(await agent.bundle(question, budget)))
                shares[budget].append(len(found) / len(wanted))
        if len(shares[BUDGETS[0]]) == len(asked):
            print_shares(f"LoCoMo's first conversation, {len(asked)} questions", shares)
    print_shares(f"LoCoMo, {len(shares[BUDGETS[0]]):,} questions", shares)


async def measure_team(daemon: Daemon) -> None:
    """Of how many questions the bundle holds the answer, asked by an agent of the team."""
    async with AsyncExitStack() as stack:
        agents = {
            name: await stack.enter_async_context(daemon.agent("team", name)) for name in AGENTS
        }
        count = 0
        for name, session, events in team_record():
            await agents[name].record(session, events)
            count += len(events)
        await asyncio.sleep(SETTLE_SECONDS)
        held = {
            budget: [
                fact.answer in await agents["eve"].bundle(fact.question, budget) for fact in FACTS
            ]
            for budget in BUDGETS
        }
    print_shares(f"a team's record, {count} events, {len(FACTS)} questions", held)


async def measure_near_duplicates(daemon: Daemon) -> None:
    """Whether the one answer is found, in the session of the near-duplicates and in another."""
    held: dict[int, list[bool]] = {budget: [] for budget in BUDGETS}
    for session in ("deploy", "another"):
        async with daemon.agent(f"near-{session}") as agent:
            before = datetime.now(UTC) - timedelta(days=1)
            answer = {"kind": "message", "text": NEAR_ANSWER, "ts": before.isoformat()}
            await agent.record(session, [answer])
            events = [{"kind": "message", "text": text} for text in near_duplicates()]
            await agent.record("deploy", events)
            await asyncio.sleep(SETTLE_SECONDS)
            for budget, found in held.items():
                found.append(NEAR_ANSWER in await agent.bundle(NEAR_QUESTION, budget))
    print_shares("one answer beside 300 near-duplicates, 2 questions", held)


async def measure_paraphrases(daemon: Daemon) -> None:
    """The sentences of benchmarks/recall, asked for in other words, among the first five."""
    given, found = own(), dict[str, list[float]]()
    numbers = {text: f"m{nth}" for nth, text in enumerate(given.texts)}
    asked = [each for each in given.questions if each.kind == "paraphrase"]
    for kind in ("message", "decision"):
        async with daemon.agent(kind) as agent:
            for text, id in numbers.items():  # each in a session of its own: none is a neighbour
                await agent.record(id, [{"kind": kind, "event_id": id, "text": text}])
            await asyncio.sleep(SETTLE_SECONDS)
            for each in asked:
                if kind == "message":
                    answer = await agent.bundle(each.text)
                else:
                    answer = await agent.call("query_decisions", query_text=each.text, limit=5)
                wanted = {numbers[text] for text in each.answers}
                share = len(wanted & set(ids(answer)[:5])) / min(5, len(wanted))
                found.setdefault(kind, []).append(share)
    for kind, shares in found.items():
        print(
            f"\nRecall@5 of {len(asked)} paraphrases, each a {kind}: {statistics.mean(shares):.3f}"
        )


def print_shares(name: str, shares: Mapping[int, Sequence[float]]) -> None:
    cells = " | ".join(f"{statistics.mean(values):.3f}" for values in shares.values() if values)
    print(f"| {name} | {cells} |", flush=True)


# How fast


def texts() -> Iterator[str]:
    """Endless chunks of real text: when all of it is used up, it is cut at other places."""
    files = [
        file
        for file in sorted(Path(os.__file__).parent.rglob("*.py"))
        if "site-packages" not in file.parts
    ]
    for shift in itertools.count():
        for file in files:
            text = file.read_text(errors="replace").replace("\0", "")
            chunks = (
                text[start : start + CHUNK_CHARS]
                for start in range(shift * 97, len(text), CHUNK_CHARS)
            )
            yield from filter(str.strip, chunks)


def questions() -> list[str]:
    """First lines of docstrings."""
    found = {
        match[1]
        for text in itertools.islice(texts(), 20_000)
        for match in re.finditer(r'"""([A-Z][^"\n]{20,90})[.\n]', text)
    }
    return random.Random(7).sample(sorted(found), QUESTIONS)


async def fill(daemon: Daemon, size: int) -> None:
    """Record `size` events of a large tenant, and those of a small one, unless they are there."""
    now, all_texts = datetime.now(UTC), texts()
    for tenant, count in (("large", size), ("small", SMALL_TENANT)):
        async with daemon.agent(tenant) as agent:
            for nth in range(0, count, BATCH):
                events = [
                    {
                        "kind": "message",
                        "text": next(all_texts),
                        "ts": (now - timedelta(minutes=count - nth - each)).isoformat(),
                    }
                    for each in range(BATCH)
                ]
                await agent.record(f"s{nth // BATCH}", events)


def processor_seconds(daemon: Daemon) -> float:
    """What the daemon and the PostgreSQL under its home have used since they began."""
    used: dict[str, tuple[str, int]] = {}
    ours = {str(daemon.pid)}
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            fields = (process / "stat").read_text().rpartition(")")[2].split()
            used[process.name] = fields[1], sum(map(int, fields[11:15]))
            if str(daemon.home) in (process / "cmdline").read_text():
                ours.add(process.name)
    ticks = sum(ticks for id, (parent, ticks) in used.items() if {id, parent} & ours)
    return ticks / os.sysconf("SC_CLK_TCK")


async def measure(
    name: str, daemon: Daemon, calls: Iterable[Callable[[], Awaitable[Any]]], width: int = 1
) -> None:
    """Print a row: the time that a call takes, and the processor's time, in milliseconds."""
    times: list[float] = []
    queue, used = iter(calls), processor_seconds(daemon)

    async def work() -> None:
        for call in queue:
            started = time.monotonic()
            await call()
            times.append(1_000 * (time.monotonic() - started))

    await asyncio.gather(*(work() for _ in range(width)))
    p50, p95 = np.percentile(times, [50, 95])
    cost = 1_000 * (processor_seconds(daemon) - used) / len(times)
    print(f"| {name} | {p50:.0f} | {p95:.0f} | {cost:.0f} |", flush=True)


async def measure_speed(daemon: Daemon) -> None:
    for tenant in ("large", "small"):
        async with daemon.agent(tenant) as agent:
            asked = [partial(agent.bundle, question) for question in questions()]
            for warm in asked[:5]:
                await warm()
            await measure(f"build_acb, {tenant} tenant", daemon, asked)
    played = runpy.run_path(str(Path(__file__).parent.parent / "examples/daemon.py"))
    async with daemon.agent("large") as agent:
        await agent.record("monday", played["EVENTS"])
        asked = [partial(agent.bundle, played["QUESTION"])] * QUESTIONS
        await measure("build_acb, SCN-A1 in the large tenant", daemon, asked)
    async with daemon.agent("writer") as agent:
        events = [{"kind": "message", "text": text} for text in itertools.islice(texts(), 400)]
        one = [partial(agent.record, "writes", [event]) for event in events]
        hundred = [partial(agent.record, "writes", events[:BATCH])] * 8
        await measure("record_event, one at a time", daemon, one[:100])
        await measure("record_event, 8 in parallel", daemon, one, 8)
        await measure("record_event, 100 in a call", daemon, hundred)
    status = Path(f"/proc/{daemon.pid}/status").read_text()
    [kilobytes] = re.findall(r"VmRSS:\s+(\d+)", status)
    print(f"| the daemon's memory, MB | {int(kilobytes) / 1000:.0f} | | |")


async def speed(daemon: Daemon, size: int) -> None:
    if not daemon.home.exists():
        async with daemon.serving() as serving:
            await fill(serving, size)
            await asyncio.sleep(SETTLE_SECONDS)
    async with daemon.serving() as serving:
        print(f"\n| {size:,} events | p50 ms | p95 ms | processor ms |\n|---|--:|--:|--:|")
        await measure_speed(serving)


async def first_answer(daemon: Daemon) -> None:
    for name in ("an empty folder", "a filled one"):
        started = time.monotonic()
        async with daemon.serving() as serving, serving.agent("t") as agent:
            await agent.record("s", [{"kind": "message", "text": "hello"}])
            print(f"First answer from {name}: {time.monotonic() - started:.1f} s")


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--found", action="store_true")
    parser.add_argument("--locomo", type=Path, metavar="locomo10.json")
    parser.add_argument("--sizes", type=int, nargs="*", default=[])
    parser.add_argument("--home", type=Path, help="keep the databases of --sizes here")
    parser.add_argument("--python", default=sys.executable, help="which runs the daemon")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)  # as root, PostgreSQL runs as another user

        def daemon(name: str) -> Daemon:
            return Daemon([options.python, "-m", "memory_daemon"], Path(folder) / name)

        if options.found or options.locomo:
            async with daemon("found").serving() as serving:
                print(f"\n| |{'|'.join(f' {budget:,} ' for budget in BUDGETS)}|\n|---|--:|--:|--:|")
                if options.locomo:
                    await measure_locomo(serving, options.locomo)
                if options.found:
                    await measure_team(serving)
                    await measure_near_duplicates(serving)
                    await measure_paraphrases(serving)
        for size in options.sizes:
            place = daemon(str(size))
            if options.home:
                place = place._replace(home=options.home / str(size))
            await speed(place, size)
        if options.sizes:
            await first_answer(daemon("first"))


if __name__ == "__main__":
    asyncio.run(main())
