"""The stores that are compared, and how a driver runs them: each in its own environment."""

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from page import BUILT_IN, OURS

HERE = Path(__file__).parent
# A store may take so many times as long for a step as ours, which come first: no limit is in
# seconds, which a slow machine would exceed.
TIMES = 20
NOT_TRIED = "not tried above"  # how the reason of a store begins that was left out on purpose

_environments = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)


class Peer(NamedTuple):
    """A store, by the name that tables have for it, and what it is.

    The first of the newest `packages` is the one whose version is shown, but for ours, whose
    engine's is. Above `largest` memories it is not measured, because it takes too long.
    """

    name: str
    about: str
    adapter: str
    packages: tuple[str, ...]
    variant: str = ""
    largest: int = 100_000

    @property
    def is_ours(self) -> bool:
        """Whether it is this project, in whichever variant."""
        return self.adapter == _ADAPTER


_ADAPTER = "AgentMemory"
_PACKAGES = "qdrant-edge-py", "-e", f"{HERE.parent.parent}/modules/tool-memory-semantic[server]"
_SERVICE, _QDRANT = "mcp-memory-service", "mcp-server-qdrant"
_ON_SQLITE = "on sqlite-vec, asks a service"
_SMALL = 10_000  # what takes too long above
SERVER = Peer(f"{OURS}, server", "on a Qdrant server", _ADAPTER, _PACKAGES, "server")
PEERS = [
    Peer(OURS, "this project, vectors given", _ADAPTER, _PACKAGES, "vectors"),
    Peer(f"{OURS}, endpoint", "asks a service", _ADAPTER, _PACKAGES, "endpoint", _SMALL),
    Peer(BUILT_IN, "makes its vectors", _ADAPTER, _PACKAGES, "local"),
    Peer("sqlite-vec", "SQLite, exact search", "SqliteVec", ("sqlite-vec", "apsw")),
    Peer("Chroma", "SQLite, approximate index (HNSW)", "Chroma", ("chromadb",)),
    Peer(_QDRANT, "on Qdrant's local mode", "McpServerQdrant", (_QDRANT,), "", _SMALL),
    Peer(_SERVICE, _ON_SQLITE, "McpMemoryService", (_SERVICE, "pysqlite3"), "", _SMALL),
    Peer("mem0", "on Qdrant's local mode, asks a service", "Mem0", ("mem0ai",), "", _SMALL),
]


class Failed(Exception):
    """Why a store gave no result, in words for a table."""


@cache
def interpreter(packages: tuple[str, ...]) -> str:
    """The Python of a new environment with the newest of these packages."""
    uv, folder = os.environ.get("UV", "uv"), Path(tempfile.mkdtemp(dir=_environments.name))
    python = str(folder / "bin/python")
    make = [uv, "venv", "--quiet", "--clear", "--no-project", "--python", sys.executable]
    install = [uv, "pip", "install", "--quiet", "--compile-bytecode", "--python", python]
    for command in ([*make, str(folder)], [*install, *packages]):
        done = subprocess.run(command, capture_output=True, text=True, cwd=folder)
        if done.returncode:
            raise Failed(f"no environment: {_last_line(done.stderr)}")
    return python


def about(peer: Peer) -> dict[str, Any]:
    """The version of a peer's package, and the MB of an interpreter that has opened no store."""
    code = "import sys; from importlib.metadata import version; print(version(sys.argv[1]))"
    package, python = peer.packages[0], interpreter(peer.packages)
    version = subprocess.check_output([python, "-c", code, package], text=True).strip()
    bare = float(subprocess.check_output([python, str(HERE / "worker.py")]))
    return {"with": f"{package} {version}", "bare_memory_mb": bare}


def command_of(peer: Peer, *arguments: Any) -> list[str]:
    about = [str(HERE / "worker.py"), peer.adapter, peer.variant]
    return [interpreter(peer.packages), *about, *map(str, arguments)]


class Runs:
    """Runs steps of peers, ours first, and ends those that take TIMES as long as ours."""

    def __init__(self) -> None:
        self._longest: dict[str, float] = {}

    def lines(self, peer: Peer, count: int, *arguments: Any) -> list[tuple[str, str, float]]:
        """What `count` processes print and how it ended, with the seconds until the first line;
        once all have printed one, they go on. The seed of each is its last argument if there are
        several.
        """
        step, started = str(arguments[0]), time.perf_counter()
        allowed = None if peer.is_ours else self._longest.get(step)
        processes = list[subprocess.Popen[str]]()

        def kill() -> None:
            for process in processes:
                process.kill()

        limit = threading.Timer(allowed or 0, kill)
        with tempfile.TemporaryFile("w+") as errors:
            try:
                for seed in range(count):
                    given = (*arguments, seed) if step == "together" else arguments
                    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
                    command = command_of(peer, *given)
                    processes.append(subprocess.Popen(command, **pipes, stderr=errors, text=True))
                if allowed:
                    limit.start()
                found = self._told(processes, errors, started)
            finally:
                limit.cancel()
                kill()
        taken = time.perf_counter() - started
        if allowed and taken > allowed:
            raise Failed(f"took {TIMES} times as long as ours")
        if peer.is_ours:
            self._longest[step] = max(self._longest.get(step, 0), TIMES * taken)
        return found

    def _told(
        self, processes: list["subprocess.Popen[str]"], errors: Any, started: float
    ) -> list[tuple[str, str, float]]:
        firsts = list[tuple[str, float]]()
        for process in processes:
            assert process.stdout
            firsts.append((process.stdout.readline(), time.perf_counter() - started))
        for process in processes:
            with suppress(BrokenPipeError):  # it has ended
                assert process.stdin
                process.stdin.write("\n")
                process.stdin.flush()
        return [
            (line + process.communicate()[0], self._ended(process, errors), seconds)
            for process, (line, seconds) in zip(processes, firsts, strict=True)
        ]

    def _ended(self, process: "subprocess.Popen[str]", errors: Any) -> str:
        errors.seek(0)
        why = _last_line(errors.read()) or f"exit code {process.returncode}"
        return why if process.returncode else ""

    def run(self, peer: Peer, *arguments: Any) -> tuple[Any, float]:
        """What one process prints, and the seconds until it has."""
        [(printed, failed, seconds)] = self.lines(peer, 1, *arguments)
        if failed:
            raise Failed(failed)
        return json.loads(printed.splitlines()[-1]), seconds


@contextmanager
def endpoint() -> Iterator[None]:
    """A service for embeddings on this machine, which the peers find in their environment."""
    # What a user has set up must not reach the peers, and a proxy must not get between.
    local = "127.0.0.1,localhost"
    settings = {"OPENAI_API_KEY": "none", "NO_PROXY": local, "no_proxy": local}
    before = dict(os.environ)
    script = [sys.executable, str(HERE / "endpoint.py")]
    pipe = subprocess.PIPE
    with subprocess.Popen(script, stdin=pipe, stdout=pipe, text=True) as service:
        assert service.stdin and service.stdout
        try:
            address = f"http://127.0.0.1:{int(service.stdout.readline())}/v1"
            os.environ |= {**settings, "BENCHMARK_ENDPOINT": address}
            os.environ.pop("OPENAI_BASE_URL", None)
            yield
        finally:
            service.stdin.close()
            os.environ.clear()
            os.environ |= before


def _last_line(errors: str) -> str:
    """What a program said last, which is where Python names the error."""
    lines = errors.strip().splitlines()
    return lines[-1].strip()[:200] if lines else ""
