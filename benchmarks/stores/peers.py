"""The stores that are compared, and how a driver runs them: each in its own environment."""

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
# How the reason of a store begins that was left out on purpose.
NOT_TRIED = "not tried above"


@dataclass(frozen=True)
class Peer:
    """A store, by the name that tables have for it.

    `packages` are those whose versions matter. Above `largest` memories it is not measured,
    because filling it or searching in it takes too long.
    """

    name: str
    script: str
    packages: tuple[str, ...]
    variant: str | None = None
    largest: int | None = None


_OURS = ("amplifier-module-tool-memory-semantic", "qdrant-edge-py")

PEERS = [
    Peer("agent-memory", "with_agent_memory.py", _OURS, "vectors"),
    Peer("agent-memory, endpoint", "with_agent_memory.py", _OURS, "endpoint", largest=10_000),
    Peer("agent-memory, built-in model", "with_agent_memory.py", _OURS, "local"),
    Peer("sqlite-vec", "with_sqlite_vec.py", ("sqlite-vec", "apsw")),
    Peer("Chroma", "with_chroma.py", ("chromadb",)),
    Peer("Qdrant local", "with_qdrant_local.py", ("qdrant-client", "numpy"), largest=10_000),
    Peer(
        "mcp-server-qdrant",
        "with_mcp_server_qdrant.py",
        ("mcp-server-qdrant", "qdrant-client"),
        largest=10_000,
    ),
    Peer(
        "mcp-memory-service",
        "with_mcp_memory_service.py",
        ("mcp-memory-service", "sqlite-vec"),
        largest=10_000,
    ),
    Peer("mem0", "with_mem0.py", ("mem0ai", "qdrant-client"), largest=10_000),
]


class Failed(Exception):
    """Why a store gave no result, in words for a table."""


@cache
def interpreter(script: str) -> str:
    """The Python of the environment of a script, which is made or updated first."""
    uv = os.environ.get("UV", "uv")
    path = str(HERE / script)
    for command in ([uv, "sync", "--script", path], [uv, "python", "find", "--script", path]):
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            raise Failed(f"no environment: {last_line(done.stderr)}")
    return done.stdout.strip()


def command(peer: Peer, *arguments: Any) -> list[str]:
    variant = [peer.variant] if peer.variant else []
    return [
        interpreter(peer.script),
        str(HERE / peer.script),
        *variant,
        *(str(each) for each in arguments),
    ]


def versions(peer: Peer) -> dict[str, str]:
    """The versions of Python and of the packages in the environment of a peer."""
    code = (
        "import json, platform, sys; from importlib.metadata import version; "
        "print(json.dumps({'python': platform.python_version(), "
        "**{name: version(name) for name in sys.argv[1:]}}))"
    )
    return _run([interpreter(peer.script), "-c", code, *peer.packages], 60)


def bare_memory(peer: Peer) -> dict[str, float | None]:
    """MB of an interpreter that has imported nothing but the worker."""
    return _run([interpreter(peer.script), str(HERE / "worker.py")], 60)


def run(peer: Peer, *arguments: Any, seconds: float) -> Any:
    """What a mode of a peer's script prints. Raises Failed if it fails or takes longer."""
    return _run(command(peer, *arguments), seconds)


def _run(arguments: list[str], seconds: float) -> Any:
    try:
        done = subprocess.run(arguments, capture_output=True, text=True, timeout=seconds)
    except subprocess.TimeoutExpired:
        raise Failed(f"not done within {seconds:.0f} s") from None
    if done.returncode:
        raise Failed(last_line(done.stderr) or f"exit code {done.returncode}")
    return json.loads(done.stdout.splitlines()[-1])


def time_to_answer(peer: Peer, *arguments: Any, seconds: float) -> float:
    """Milliseconds from the start of a process until it has printed its first line."""
    ready = command(peer, *arguments)
    with tempfile.TemporaryFile("w+") as errors:
        started = time.perf_counter()
        with subprocess.Popen(ready, stdout=subprocess.PIPE, stderr=errors, text=True) as process:
            limit = threading.Timer(seconds, process.kill)
            limit.start()
            assert process.stdout
            line = process.stdout.readline()
            elapsed = time.perf_counter() - started
            process.stdout.read()
            process.wait()
            limit.cancel()
        if elapsed >= seconds:
            raise Failed(f"no answer within {seconds:.0f} s")
        if not line.startswith('["'):
            errors.seek(0)
            raise Failed(last_line(errors.read()) or f"answered {line[:50]!r}")
    return elapsed * 1000


@contextmanager
def endpoint() -> Iterator[None]:
    """A service for embeddings on this machine, which the peers find in their environment."""
    # What a user has set up must not reach the peers, and a proxy must not get between.
    settings = {
        "OPENAI_API_KEY": "none",
        "NO_PROXY": "127.0.0.1,localhost",
        "no_proxy": "127.0.0.1,localhost",
    }
    before = {name: os.environ.get(name) for name in (*settings, "OPENAI_BASE_URL")}
    script = [sys.executable, str(HERE / "endpoint.py")]
    with subprocess.Popen(
        script, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as service:
        assert service.stdin and service.stdout
        try:
            port = int(service.stdout.readline())
            os.environ.update(settings)
            os.environ["BENCHMARK_ENDPOINT"] = f"http://127.0.0.1:{port}/v1"
            os.environ.pop("OPENAI_BASE_URL", None)
            yield
        finally:
            service.stdin.close()
            os.environ.pop("BENCHMARK_ENDPOINT", None)
            for name, value in before.items():
                os.environ.pop(name, None)
                if value is not None:
                    os.environ[name] = value


def last_line(errors: str) -> str:
    """What a program said last, which is where Python names the error."""
    lines = errors.strip().splitlines()
    return lines[-1].strip()[:200] if lines else ""
