"""An agent's memories: stored, searched, read and deleted."""

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, TypeVar
from uuid import UUID

from . import check, links, usage
from .check import Item, NewMemory, Tags
from .embeddings.choice import choose, lexical_weight, new_info, prepare, vectors_of
from .embeddings.generator import EmbeddingGenerator
from .errors import UNCHANGED, InputError, ReplacedStoreError, StorageError
from .files.folder import AgentFolder
from .files.place import FilePlace
from .identity import validate_agent_id
from .limits import ALL, DEFAULT_RESULTS, HERE, LEAST_FIT, LEXICAL_WEIGHT, LOCAL_MODEL
from .memory import Memory
from .merging import Stored, merge
from .place import Place
from .points import Condition, StoreInfo
from .ranking import unreadable
from .remembered import Speaker, new_memory_id, timestamp_text, utc_now
from .settings import StorageConfig, core_settings, parsed
from .store import Store, between
from .times import named
from .usage import Search
from .workers import run_blocking

T = TypeVar("T")

# Texts are embedded before the store is opened. If its model has changed by then, they are embedded
# again; in practice, the model does not keep changing within one call.
_TRIES = 3


class MemoryStorage:
    """The memories of one agent.

    `config` may hold the settings of `StorageConfig` and `ServerConfig`, and no others.
    `embeddings` replaces the model that they name, `clock` the system's clock, `place` where
    the store is. The constructor creates and contacts nothing. Safe to use from many tasks, threads
    and processes.

    Raises InputError for invalid arguments, EmbeddingError and StorageError for other failures.
    """

    def __init__(
        self,
        agent_id: str,
        config: Mapping[str, Any] | None = None,
        *,
        embeddings: EmbeddingGenerator | None = None,
        clock: Callable[[], datetime] = utc_now,
        place: Place | None = None,
    ) -> None:
        self.agent_id = validate_agent_id(agent_id)
        settings = core_settings(config)
        self.config = parsed(settings, StorageConfig)
        self._embeddings = embeddings
        self._clock = clock
        self.folder = AgentFolder(Path(self.config.storage_root), self.agent_id)
        self.place = place or self._named_place(settings)
        if self.place.agent != self.agent_id:
            raise InputError(f"This is the store of {self.place.agent!r}, not {agent_id!r}.")

    def _named_place(self, settings: Mapping[str, Any]) -> Place:
        if self.config.qdrant_url == HERE:
            return FilePlace(self.folder, self.config.lock_timeout)
        from memory_server.place import ServerPlace

        return ServerPlace(self.agent_id, self.config.qdrant_url, settings)

    async def store(
        self, content: str, tags: Tags = None, metadata: Mapping[str, str] | None = None
    ) -> str:
        """Remember `content` (1 to 10,000 characters) and return the memory's id.

        A text that is already known stays one memory: its tags are merged, and the later time with
        its `metadata` (at most 10 short texts about it) is kept. It is on disk on return.
        """
        return (await self.upsert([(content, tags, metadata)]))[0].id

    async def store_many(self, items: Iterable[Item]) -> list[str]:
        """Remember up to 1,000 texts in one write; returns their ids, in order."""
        return [stored.id for stored in await self.upsert(items)]

    async def upsert(
        self,
        items: Iterable[Item],
        replaces: str | None = None,
        *,
        said_by: Speaker | None = None,
        quote: str | None = None,
        pin: bool = False,
        expires: datetime | str | None = None,
        alike: bool = False,
    ) -> list[Stored]:
        """Like `store_many`, but returns what became of each text. With `replaces`, the id of a
        memory, the only one of the `items` replaces that one, or what has replaced it since, and is
        pinned if that was. All hold until `expires`. `said_by` says who said them; None is a
        command of the user's. If the user said them in other words, `quote` is these; it is kept of
        no one else. Only what the user said is pinned by `pin`, and replaces or ends what the user
        said or pinned. With `alike`, the result says which memories are alike (see `Store.alike`).
        """
        now = self._clock()

        def clean() -> tuple[list[NewMemory], tuple[str, int]]:
            new = check.clean_items(items, self.agent_id, self.masked)
            return new, check.clean_quote(quote, self.masked)

        memories, (words, masked) = await run_blocking(clean)  # masking takes a while
        until = check.clean_expiry(expires, now)
        for memory in memories:
            memory.timestamp, memory.expires, memory.said_by = now, until, said_by
            memory.quote, memory.masked = words if said_by == "user" else "", memory.masked + masked
            memory.pinned = pin and memory.by_user
        old_id = None if replaces is None else check.clean_id(replaces)
        if old_id and len(memories) != 1:
            raise InputError("Only a single text can replace a memory.")
        if old_id and await self.info() is None:  # so that no store is made
            raise links.not_there(old_id)

        def work(store: Store) -> list[Stored]:
            if old_id:
                stored = [links.replace(store, old_id, memories[0], now)]
            else:
                stored = links.say(store, memories, now)
            with suppress(StorageError):  # what is stored stays stored, whatever is like it
                near = [store.alike(each, now) if alike else [] for each in memories]
                stored = [replace(s, alike=found) for s, found in zip(stored, near, strict=True)]
            return stored

        return await self._put(memories, frozenset(), work)

    async def restore(self, memories: Iterable[Memory]) -> list[Stored]:
        """Store up to 1,000 memories with their own ids and times, as an import does.

        A known text is merged, and keeps its id and its vector. A memory whose id already belongs
        to another text gets a new one. A memory created without a `timestamp` takes the time that
        the store has for its text.
        """
        clean = partial(check.clean_memories, memories, self.agent_id, self.masked)
        restored = await run_blocking(clean)
        owners, known = await self.run(lambda store: _known(restored, store), ({}, {}))
        _adapt(restored, owners, known)
        return await self._put(restored, known.keys(), lambda store: store.put(restored, merge))

    def memory_from(
        self, fields: object, tags: Tags = None, *, newer: bool = False
    ) -> tuple[Memory, int]:
        """A memory to `restore` from the fields of an export, and how many credentials were masked.
        Only `content` is required; foreign ids and metadata are left out, `tags` are added. Fields
        that are not known are kept if a `newer` version may have written them.
        """
        return check.memory_from(fields, self.agent_id, tags, self.masked, newer)

    def masked(self, value: T) -> tuple[T, int]:
        """`value` with credentials masked, and how many; unchanged if `mask_secrets` is off."""
        from .masking import mask_all  # its many patterns take a while to compile

        return mask_all(value) if self.config.mask_secrets else (value, 0)

    async def search(
        self,
        query: str,
        limit: int = DEFAULT_RESULTS,
        since: datetime | str | None = None,
        tags: Sequence[str] | None = None,
        *,
        until: datetime | str | None = None,
        prompt: bool = False,
        select: Callable[[list[Memory]], list[Memory]] = list,
    ) -> list[Memory]:
        """The memories closest in meaning to `query`, best first, whole, each with its `score`.

        At most `limit` of them, and never more than `max_query_results`; only those stored from
        `since` to `until`, inclusive; with `tags`, only those with any of them; of these, what
        `select` keeps. Those of a time that `query` names are boosted, and with the setting
        `usage` it is recorded; but not if it is a `prompt`, which nobody meant as a search.
        """
        asked = self._clock()
        query = check.clean_text(query, "query")
        limit = check.clean_limit(limit, self.config.max_query_results)
        where = _where(since, until, tags)
        span = named(query, asked) if not prompt else None

        async def attempt(info: StoreInfo | None) -> list[Memory]:
            if info is None:
                return await self.run(lambda _: [], [])  # this detects a lost manifest
            weight = lexical_weight(self.config, info.model.model)
            known = info.words and (info.model.model, weight) == (LOCAL_MODEL, LEXICAL_WEIGHT)
            known = known and not unreadable(query)
            run = partial(self._run_at, info)
            ask = await prepare(query, self.generator(info), info, weight, run)

            def answer(store: Store) -> list[Memory]:
                found = store.search(ask(store), where, limit, self._clock(), span)
                for memory in found if known else ():
                    memory.fit = memory.similarity
                found = select(found)
                if prompt:
                    return found
                store.find_newer(found)
                if self.config.usage:
                    usage.record(self.folder, (m.id for m in found), asked, self._clock())
                return found

            return await run(answer)

        return await self._with_info(attempt)

    @staticmethod
    def fitting(found: list[Memory]) -> list[Memory]:
        """What `search` may `select`: memories that have something to do with the question."""
        return [memory for memory in found if memory.fit >= LEAST_FIT]

    async def get(self, memory_id: str) -> Memory | None:
        """The memory with this id, or None. Here and wherever an id is taken, its beginning is
        enough, of at least four digits; raises InputError if several ids begin so.
        """
        return next(iter(await self.with_ids([memory_id])), None)

    async def with_ids(self, ids: Iterable[str]) -> list[Memory]:
        """The memories with these ids, newest first; two may share one, though hardly ever."""
        asked = check.clean_ids(ids)
        return await self.run(lambda store: store.with_ids(asked), [])

    async def get_recent(
        self,
        limit: int | None = DEFAULT_RESULTS,
        since: datetime | str | None = None,
        until: datetime | str | None = None,
        tags: Sequence[str] | None = None,
        *,
        holding: bool = False,
        replaced: bool = False,
        expired: bool = False,
        pinned: bool = False,
        project_id: str | None = None,
    ) -> list[Memory]:
        """The `limit` most recently stored memories, newest first; all of them if it is None.

        Only those stored from `since` to `until`, inclusive; `tags` as in `search`; only those that
        are `holding`, neither replaced nor expired; only those that another memory has `replaced`,
        that have `expired`, that are `pinned`, that are of the project with this `project_id`.
        """
        limit = ALL if limit is None else check.clean_limit(limit, None)
        now = self._clock()
        where = _where(since, until, tags)
        if replaced:
            where.append(("replaced_by", "set", None))
        if expired:
            where.append(("expires", "to", timestamp_text(now)))
        if pinned:
            where.append(("pinned", "set", None))
        if project_id:
            where.append(("metadata.project_id", "any", [project_id]))
        held = now if holding else None
        return await self.run(lambda store: store.newest(limit, where, held), [])

    async def replaced(self, memories: Sequence[Memory]) -> list[Memory]:
        """What these memories replaced, newest first."""
        return await self.run(lambda store: links.replaced(store, memories), [])

    async def replacing(self, memory: Memory) -> Memory | None:
        """What holds in place of this memory, if it is replaced."""
        latest = await self.run(lambda store: store.current(memory), memory)
        return None if latest is memory else latest

    async def pin(self, ids: Iterable[str], pinned: bool = True) -> list[Memory]:
        """Pin the memories with these ids as rules that the user gave, or no longer; returns them
        as they were.
        """
        asked = check.clean_ids(ids)

        def work(store: Store) -> list[Memory]:
            found = store.with_ids(asked)
            links.pin(store, [memory for memory in found if memory.pinned != pinned], pinned)
            return found

        return await self.run(work, [])

    async def unreplace(self, memory_id: str) -> Memory | None:
        """Let a memory that was replaced hold again, beside what replaced it. Returns it; None if
        none has this id.
        """
        asked = check.clean_id(memory_id)

        def work(store: Store) -> Memory | None:
            found = store.with_ids([asked])
            links.link(store, [memory for memory in found if memory.replaced_by], None)
            return found[0] if found else None

        return await self.run(work, None)

    async def delete(self, ids: Iterable[str]) -> int:
        """Delete the memories with these ids, from the files, too; returns how many there were.
        What they replaced holds again.
        """
        doomed = check.clean_ids(ids)

        def work(store: Store) -> int:
            memories = store.with_ids(doomed)
            if memories:
                store.forget(memories, links.relinked(store, memories))
            return len(memories)

        return await self.run(work, 0)

    async def count(self) -> int:
        """How many memories there are."""
        return await self.run(lambda store: store.count(), 0)

    async def record_prompt(self, ids: Iterable[str], asked: datetime) -> None:
        """With the setting `usage`, record what recall has shown before a prompt: the ids of these
        memories, none if it was silent, and when it was `asked`. A failure is only logged.
        """
        if self.config.usage:
            work = partial(usage.record, self.folder, ids, asked, self._clock(), prompt=True)
            await run_blocking(work)

    def searches(self) -> list[Search]:
        """The searches and prompts that were recorded with the setting `usage`, oldest first."""
        return usage.searches(self.folder)

    async def check(self) -> list[str]:
        """Examine everything in the store; returns a sentence for each fault."""
        from .upkeep import faults

        return await faults(self.place)

    async def close(self) -> None:
        """Close what a burst of calls may have left open; the next call opens it again."""
        await self.place.close()

    async def info(self) -> StoreInfo | None:
        """What the store is, if there is one."""
        found = await self.place.info()
        if found is None:
            self.folder.require_none_elsewhere(self.place.url)
        return found

    async def run(self, work: Callable[[Store], T], without_store: T) -> T:
        """Run `work` on the open store, off the event loop; returns `without_store` without one."""
        done = await self.place.run(lambda store: (work(store),))
        if done is None:
            self.folder.require_none_elsewhere(self.place.url)
        return done[0] if done else without_store

    def generator(self, info: StoreInfo | None) -> EmbeddingGenerator:
        """The model for the store that `info` describes, or for a new store if it is None."""
        return choose(self.agent_id, self.config, info, self._embeddings)

    async def _put(
        self,
        memories: Sequence[NewMemory],
        known: Collection[UUID],
        work: Callable[[Store], list[Stored]],
    ) -> list[Stored]:
        texts = list({memory.content: None for memory in memories if memory.key not in known})

        async def attempt(info: StoreInfo | None) -> list[Stored]:
            generator = self.generator(info)
            vectors = dict(zip(texts, await vectors_of(texts, generator, info), strict=True))
            for memory in memories:
                memory.embedding = vectors.get(memory.content, [])
            if info:
                stored = await self._run_at(info, work)
            else:
                created = new_info(self.agent_id, self.config, generator, self._clock())
                stored = await self.place.run(work, create=created) or []
            return [
                replace(each, masked=memory.masked, new_store=info is None)
                for memory, each in zip(memories, stored, strict=True)
            ]

        return await self._with_info(attempt) if memories else []

    async def _run_at(self, info: StoreInfo, work: Callable[[Store], T]) -> T:
        done = await self.place.run(work, expect=info)
        if done is None:
            raise StorageError("The store was deleted while this call was running.", UNCHANGED)
        return done

    async def _with_info(self, attempt: Callable[[StoreInfo | None], Awaitable[T]]) -> T:
        for _ in range(_TRIES):
            with suppress(ReplacedStoreError):
                return await attempt(await self.info())
        raise StorageError("The store's embedding model keeps changing.", UNCHANGED)


def _where(first: object, last: object, tags: object) -> list[Condition]:
    start, end = check.clean_time(first, "since"), check.clean_time(last, "until", end=True)
    names = check.clean_tags(tags)
    tagged: list[Condition] = [("tags", "any", names)] if names else []
    return tagged + between(start, end)


def _known(memories: Sequence[Memory], store: Store) -> tuple[dict[str, UUID], dict[UUID, Memory]]:
    """The keys of the texts in `store` that have the ids of these memories, and those of its
    memories that have their texts.
    """
    owners = {memory.id: memory.key for memory in store.with_ids([each.id for each in memories])}
    return owners, store.get(memory.key for memory in memories)


def _adapt(
    memories: Sequence[NewMemory], owners: dict[str, UUID], known: Mapping[UUID, Memory]
) -> None:
    """Give memories that are restored the times of `known` texts if they have none, and new ids
    where theirs belong to other texts, by `owners` or among them.
    """
    for memory in memories:
        if owners.setdefault(memory.id, memory.key) != memory.key:
            memory.id = new_memory_id()
        if not memory.dated and memory.key in known:
            memory.timestamp = known[memory.key].timestamp
