"""Examines all that an agent's memory depends on, and says what to do about each problem."""

import asyncio
import sys
from collections.abc import AsyncIterator, Iterator
from importlib.metadata import version

from memory_semantic import (
    AgentMemoryError,
    EmbeddingError,
    EmbeddingGenerator,
    Finding,
    InputError,
    MemoryStorage,
    ShowProgress,
    StorageConfig,
    StorageError,
    StoreInfo,
    limits,
    overruled,
    upkeep,
)

from .settings import Settings, files

# The text that the embedding model is tried with: it says nothing about anybody.
_SAMPLE = "agent-memory doctor"
# A whole try at a service, and half of another: one that loads its model answers the second.
_SERVICE_SECONDS = 1.5 * limits.EMBEDDING_TRY_SECONDS


SET_IDENTITY = (
    "Set agent_identity under overrides: tool-memory-semantic: config: in "
    "~/.amplifier/settings.yaml"
)


async def findings(
    settings: Settings, storage: MemoryStorage | None, progress: ShowProgress, *, offline: bool
) -> AsyncIterator[Finding]:
    """All findings, each after those that it depends on. `progress` opens a display for what takes
    long. Without a `storage`, only the settings are examined.
    """
    for finding in _about_settings(settings, storage.agent_id if storage else None):
        yield finding
    if storage is None:
        return
    async for finding in upkeep.findings(storage.place, storage.config, progress):
        if finding.says_no_store:  # perhaps there is one elsewhere
            try:
                await storage.info()
            except StorageError as error:
                finding = Finding("problem", finding.subject, str(error))
        yield finding
    yield await _about_model(storage, progress, offline)


def _about_settings(settings: Settings, agent: str | None) -> Iterator[Finding]:
    package = version("amplifier-module-tool-memory-semantic")
    python = ".".join(map(str, sys.version_info[:3]))
    yield Finding("ok", "version", f"agent-memory {package}, {limits.ENGINE}, Python {python}")
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
    if name is None and agent and read:  # else there may be no Amplifier
        text = (
            "Amplifier's settings name no agent; sessions have a store only if a bundle names one"
        )
        yield Finding("warning", "identity", text, SET_IDENTITY)
    elif name is not None:
        yield Finding("ok", "identity", f"Amplifier's sessions here run as {name!r}, says {source}")
        if other := overruled(name):
            mend = f"Unset it (it may be in ~/.amplifier/keys.env), or remove the one in {source}."
            yield Finding("warning", "identity", other, mend)
        if agent and agent != name:
            yield Finding("ok", "identity", f"this examines the store of {agent!r} instead")


async def _about_model(storage: MemoryStorage, progress: ShowProgress, offline: bool) -> Finding:
    try:
        info = await storage.info()
    except StorageError:
        info = None
    name = ""
    try:
        generator = storage.generator(info)
        service = "" if generator.on_this_machine else f" at {generator.endpoint or 'OpenAI'}"
        name = f"{generator.model}{service}"
        if service and offline:
            return Finding("ok", "model", f"{name}, not tried")
        with progress(f"Trying {name}", 1):
            async with asyncio.timeout(_SERVICE_SECONDS if service else None):
                vector = await generator.generate(_SAMPLE)
        if info and len(vector) != info.model.dimensions:
            raise StorageError(f"{name} gives {len(vector)} dimensions, the store has {info.model}")
    except AgentMemoryError as error:
        passing = isinstance(error, EmbeddingError) and error.may_pass
        mend = "" if passing else _mend_model(info, storage.config)
        return Finding("problem", "model", str(error), mend)
    except TimeoutError:
        text = f"{name} gave no answer within {_SERVICE_SECONDS:.0f} seconds"
        return Finding("problem", "model", text, "Try again later, or see what keeps it busy.")
    return Finding("ok", "model", f"{name} answers, {len(vector)} dimensions")


def _mend_model(info: StoreInfo | None, config: StorageConfig) -> str:
    configured = config.embedding_model
    real = configured and EmbeddingGenerator(configured, base_url=config.base_url).model
    if info and real and real != info.model.model:
        return ""  # the error says how to change the one or the other
    if info and info.model.model != limits.LOCAL_MODEL:
        return "or switch to the built-in model: agent-memory reembed --model local"
    if info:
        return f"or change the store: agent-memory reembed --model {limits.DEFAULT_MODEL}"
    return ""
