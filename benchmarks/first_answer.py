"""The first answer of a process.

A search with the built-in model among 1,000 and 10,000 memories; `agent-memory search` among 1,000;
what Claude Code and others wait for, the hook of a start and the server; each in new processes.
Besides the time on the clock it gives processor time, which other work changes less.
"""

import asyncio
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

from page import Log, Options, Row, number, table
from tokens import AGENT, filled

QUESTION = "Which database did the team choose for the users table?"
SEARCH = """
import asyncio, sys
from memory_semantic import MemoryStorage
storage = MemoryStorage("bench", {"storage_root": sys.argv[1], "embedding_model": "local"})
print(asyncio.run(storage.search(sys.argv[2]))[0].content)
"""
# What a session pays before its first turn. (amplifier-core 2.0.2 crashes if the process exits
# right after a call to it.)
MOUNT = """
import asyncio, time
from amplifier_core.testing import MockCoordinator
clock, processor = time.perf_counter(), time.process_time()
from amplifier_module_tool_memory_semantic import mount
asyncio.run(mount(MockCoordinator(), {}))
print(time.perf_counter() - clock, time.process_time() - processor)
time.sleep(0.1)
"""
# What a program with hooks and a server waits for.
SERVED = (
    "`agent-memory mcp`, its first answer",
    "… to its first search",
    "… a hook before a later prompt",
)
HELD = 60  # memories of a person who has begun


def measured(
    command: list[str], runs: int, input: str | None = None, **more: str
) -> dict[str, float]:
    """Medians of the milliseconds on the clock and of the processor."""
    clock, processor = [], []
    for run in range(runs + 1):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        started = time.perf_counter()
        done = subprocess.run(
            command, input=input, capture_output=True, text=True, env=os.environ | more
        )
        elapsed = time.perf_counter() - started
        if done.returncode or not done.stdout.strip():
            raise RuntimeError(f"no answer: {done.stderr.strip()[-300:]}")
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        if run:  # the first compiles, and brings the files into the system's cache
            clock.append(elapsed * 1000)
            processor.append(used * 1000)
    return {"clock": statistics.median(clock), "processor": statistics.median(processor)}


def printed(command: list[str], runs: int) -> list[float]:
    """Medians of the seconds that a process prints, in milliseconds."""
    rows = [
        [float(part) * 1000 for part in subprocess.check_output(command, text=True).split()]
        for _ in range(runs)
    ]
    return [statistics.median(column) for column in zip(*rows, strict=True)]


def served(command: list[str], runs: int) -> dict[str, dict[str, float]]:
    """Medians of milliseconds, of a server: from its start to its first answer and to its first
    search, and a hook's question before a prompt when it has been asked before.
    """
    spent = defaultdict[str, list[float]](list)
    used = list[float]()
    for run in range(runs + 1):
        started = time.perf_counter()
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        _say(process, "initialize", protocolVersion="2025-11-25", capabilities={})
        first = time.perf_counter() - started
        _say(process, "tools/call", name="memory_search", arguments={"query": QUESTION})
        search = time.perf_counter() - started
        stat = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
        ticks = int(stat[11]) + int(stat[12])
        prompt = {"prompt": QUESTION, "cwd": "/", "session": "bench"}
        hooked = [
            _say(process, "tools/call", name="before_prompt", arguments=prompt) for _ in range(3)
        ][-1]
        process.communicate()
        if run:
            used.append(ticks * 1000 / os.sysconf("SC_CLK_TCK"))
            for name, seconds in zip(SERVED, (first, search, hooked), strict=True):
                spent[name].append(seconds * 1000)
    found = {name: {"clock": statistics.median(each)} for name, each in spent.items()}
    found[SERVED[1]]["processor"] = statistics.median(used)
    return found


def _say(process: "subprocess.Popen[bytes]", method: str, **params: Any) -> float:
    """The seconds until a call is answered."""
    assert process.stdin and process.stdout
    started = time.perf_counter()
    call = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    process.stdin.write(json.dumps(call).encode() + b"\n")
    process.stdin.flush()
    if "result" not in (answer := json.loads(process.stdout.readline())):
        raise RuntimeError(f"no answer: {answer}")
    return time.perf_counter() - started


def measure(options: Options, log: Log) -> Row:
    """Of each kind of process: milliseconds, and where those of a search go."""
    sizes, runs = ([100], 1) if options.quick else ([1_000, 10_000], 15)
    results: Row = {}
    with tempfile.TemporaryDirectory() as folder:
        for size in sizes:
            log(f"first_answer: {size:,} memories")
            root = f"{folder}/{size}"
            asyncio.run(_fill(root, size))
            command = [sys.executable, "-c", SEARCH, root, QUESTION]
            results[f"a search, {size:,} memories"] = measured(command, runs)
        log("first_answer: the command, the server, the hook")
        program = str(Path(sys.executable).with_name("agent-memory"))
        place = ["--agent", AGENT, "--root", f"{folder}/{sizes[0]}"]
        command = [sys.executable, program, "search", QUESTION, *place]
        results[f"`agent-memory search`, {sizes[0]:,} memories"] = measured(command, runs)
        results |= served([sys.executable, program, "mcp", *place], runs)
        for size in (HELD, sizes[0]):
            asyncio.run(_fill(f"{folder}/.amplifier/memory", size))
            start = json.dumps({"hook_event_name": "SessionStart", "session_id": "bench"})
            row = measured([sys.executable, program, "hook"], runs, start, HOME=folder)
            results[f"`agent-memory hook` at a start, {size:,} memories"] = row
    clock, processor = printed([sys.executable, "-c", MOUNT], runs)
    results["mounting, after amplifier_core"] = {"clock": clock, "processor": processor}
    return results


async def _fill(root: str, size: int) -> None:
    await (await filled(root, AGENT, size)).close()


def blocks(found: Row) -> dict[str, str]:
    """The processes, with what was aimed at."""
    rows = [
        [name, *map(number, (row["clock"], row.get("processor")))] for name, row in found.items()
    ]
    return {"first_answer": table(["", "ms", "of the processor"], rows)}
