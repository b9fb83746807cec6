"""A real Amplifier session in which a script plays the model.

The kernel is `amplifier-core`; it loads every module, the memory tools among them, from its folder
and validates it, as it does in `amplifier` itself.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from amplifier_core import AmplifierSession

REPOSITORY = Path(__file__).resolve().parents[2]
MEMORY_MODULE = REPOSITORY / "modules" / "tool-memory-semantic"


class _Folder:
    """A module source, as the kernel asks for it: where the module's folder is."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def resolve(self) -> Path:
        return self._path


class _Folders:
    """A module source resolver: the memory tools from this repository, the rest from beside us."""

    def resolve(self, module_id: str, source_hint: Any = None, profile_hint: Any = None) -> _Folder:
        if module_id == MEMORY_MODULE.name:
            return _Folder(MEMORY_MODULE)
        return _Folder(Path(__file__).parent / module_id)


@asynccontextmanager
async def scripted_session(
    turns: list[list[dict[str, Any]]],
    memory: dict[str, Any],
    *,
    session: dict[str, Any] | None = None,
    parent_id: str | None = None,
) -> AsyncIterator[AmplifierSession]:
    """A session whose model makes the tool calls of `turns`, and whose memory module has the
    config `memory`. `session` is added to the session's own configuration.
    """
    config = {
        "session": {
            "orchestrator": {"module": "loop-scripted"},
            "context": {"module": "context-scripted"},
            **(session or {}),
        },
        "providers": [{"module": "provider-scripted", "config": {"turns": turns}}],
        "tools": [{"module": MEMORY_MODULE.name, "config": memory}],
    }
    opened = AmplifierSession(config, parent_id=parent_id)
    await opened.coordinator.mount("module-source-resolver", _Folders())
    await opened.initialize()
    try:
        yield opened
    finally:
        await opened.cleanup()
        # A thread of the kernel is still letting go of the last call. If the interpreter exits
        # within that millisecond, amplifier-core 2.0.2 takes the process down with a signal.
        await asyncio.sleep(0.1)
