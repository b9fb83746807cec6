"""Examines all that an agent's memory depends on, and says what to do about each problem."""

import sys
from collections.abc import AsyncIterator, Iterator
from importlib.metadata import version

from memory_semantic import (
    AgentMemoryError,
    InputError,
    MemoryStorage,
    StorageError,
    StoreInfo,
    limits,
    maintenance,
)
from memory_semantic.maintenance import Finding

from .settings import Settings, files

# The text that the embedding model is tried with: it says nothing about anybody.
_SAMPLE = "agent-memory doctor"
_OTHER_LANGUAGES = (
    "For other languages: agent-memory model fetch multilingual, then agent-memory reembed --model "
    f"multilingual; or, with a key for OpenAI, --model {limits.DEFAULT_MODEL}"
)


async def findings(
    settings: Settings,
    storage: MemoryStorage | None,
    why: str,
    progress: maintenance.ShowProgress,
    *,
    offline: bool,
) -> AsyncIterator[Finding]:
    """All findings, each after those that it depends on. `progress` opens a display for what takes
    long. Without a `storage`, only the settings are examined, and `why` says why there is none.
    """
    for finding in _about_settings(settings, storage.agent_id if storage else None):
        yield finding
    if storage is None:
        yield Finding("problem", "store", f"Not examined. {why}")
        return
    place = maintenance.place(storage.backend)
    async for finding in place.findings(storage.config, progress):
        yield finding
    yield await _about_model(storage, offline)


def _about_settings(settings: Settings, agent: str | None) -> Iterator[Finding]:
    package = version("amplifier-module-tool-memory-semantic")
    python = ".".join(map(str, sys.version_info[:3]))
    yield Finding("ok", "version", f"agent-memory {package}, {maintenance.ENGINE}, Python {python}")
    for problem in settings.problems:
        yield Finding("problem", "settings", problem, "Correct the file.")
    read = [str(path) for path in files()]
    if read and not settings.problems:
        yield Finding("ok", "settings", f"read from {', '.join(read)}")
    try:
        name, source = settings.named_agent() or (None, "")
    except InputError as error:
        yield Finding("problem", "identity", str(error))
        return
    if name is None:
        yield Finding(
            "warning",
            "identity",
            "Amplifier's settings name no agent here; sessions have a memory only if their bundle "
            "names one.",
            "Set agent_identity under overrides: tool-memory-semantic: config: in "
            "~/.amplifier/settings.yaml",
        )
    else:
        yield Finding("ok", "identity", f"Amplifier's sessions here run as {name!r}, says {source}")
        if agent and agent != name:
            yield Finding("warning", "identity", f"this examines the store of {agent!r} instead")


async def _about_model(storage: MemoryStorage, offline: bool) -> Finding:
    try:
        info = await storage.info()
    except StorageError:
        info = None
    try:
        generator = storage.generator(info)
        service = "" if generator.on_this_machine else f" at {generator.endpoint or 'OpenAI'}"
        name = f"{generator.model}{service}"
        if service and offline:
            return Finding("ok", "model", f"{name}, not tried")
        vector = await generator.generate(_SAMPLE)
        if info and len(vector) != info.model.dimensions:
            raise StorageError(f"{name} gives {len(vector)} dimensions, the store has {info.model}")
    except AgentMemoryError as error:
        mend = _mend_model(info, storage.config.embedding_model)
        return Finding("problem", "model", str(error), mend)
    answers = f"{name} answers, {len(vector)} dimensions"
    if generator.model == limits.LOCAL_MODEL:
        return Finding("ok", "model", f"{answers}; it is for English", _OTHER_LANGUAGES)
    return Finding("ok", "model", answers)


def _mend_model(info: StoreInfo | None, configured: str | None) -> str:
    if info and configured and configured != info.model.model:
        return f"or change the store: agent-memory reembed --model {configured}"
    if info and info.model.model != limits.LOCAL_MODEL:
        return "or switch to the built-in model: agent-memory reembed --model local"
    if info:
        return f"or change the store: agent-memory reembed --model {limits.DEFAULT_MODEL}"
    return ""
