"""What an examination finds about a store on a server, and what its operator does there."""

from collections.abc import AsyncIterator
from urllib.parse import urlsplit

from memory_semantic.errors import UNCHANGED, StorageError
from memory_semantic.examine import examine
from memory_semantic.findings import (
    NO_STORE,
    Finding,
    ShowProgress,
    about_info,
    about_memories,
    about_words,
    store_problem,
)
from memory_semantic.place import Place
from memory_semantic.points import StoreInfo
from memory_semantic.settings import StorageConfig

from .place import RESTORE, ServerPlace

_LOOPBACK = ("localhost", "127.0.0.1", "::1")


async def findings(
    place: Place, config: StorageConfig, progress: ShowProgress
) -> AsyncIterator[Finding]:
    """The way to the server, its version, and the collection."""
    assert isinstance(place, ServerPlace)
    url = urlsplit(place.address)
    if url.scheme == "http" and url.hostname not in _LOOPBACK:
        text = f"all texts and any API key go to {place.address} unencrypted"
        yield Finding("warning", "server", text, "Use https.")
    try:
        version = await place.on_server(
            lambda collection: collection.ask(lambda client: client.info()).version
        )
        yield Finding("ok", "server", f"{place.address} answers: Qdrant {version}")
        info = await place.info()
        if info is None:
            none = f"{place.agent!r} has no store at {place.address}."
            yield Finding("ok", "store", none, NO_STORE)
            return
        yield about_info(info, place.config.collection(place.agent))
        with progress("Comparing", info.memories) as bar:
            problems, number = await place.run(
                lambda store: (examine(store, progress=bar.done), store.count())
            ) or ([], 0)
    except StorageError as error:
        yield store_problem(error)
        return
    for finding in about_memories(problems, number, "hashes and vectors", RESTORE):
        yield finding
    for finding in about_words(config, info):
        yield finding


def no_reembed(place: Place, info: StoreInfo) -> StorageError:
    """The error for a reembed to the model of `info`: how an export and an import do it."""
    assert isinstance(place, ServerPlace)
    name = place.config.collection(place.agent)
    return StorageError(
        "A store on a server cannot be given another model in place. Set embedding_model to "
        f"{info.model.model!r} on every machine, so that nobody stores meanwhile. Then "
        f"`agent-memory export memories.jsonl --agent {place.agent}`, remove the collection "
        f"{name!r} from the server (or set another qdrant_prefix), and "
        f"`agent-memory import memories.jsonl --agent {place.agent}`.",
        UNCHANGED,
    )
