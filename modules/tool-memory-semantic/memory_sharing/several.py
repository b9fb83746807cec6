"""A search in the stores of several agents."""

import asyncio
from collections.abc import Awaitable, Mapping, Sequence
from typing import Any, TypeVar

from memory_semantic import AgentMemoryError, Memory, MemoryStorage, StoreInfo
from memory_semantic.check import clean_limit
from memory_semantic.limits import DEFAULT_RESULTS

T = TypeVar("T")


class SeveralStores(MemoryStorage):
    """The storage of an agent for one search, which also asks the stores of `others`.

    `found` is the result; the `agent_id` of each memory says whose store it is in. `not_searched`
    says, by agent, why a store was left out. No memory is written, no store is created, and only
    one's own log records the search.
    """

    def __init__(self, agent_id: str, config: Mapping[str, Any], others: Sequence[str]) -> None:
        super().__init__(agent_id, config)
        self.found: list[Memory] = []
        self.not_searched: dict[str, str] = {}
        reads = {**config, "usage": False}  # a log of searches is its own agent's
        self._others = [MemoryStorage(name, reads) for name in others if name != agent_id]

    async def search(
        self, query: str, limit: int = DEFAULT_RESULTS, *args: Any, **options: Any
    ) -> list[Memory]:
        """Like `MemoryStorage.search`, in all stores that have the same embedding model. Of a text
        found in several, the result has one's own, else that of the agent named first.
        """
        others = await self._comparable()
        own, *theirs = await asyncio.gather(
            super().search(query, limit, *args, **options),
            *(self._tried(each, each.search(query, limit, *args, **options)) for each in others),
            return_exceptions=True,  # if one's own fails, the others still end first
        )
        best: dict[str, Memory] = {}
        for memories in (own, *theirs):
            if isinstance(memories, BaseException):
                raise memories
            for memory in memories or ():
                best.setdefault(memory.content, memory)
        ranked = sorted(best.values(), key=lambda m: (m.score or 0, m.timestamp), reverse=True)
        self.found = ranked[: clean_limit(limit, self.config.max_query_results)]
        return self.found

    async def get(self, memory_id: str) -> Memory | None:
        """Like `MemoryStorage.get`: one's own memory, else that of the agent named first."""
        memory = await super().get(memory_id)
        for other in self._others:
            if memory is None and await self._info(other):
                memory = await self._tried(other, other.get(memory_id))
        self.found = [memory] if memory else []
        return memory

    async def replacing(self, memory: Memory) -> Memory | None:
        """Like `MemoryStorage.replacing`, in the store that the memory is in."""
        owner = next((each for each in self._others if each.agent_id == memory.agent_id), super())
        latest = await owner.replacing(memory)
        self.found += [latest] if latest else []
        return latest

    async def _comparable(self) -> list[MemoryStorage]:
        """The other stores whose scores can be compared with one's own, or else with the first."""
        own, *theirs = await asyncio.gather(self.info(), *map(self._info, self._others))
        comparable = []
        for other, info in zip(self._others, theirs, strict=True):
            own = own or info
            if info is None or own is None:
                continue
            if info.model != own.model:
                self.not_searched[other.agent_id] = "another embedding model"
            elif info.words != own.words:
                self.not_searched[other.agent_id] = "one of the two stores lacks the words"
            else:
                comparable.append(other)
        return comparable

    async def _info(self, other: MemoryStorage) -> StoreInfo | None:
        info = await self._tried(other, other.info())
        if info is None:
            await self._tried(other, other.count())  # which finds a lost manifest
            self.not_searched.setdefault(other.agent_id, "no store")
        return info

    async def _tried(self, other: MemoryStorage, work: Awaitable[T]) -> T | None:
        try:
            return await work
        except AgentMemoryError as error:
            self.not_searched[other.agent_id] = str(error)
        except Exception as error:  # its text may quote a memory: only its kind is given
            self.not_searched[other.agent_id] = f"failed unexpectedly ({type(error).__name__})"
        return None
