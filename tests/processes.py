"""A store used by separate processes, as two terminals use it, and what such processes load."""

import json
import subprocess
import sys
import time
from ast import literal_eval
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

PREAMBLE = """
import asyncio, json, os, sys
from memory_semantic import MemoryStorage, StorageError
root, arguments = sys.argv[1], json.loads(sys.argv[2])
def storage(agent="sam", **config):
    return MemoryStorage(agent, {"storage_root": root, "embedding_model": "local", **config})
"""


# What takes a command longer to load than all else that it does.
SLOW = (
    *("asyncio", "click", "memory_semantic.files.repair", "numpy", "openai", "pydantic"),
    *("qdrant_edge", "rich", "tokenizers", "yaml"),
)


def loaded(script: str, input: str = "") -> tuple[str, list[str]]:
    """What `script` prints, and which slow modules it has loaded when it ends."""
    tell = f"""
import atexit, os, sys
os._exit = sys.exit
atexit.register(lambda: print([name for name in {SLOW} if name in sys.modules], file=sys.stderr))
"""
    command = [sys.executable, "-c", tell + script]
    done = subprocess.run(command, input=input, capture_output=True, text=True)
    return done.stdout, literal_eval(done.stderr)


def wait_until(done: Callable[[], object], seconds: float = 20) -> None:
    """Wait until `done()` is true; fails after `seconds`."""
    deadline = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def start(root: Path, script: str, *arguments: Any) -> "subprocess.Popen[str]":
    """Run `script` in a new interpreter. It may use what the preamble defines."""
    command = [sys.executable, "-W", "error", "-c", PREAMBLE + script, str(root)]
    return subprocess.Popen(
        [*command, json.dumps(arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(process: "subprocess.Popen[str]") -> str:
    """What the process printed; it must end well, with nothing on stderr."""
    output, complaints = process.communicate(timeout=120)
    assert process.returncode == 0, complaints
    assert complaints == ""
    return output


def release(processes: "Sequence[subprocess.Popen[str]]") -> None:
    """Let processes go on at the same moment, once each has printed "ready" and reads a line."""
    for process in processes:
        assert process.stdout and process.stdout.readline() == "ready\n", finish(process)
    for process in processes:
        assert process.stdin
        process.stdin.write("\n")
        process.stdin.flush()


def run(root: Path, script: str, *arguments: Any) -> str:
    """`start` and `finish`."""
    return finish(start(root, script, *arguments))
