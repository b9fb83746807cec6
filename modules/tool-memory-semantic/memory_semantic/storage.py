"""An agent's memories: stored, searched, read and deleted."""

import logging
import os
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from contextlib import AbstractContextManager, suppress
from datetime import datetime
from pathlib import Path
from threading import Event
from typing import Any, Protocol, TypeVar
from uuid import UUID

from .check import check
from .collection import Collection, Where
from .config import StorageConfig, core_settings
from .embeddings import EmbeddingGenerator
from .errors import UNCHANGED, InputError, ReplacedStoreError, StorageError
from .folder import AgentFolder
from .identity import validate_agent_id
from .manifest import Embedding, Manifest
from .models import (
    DEFAULT_MODEL,
    DEFAULT_RESULTS,
    HERE,
    LEXICAL_WEIGHT,
    LOCAL_MODEL,
    MAX_BATCH,
    Entry,
    Memory,
    clean_id,
    clean_items,
    clean_limit,
    clean_memory,
    clean_since,
    clean_tags,
    clean_text,
    point_id,
    utc_now,
)
from .open_store import OpenStore, Stored
from .ranking import words
from .workers import run_blocking

logger = logging.getLogger(__name__)

T = TypeVar("T")
# A text to remember, alone or with its tags, and with what is told of it.
Tags = Sequence[str] | None
Item = str | tuple[str, Tags] | tuple[str, Tags, Mapping[str, str] | None]

# Texts are embedded before the lock is taken. If the store has another model by then, it is done
# again; a model that changes over and over within one call is not met in life.
_PLANS = 3
_DELETED = "The store was deleted while this call was running."


class Place(Protocol):
    """Where the store of an agent is kept: the folder of this machine, or a server."""

    def peek(self, cancelled: Event) -> Manifest | None:
        """What the store is, if there is one; a moment later it may be another."""
        ...

    def open(
        self, cancelled: Event, create: Manifest | None = None
    ) -> AbstractContextManager[OpenStore[Collection] | None]:
        """The store for one operation, made as `create` says if there is none; else None. Once
        `cancelled` is set, what only waits gives up.
        """
        ...


