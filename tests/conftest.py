"""Every test has an empty home, no key, no identity, and no network beyond this machine."""

import os
import signal
import socket
from collections.abc import Awaitable, Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest
from amplifier_core import HookResult
from amplifier_core.testing import MockCoordinator
from amplifier_module_tool_memory_semantic import mount
from command import Command
from embeddings_server import EmbeddingsServer
from memory_semantic import EmbeddingGenerator, Memory, MemoryStorage, Place
from memory_semantic.files.place import FilePlace

if TYPE_CHECKING:
    from qdrant_server import QdrantServer

MakeStorage = Callable[..., MemoryStorage]

# A shell's background jobs ignore Ctrl-C, and so would every command that the tests start.
signal.signal(signal.SIGINT, signal.default_int_handler)


# The real Qdrant server that tests may use can be on another machine.
_qdrant = urlsplit(os.environ.get("AGENT_MEMORY_TEST_QDRANT_URL", "")).hostname
QDRANT_ADDRESSES = {each[4][0] for each in socket.getaddrinfo(_qdrant, None)} if _qdrant else set()


class Clock:
    """A clock that moves only when told to."""

    def __init__(self) -> None:
        self.now = datetime(2026, 6, 15, 12, 0, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.now

    def advance(self, **by: float) -> None:
        self.now += timedelta(**by)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """One more than processors: a third of the time, tests wait for the disk or another process."""
    return (os.cpu_count() or 1) + 1


@pytest.fixture(autouse=True)
def clean_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    for name in (
        *("OPENAI_API_KEY", "OPENAI_BASE_URL", "FASTEMBED_CACHE_PATH", "HF_ENDPOINT"),
        *("AMPLIFIER_AGENT_IDENTITY", "AMPLIFIER_SESSION_ORIGIN", "QDRANT_URL"),
        *("AGENT_MEMORY_QDRANT_URL", "AGENT_MEMORY_QDRANT_API_KEY"),
    ):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(autouse=True)
def no_lingering(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Close stores at once: tests inspect and damage their files right after a call."""
    if request.node.get_closest_marker("lingers"):
        return
    run = FilePlace.on_points

    async def run_and_close(place: FilePlace, *args: Any, **options: Any) -> Any:
        result = await run(place, *args, **options)  # an error has closed it
        await place.close()
        return result

    monkeypatch.setattr(FilePlace, "on_points", run_and_close)


@pytest.fixture(autouse=True)
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    connect = socket.socket.connect
    allowed = {"127.0.0.1", "::1", *QDRANT_ADDRESSES}

    def connect_here(self: socket.socket, address: Any) -> None:
        if self.family != socket.AF_UNIX and address[0] not in allowed:
            raise AssertionError(f"a test tried to reach {address[0]}")
        connect(self, address)

    monkeypatch.setattr(socket.socket, "connect", connect_here)


async def whole(storage: MemoryStorage, **where: Any) -> dict[str, Memory]:
    """All memories by their texts."""
    return {memory.content: memory for memory in await storage.get_recent(None, **where)}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A storage root that does not exist yet."""
    return tmp_path / "memory"


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def make_storage(root: Path, clock: Clock) -> MakeStorage:
    """Storage under `root`, by default for `sam` and with the built-in model."""

    def make(
        agent_id: str = "sam",
        embeddings: EmbeddingGenerator | None = None,
        place: Place | None = None,
        **config: Any,
    ) -> MemoryStorage:
        settings = {"storage_root": str(root), "embedding_model": "local", **config}
        return MemoryStorage(agent_id, settings, embeddings=embeddings, clock=clock, place=place)

    return make


@pytest.fixture
def storage(make_storage: MakeStorage) -> MemoryStorage:
    """The storage of `sam`."""
    return make_storage()


@pytest.fixture
def memory(root: Path) -> dict[str, Any]:
    """The config of the memory tools of `sam`."""
    return {"agent_identity": "sam", "storage_root": str(root), "embedding_model": "local"}


@pytest.fixture
def sam(root: Path) -> MemoryStorage:
    """The storage of `sam`, today."""
    return MemoryStorage("sam", {"storage_root": str(root), "embedding_model": "local"})


@pytest.fixture
def command(root: Path) -> Command:
    """The command line, on the store of `sam`."""
    return Command(root)


@pytest.fixture
def server() -> Iterator[EmbeddingsServer]:
    with EmbeddingsServer() as running:
        yield running


@pytest.fixture
def service(memory: dict[str, Any], server: EmbeddingsServer) -> dict[str, Any]:
    """The config of the memory tools of `sam`, with a service."""
    return {**memory, "embedding_model": "m", "base_url": server.base_url}


@pytest.fixture
def remote(root: Path, server: EmbeddingsServer) -> MemoryStorage:
    """The storage of `sam`, today, embedded by a service."""
    config = {"storage_root": str(root), "embedding_model": "m", "base_url": server.base_url}
    return MemoryStorage("sam", config)


@pytest.fixture
def qdrant() -> Iterator["QdrantServer"]:
    """A stand-in for a Qdrant server."""
    from qdrant_server import QdrantServer

    with QdrantServer() as running:
        yield running


@pytest.fixture
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Failed requests to a Qdrant server are retried at once."""
    monkeypatch.setattr("memory_server.connection.PAUSE_SECONDS", 0.01)


class Tools:
    """The two tools as the kernel mounts them, and the events that they emit."""

    def __init__(self, coordinator: Any) -> None:
        self._tools = coordinator.mount_points["tools"]
        self.events: list[tuple[str, dict[str, Any]]] = []

        async def record(event: str, data: dict[str, Any]) -> HookResult:
            self.events.append((event, data))
            return HookResult(action="continue")

        for event in ("memory:stored", "memory:searched"):
            coordinator.hooks.register(event, record, name=event)

    async def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """The output of a call that succeeds."""
        result = await self._tools[tool].execute(arguments)
        assert result.success, result.error
        return result.output

    async def refused(self, tool: str, **arguments: Any) -> str:
        """The message of a call that fails."""
        return await self.refused_as(tool, arguments)

    async def refused_as(self, tool: str, arguments: Any) -> str:
        """The same for arguments that may not even be an object."""
        result = await self._tools[tool].execute(arguments)
        assert not result.success and result.error["message"]
        return result.error["message"]


MakeTools = Callable[..., Awaitable[Tools]]


@pytest.fixture
def make_tools(memory: dict[str, Any]) -> MakeTools:
    """The tools of `sam`, by default with the built-in model."""

    async def make(**config: Any) -> Tools:
        coordinator = MockCoordinator()
        await mount(coordinator, {**memory, **config})
        return Tools(coordinator)

    return make


@pytest.fixture
async def tools(make_tools: MakeTools) -> Tools:
    return await make_tools()
