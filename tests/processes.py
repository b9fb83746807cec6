"""A store used by separate processes, as two terminals use it."""

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

PREAMBLE = """
import asyncio, json, os, sys
from memory_semantic import MemoryStorage, StorageError
root, arguments = sys.argv[1], json.loads(sys.argv[2])
def storage(agent="sam", **config):
    return MemoryStorage(agent, {"storage_root": root, "embedding_model": "local", **config})
"""


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
