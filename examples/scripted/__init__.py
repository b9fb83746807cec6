"""A real Amplifier session in which a script plays the model.

The kernel is `amplifier-core`. It loads each module, the memory tools included, from its folder and
validates it, as in `amplifier` itself.
"""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from amplifier_core import AmplifierSession

REPOSITORY = Path(__file__).resolve().parents[2]
MEMORY_MODULE = REPOSITORY / "modules" / "tool-memory-semantic"
# The modules in that folder: the tools, and the others by their ids.
MEMORY_MODULES = (
    MEMORY_MODULE.name,
    "tool-memory-semantic-sharing",
    "hooks-memory-semantic-recall",
    "hooks-memory-semantic-capture",
)
# Amplifier's own orchestrators are in no package registry. Sessions can also use those whose
# folders, such as amplifier-module-loop-basic, are listed in the variable AMPLIFIER_LOOPS.
LOOPS = {"loop-scripted": Path(__file__).parent / "loop-scripted"} | {
    Path(folder).name.removeprefix("amplifier-module-"): Path(folder)
    for folder in os.environ.get("AMPLIFIER_LOOPS", "").split(os.pathsep)
    if folder
}


class _Folder:
    """A module source, as the kernel expects it: knows the module's folder."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def resolve(self) -> Path:
        return self._path


class _Folders:
    """A module source resolver: the memory modules are in this repository, the rest beside us."""

    def resolve(self, module_id: str, source_hint: Any = None, profile_hint: Any = None) -> _Folder:
        if module_id in MEMORY_MODULES:
            return _Folder(MEMORY_MODULE)
        if (REPOSITORY / "modules" / module_id).is_dir():
            return _Folder(REPOSITORY / "modules" / module_id)
        return _Folder(LOOPS.get(module_id, Path(__file__).parent / module_id))


@asynccontextmanager
async def scripted_session(
    turns: list[Any],
    memory: dict[str, Any] | None,
    *,
    session: dict[str, Any] | None = None,
    parent_id: str | None = None,
    tools: dict[str, dict[str, Any]] | None = None,
    hooks: dict[str, dict[str, Any]] | None = None,
    loop: str = "loop-scripted",
) -> AsyncIterator[AmplifierSession]:
    """A session whose model answers with `turns`. `memory` is the config of the memory tools; None
    leaves them out. `session` is added to the session's own configuration, `tools` and `hooks` are
    further modules with their config, `loop` is one of `LOOPS`.
    """
    all_tools = ({MEMORY_MODULE.name: memory} if memory is not None else {}) | (tools or {})
    config = {
        "session": {
            "orchestrator": {"module": loop},
            "context": {"module": "context-scripted"},
            **(session or {}),
        },
        "providers": [{"module": "provider-scripted", "config": {"turns": turns}}],
        "tools": [{"module": name, "config": config} for name, config in all_tools.items()],
        "hooks": [{"module": name, "config": config} for name, config in (hooks or {}).items()],
    }
    opened = AmplifierSession(config, parent_id=parent_id)
    await opened.coordinator.mount("module-source-resolver", _Folders())
    await opened.initialize()
    try:
        yield opened
    finally:
        await opened.cleanup()
        # A thread of the kernel is still finishing the last call. If the interpreter exits within
        # that millisecond, amplifier-core 2.0.2 kills the process with a signal.
        await asyncio.sleep(0.1)