class MemoryStorage:
    """The memories of one agent.

    `config` holds settings of `StorageConfig` and `ServerConfig`, and no others. `embeddings` takes
    the place of the model that they name, `clock` that of the time. Making one creates and contacts
    nothing. Safe from many tasks, threads and processes; nothing stays open between calls.

    Bad input is an InputError; EmbeddingError and StorageError say what else went wrong.
    """

    def __init__(
        self,
        agent_id: str,
        config: Mapping[str, Any] | None = None,
        *,
        embeddings: EmbeddingGenerator | None = None,
        clock: Callable[[], datetime] = utc_now,
    ) -> None:
        self.agent_id = validate_agent_id(agent_id)
        settings = core_settings(config)
        self.config = StorageConfig.parse(settings)
        self._embeddings = embeddings
        self._clock = clock
        root = Path(self.config.storage_root)
        self.folder = AgentFolder(root, self.agent_id, self.config.lock_timeout)
        self.place: Place = self.folder
        if self.config.qdrant_url != HERE:
            from memory_server import Server

            self.place = Server(self.agent_id, self.config.qdrant_url, settings)

    async def store(
        self, content: str, tags: Tags = None, metadata: Mapping[str, str] | None = None
    ) -> str:
        """Remember `content` (1 to 10,000 characters) and return the memory's id.

        A text that is known already stays one memory: the tags are merged, the time is renewed, and
        `metadata`, at most 10 short texts about it, takes the place of what was told before. The
        memory is on disk when this returns.
        """
        return (await self.upsert([(content, tags, metadata)]))[0].id

    async def store_many(self, items: Iterable[Item]) -> list[str]:
        """Remember up to 1,000 texts, each alone or with its tags, in one write; ids in order."""
        return [stored.id for stored in await self.upsert(items)]

    async def upsert(self, items: Iterable[Item]) -> list[Stored]:
        """As `store_many`, but telling of each text what became of it."""
        return await self.put(clean_items(items))

    async def restore(self, memories: Iterable[Memory]) -> list[Stored]:
        """Store up to 1,000 memories with their own ids and times, as an import does.

        A text that is known keeps its id and its vector; tags are merged, the later time stands.
        An id that another text has by now is drawn anew.
        """
        entries = [clean_memory(memory) for memory in memories]

        def known(store: OpenStore[Collection]) -> set[UUID]:
            keys = store.keys(entries)
            there = store.known(keys)
            pairs = zip(entries, keys, strict=True)
            return {point_id(entry.text) for entry, key in pairs if key in there}

        return await self.put(entries, await self.operate(known, set()))

    async def search(
        self,
        query: str,
        limit: int = DEFAULT_RESULTS,
        since: datetime | str | None = None,
        tags: Sequence[str] | None = None,
    ) -> list[Memory]:
        """The memories closest in meaning to `query`, best first, whole, each with its `score`.

        At most `limit` of them (above `max_query_results` counts as that); only those stored at or
        after `since`; with `tags` only those that carry any of them.
        """
        query = clean_text(query, "query")
        limit = clean_limit(limit, self.config.max_query_results)
        where = Where(since=clean_since(since), tags=tuple(clean_tags(tags)))

        def work(store: OpenStore[Collection], vectors: list[list[float]]) -> list[Memory]:
            weight = self.lexical_weight(store.manifest.embedding.model)
            return store.search(vectors[0], limit, where, self._clock(), words(query), weight)

        return await self._embedded([query], work, [])

    async def get(self, memory_id: str) -> Memory | None:
        """The memory with this id, or None."""
        memory_id = clean_id(memory_id)
        return await self.operate(lambda store: store.with_id(memory_id), None)

    async def get_recent(
        self,
        limit: int = DEFAULT_RESULTS,
        since: datetime | str | None = None,
        until: datetime | str | None = None,
        tags: Sequence[str] | None = None,
    ) -> list[Memory]:
        """The `limit` memories stored last, newest first; any number from 1.

        Only those stored from `since` to `until`, both included; with `tags` only those that carry
        any of them.
        """
        if isinstance(limit, bool) or not isinstance(limit, int) or limit < 1:
            raise InputError("limit must be a whole number, 1 or more.")
        where = Where(clean_since(since), clean_since(until), tuple(clean_tags(tags)))
        return await self.operate(lambda store: store.newest(limit, where), [])

    async def delete(self, ids: Iterable[str]) -> int:
        """Erase the memories with these ids, from the disk too; returns how many there were."""
        if isinstance(ids, str) or not isinstance(ids, Iterable):
            raise InputError("Give a list of ids.")
        doomed = [clean_id(each) for each in ids]
        return await self.operate(lambda store: store.erase(doomed), 0) if doomed else 0

    async def count(self) -> int:
        """How many memories there are."""
        return await self.operate(lambda store: store.collection.count(), 0)

    async def check(self) -> list[str]:
        """What is wrong with the store, a sentence each, after comparing everything in it."""
        return await self.operate(check, [])

    async def manifest(self) -> Manifest | None:
        """What the store is, if there is one; its number of memories is a lower bound."""
        found = await run_blocking(lambda cancelled: self.place.peek(cancelled))
        if found is None:
            self._require_none_left()
        return found

    # How an operation gets at the store: off the event loop, the lock held, nothing kept.

    async def operate(self, work: Callable[[OpenStore[Collection]], T], without_store: T) -> T:
        """`work` on the open store, in a thread; `without_store` if there is none; none is made."""

        def run(cancelled: Event) -> T:
            with self.place.open(cancelled) as store:
                if store:
                    return work(store)
            self._require_none_left()
            return without_store

        for _ in range(_PLANS):
            with suppress(ReplacedStoreError):
                return await run_blocking(run)
        raise StorageError(f"The store keeps being made anew. {UNCHANGED}")

    async def put(self, entries: Sequence[Entry], known: Set[UUID] = frozenset()) -> list[Stored]:
        """Store up to 1,000 entries as they are, those whose texts are `known` without embedding
        them again.
        """
        if len(entries) > MAX_BATCH:
            raise InputError(
                f"{len(entries):,} memories at once are too many; {MAX_BATCH:,} may be."
            )
        texts = {point_id(entry.text): entry.text for entry in entries}
        fresh = [key for key in texts if key not in known]

        def work(store: OpenStore[Collection], vectors: list[list[float]]) -> list[Stored]:
            by_key = dict(zip(fresh, vectors, strict=True))
            return store.upsert(entries, by_key, self._clock())

        if fresh:
            return await self._embedded([texts[key] for key in fresh], work)
        if not entries:
            return []
        done = await self.operate(lambda store: work(store, []), None)
        if done is None:
            raise StorageError(f"{_DELETED} {UNCHANGED}")
        return done

    async def _embedded(
        self,
        texts: list[str],
        work: Callable[[OpenStore[Collection], list[list[float]]], T],
        without_store: T | None = None,
    ) -> T:
        """`work` on the open store, with the vectors of `texts` by the model of that very store.

        Without a store the answer is `without_store`; if that is None, one is made.
        """
        for _ in range(_PLANS):
            planned = await self.manifest()
            if planned is None and without_store is not None:
                return await self.operate(lambda store: without_store, without_store)
            generator = self.generator(planned)
            vectors = await generator.generate_batch(texts)
            made = Embedding(generator.model, generator.version, len(vectors[0]))
            if planned is None:
                new = self.new_manifest(made, generator.endpoint)
            elif planned.embedding == made:
                new = None
            else:
                raise self._conflict(planned.embedding, made)

            def run(cancelled: Event, vectors=vectors, made=made, new=new) -> T | None:
                with self.place.open(cancelled, new) as store:
                    if store is None:
                        raise StorageError(_DELETED)
                    return work(store, vectors) if store.manifest.embedding == made else None

            try:
                result = await run_blocking(run)
            except ReplacedStoreError:
                continue
            if result is not None:
                return result
        raise StorageError(f"The store's embedding model keeps changing. {UNCHANGED}")

    def new_manifest(
        self, made: Embedding, endpoint: str | None, present: Manifest | None = None
    ) -> Manifest:
        """What a new store for these embeddings, from the service at `endpoint`, would be; it may
        take the place of the `present` one, which keeps its words and its service with its model.
        """
        kept = present if present and present.embedding == made else None
        return Manifest(
            agent=self.agent_id,
            embedding=made,
            endpoint=kept.endpoint if kept else endpoint,
            created=self._clock(),
            words=bool(kept and kept.words) or self.lexical_weight(made.model) > 0,
        )

    def generator(self, manifest: Manifest | None) -> EmbeddingGenerator:
        """The model to use: an existing store keeps its own, a new one gets the configured one, or
        the best that works without setting up. Raises StorageError if another was asked for.
        """
        config = self.config
        made = manifest.embedding if manifest else None
        generator = self._embeddings or EmbeddingGenerator(
            config.embedding_model or (made.model if made else self._default_model()),
            base_url=config.base_url,
            dimensions=config.dimensions or (made.unusual_dimensions() if made else None),
        )
        if manifest and made:
            dimensions = generator.dimensions or made.dimensions
            asked = Embedding(generator.model, generator.version, dimensions)
            if asked != made:
                raise self._conflict(made, asked)
            if manifest.endpoint and not generator.endpoint:
                raise StorageError(
                    f"The memory of {self.agent_id!r} was embedded by the service at "
                    f"{manifest.endpoint}, but no base_url is set now. {UNCHANGED} Set it."
                )
        return generator

    def lexical_weight(self, model: str) -> float:
        """How much shared words count beside the meaning, with this embedding model. A store that
        was made without words is ranked by meaning alone.
        """
        if self.config.lexical_weight is not None:
            return self.config.lexical_weight
        return LEXICAL_WEIGHT if model == LOCAL_MODEL else 0.0

    def _default_model(self) -> str:
        """OpenAI's model where there is a key for it, or a service of the user's own; else the
        built-in one, which needs neither.
        """
        if self.config.base_url or os.environ.get("OPENAI_API_KEY", "").strip():
            return DEFAULT_MODEL
        logger.info(
            "No embedding_model is configured and OPENAI_API_KEY is not set: the new memory of %r "
            "is made with the built-in model, and keeps it.",
            self.agent_id,
        )
        return LOCAL_MODEL

    def _require_none_left(self) -> None:
        """Where a memory may be elsewhere, nothing is begun anew, and nobody is told that there is
        nothing: here, though a server is to be used; on a server, though nothing of ours names it.
        """
        if self.config.doubt:
            raise StorageError(
                f"{self.agent_id!r} has no memory on this machine. {UNCHANGED} {self.config.doubt}"
            )
        if self.place is not self.folder and self.folder.holds_memories:
            raise StorageError(
                f"qdrant_url names a server that has no memory of {self.agent_id!r}, but there is "
                f"one on this machine. {UNCHANGED} Move it: agent-memory move --to "
                f"{self.config.qdrant_url} (or go on here: set qdrant_url to {HERE!r})."
            )

    def _conflict(self, made: Embedding, asked: Embedding) -> StorageError:
        return StorageError(
            f"The memory of {self.agent_id!r} was made with the embedding model {made}, "
            f"but {asked} is configured now. {UNCHANGED} Set embedding_model (and "
            "dimensions) back, or give the memory the other model: agent-memory reembed --model "
            f"{asked.model}"
        )
