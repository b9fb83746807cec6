# pyright: reportMissingImports=false
"""The stores that are compared: each does the same few things, as its documentation says.

A store's packages are imported when it is opened, in an environment that has no others.
"""

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import workload
from workload import Item

MODEL = "text-embedding-3-small"  # of the service of the benchmark, where a store asks one
NAME = "bench"


class Store:
    """One store in one folder. Each peer overrides what it can do."""

    can_forget = True

    def __init__(self, variant: str) -> None:
        self._variant = variant

    def open(self, folder: Path) -> None:
        """Open the store in this folder, which exists; make a store if it is empty."""
        raise NotImplementedError

    def add(self, items: Sequence[Item]) -> None:
        """Store new memories: they are as durable as this store makes them when it returns."""
        raise NotImplementedError

    def search(self, question: Item, limit: int) -> list[str]:
        """The texts of the nearest memories, best first."""
        raise NotImplementedError

    def find(self, number: int) -> Any:
        """How `forget` is told of the memory of this number; not timed."""
        return number

    def forget(self, found: Any) -> None:
        """Take a memory out: no search finds it when this returns."""
        raise NotImplementedError

    def texts(self) -> list[str]:
        """The texts of all memories."""
        raise NotImplementedError

    def close(self) -> None:
        """Let go of the store."""


class AgentMemory(Store):
    """This project: its public class `MemoryStorage`. The variants: `vectors`, which cost next to
    nothing; `endpoint`, by an embeddings service; `local`, the built-in model; `server`, vectors
    given, on a real Qdrant server.

    Durable: a memory is on disk, fsync included, when the call returns. A call opens the store
    under a lock between processes; calls that come together share one opening. What is forgotten
    is in no file when the call returns (on a server it is up to that).
    """

    def open(self, folder: Path) -> None:
        from asyncio import Runner

        from memory_semantic import EmbeddingGenerator, MemoryStorage

        class Vectors(EmbeddingGenerator):
            async def _embed(self, texts: list[str]) -> list[list[float]]:
                return [workload.vector(text).tolist() for text in texts]

        config: dict[str, Any] = {"storage_root": str(folder)}
        if self._variant == "local":
            config["embedding_model"] = "local"
        elif self._variant == "endpoint":
            config |= {"embedding_model": MODEL, "base_url": os.environ["BENCHMARK_ENDPOINT"]}
        elif self._variant == "server":
            config["qdrant_url"] = os.environ["BENCHMARK_QDRANT"]
        given = self._variant in ("vectors", "server")
        generator = Vectors(dimensions=workload.DIMENSIONS) if given else None
        self._agent, self._runner = folder.name, Runner()
        self._storage = MemoryStorage(self._agent, config, embeddings=generator)

    def add(self, items: Sequence[Item]) -> None:
        from memory_semantic import Memory

        if len(items) == 1:  # as the tool does
            self._runner.run(self._storage.store(items[0].text))
            return
        memories = [
            Memory(
                id=f"mem-{workload.number_of(item.text):012x}",
                agent_id=self._agent,
                content=item.text,
                timestamp=item.timestamp,
            )
            for item in items
        ]
        self._runner.run(self._storage.restore(memories))

    def search(self, question: Item, limit: int) -> list[str]:
        found = self._runner.run(self._storage.search(question.text, limit))
        return [memory.content for memory in found]

    def forget(self, found: int) -> None:
        self._runner.run(self._storage.delete([f"mem-{found:012x}"]))

    def texts(self) -> list[str]:
        return [memory.content for memory in self._runner.run(self._storage.get_recent(None))]

    def close(self) -> None:
        self._runner.close()


class SqliteVec(Store):
    """sqlite-vec: an extension of SQLite with exact search, through apsw, whose SQLite can load it.

    Durable: with synchronous=FULL a commit returns after the one fsync of the write-ahead log.
    """

    def open(self, folder: Path) -> None:
        import apsw
        import sqlite_vec

        self._database = apsw.Connection(str(folder / "memories.db"))
        self._database.set_busy_timeout(10_000)
        self._database.enable_load_extension(True)
        self._database.load_extension(sqlite_vec.loadable_path())
        self._database.execute("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL")
        self._database.execute(
            "CREATE VIRTUAL TABLE IF NOT EXISTS memories USING vec0("
            f"vector float[{workload.DIMENSIONS}] distance_metric=cosine, time float, +text text)"
        )

    def add(self, items: Sequence[Item]) -> None:
        rows = [(item.vector.tobytes(), item.timestamp.timestamp(), item.text) for item in items]
        with self._database:
            self._database.executemany(
                "INSERT INTO memories(vector, time, text) VALUES (?, ?, ?)", rows
            )

    def search(self, question: Item, limit: int) -> list[str]:
        query = "SELECT text FROM memories WHERE vector MATCH ? AND k = ? ORDER BY distance"
        values = question.vector.tobytes(), limit
        return [text for (text,) in self._database.execute(query, values)]

    def forget(self, found: int) -> None:
        with self._database:  # rows are numbered from 1, in the order of the filling
            self._database.execute("DELETE FROM memories WHERE rowid = ?", (found + 1,))

    def texts(self) -> list[str]:
        return [text for (text,) in self._database.execute("SELECT text FROM memories")]

    def close(self) -> None:
        self._database.close()


class Chroma(Store):
    """Chroma's `PersistentClient`: SQLite for the texts, an approximate index (HNSW) for vectors.

    Durable: `add` returns after SQLite has fsynced its log, from which the index is made.
    """

    def open(self, folder: Path) -> None:
        import chromadb
        from chromadb.config import Settings

        client = chromadb.PersistentClient(folder, Settings(anonymized_telemetry=False))
        self._collection = client.get_or_create_collection(
            NAME,
            configuration={"hnsw": {"space": "cosine"}},
            embedding_function=None,  # else it would load a model
        )

    def add(self, items: Sequence[Item]) -> None:
        self._collection.add(
            ids=[str(workload.number_of(item.text)) for item in items],
            embeddings=[item.vector.tolist() for item in items],
            documents=[item.text for item in items],
            metadatas=[{"time": item.timestamp.timestamp()} for item in items],
        )

    def search(self, question: Item, limit: int) -> list[str]:
        found = self._collection.query(
            query_embeddings=[question.vector.tolist()],
            n_results=limit,
            include=["documents"],
        )
        return found["documents"][0]

    def forget(self, found: int) -> None:
        self._collection.delete([str(found)])

    def texts(self) -> list[str]:
        return self._collection.get(include=["documents"])["documents"]


class McpServerQdrant(Store):
    """Qdrant's MCP server for memories, by the class behind its two tools, on a local folder: its
    client's local mode. The vectors come through the interface that it has for models.

    All vectors are in the memory of the process; SQLite keeps them on disk, and has fsynced a
    memory when it is stored. A lock keeps any second process from opening the folder.
    """

    can_forget = False  # it has no tool for it

    def open(self, folder: Path) -> None:
        from asyncio import Runner

        from mcp_server_qdrant.embeddings.base import EmbeddingProvider
        from mcp_server_qdrant.qdrant import QdrantConnector

        class Vectors(EmbeddingProvider):
            async def embed_documents(self, documents: list[str]) -> list[list[float]]:
                return [workload.vector(text).tolist() for text in documents]

            async def embed_query(self, query: str) -> list[float]:
                return workload.vector(query).tolist()

            def get_vector_name(self) -> str:
                return NAME

            def get_vector_size(self) -> int:
                return workload.DIMENSIONS

        self._runner = Runner()
        self._connector = QdrantConnector(None, None, NAME, Vectors(), str(folder))

    def add(self, items: Sequence[Item]) -> None:
        from mcp_server_qdrant.qdrant import Entry

        async def store() -> None:
            for item in items:
                metadata = {"time": item.timestamp.timestamp()}
                await self._connector.store(Entry(content=item.text, metadata=metadata))

        self._runner.run(store())

    def search(self, question: Item, limit: int) -> list[str]:
        call = self._connector.search(question.text, limit=limit)
        return [entry.content for entry in self._runner.run(call)]

    def texts(self) -> list[str]:
        return self.search(workload.memory(0), 10**9)

    def close(self) -> None:
        self._runner.close()


class McpMemoryService(Store):
    """mcp-memory-service, by the class behind its tools, on its default store (sqlite-vec), with
    its setting for an embeddings service.

    Not durable as the others: SQLite's log with `synchronous=NORMAL` outlives the process, but not
    always a loss of power. pysqlite3 can load extensions, which many Pythons' sqlite3 cannot.
    """

    def open(self, folder: Path) -> None:
        from asyncio import Runner

        import pysqlite3

        sys.modules["sqlite3"] = pysqlite3
        os.environ |= {  # it reads these as it is imported
            "MCP_EXTERNAL_EMBEDDING_URL": f"{os.environ['BENCHMARK_ENDPOINT']}/embeddings",
            "MCP_EXTERNAL_EMBEDDING_MODEL": MODEL,
            "MCP_MEMORY_BASE_DIR": str(folder),
        }
        from mcp_memory_service.models.memory import Memory
        from mcp_memory_service.storage.sqlite_vec import SqliteVecMemoryStorage
        from mcp_memory_service.utils.hashing import generate_content_hash

        self._memory, self._hash, self._runner = Memory, generate_content_hash, Runner()
        self._storage = SqliteVecMemoryStorage(str(folder / "memories.db"))
        self._runner.run(self._storage.initialize())

    def add(self, items: Sequence[Item]) -> None:
        memories = [
            self._memory(
                content=item.text,
                content_hash=self._hash(item.text),
                created_at=item.timestamp.timestamp(),
                created_at_iso=item.timestamp.isoformat(),
            )
            for item in items
        ]
        if len(memories) == 1:
            stored = [self._runner.run(self._storage.store(memories[0]))]
        else:
            stored = self._runner.run(self._storage.store_batch(memories))
        for done, words in stored:
            if not done:
                raise RuntimeError(words)

    def search(self, question: Item, limit: int) -> list[str]:
        call = self._storage.retrieve(question.text, limit)
        return [found.memory.content for found in self._runner.run(call)]

    def forget(self, found: int) -> None:
        done, words = self._runner.run(self._storage.delete(self._hash(workload.text(found))))
        if not done:
            raise RuntimeError(words)

    def texts(self) -> list[str]:
        return [memory.content for memory in self._runner.run(self._storage.get_all_memories())]

    def close(self) -> None:
        self._runner.run(self._storage.close())
        self._runner.close()


class Mem0(Store):
    """mem0 with its default store, Qdrant's local mode, and without a language model
    (`infer=False`); its own OpenAI client asks the service of the benchmark. `threshold=0`, so that
    it does not leave out what is less similar; the time is set as `created_at` in the metadata.

    Durable as `McpServerQdrant`; a second SQLite keeps the history, and both fsync.
    """

    def open(self, folder: Path) -> None:
        # It reads these as it is imported: nothing is sent to its makers or put into the home.
        os.environ |= {"MEM0_TELEMETRY": "False", "MEM0_DIR": str(folder / "mem0")}
        from mem0 import Memory

        place = {"path": str(folder / "qdrant"), "embedding_model_dims": workload.DIMENSIONS}
        asked = {"model": MODEL, "openai_base_url": os.environ["BENCHMARK_ENDPOINT"]}
        self._memory = Memory.from_config(
            {
                "vector_store": {"provider": "qdrant", "config": place},
                "embedder": {"provider": "openai", "config": asked},
                "llm": {"provider": "openai", "config": {"api_key": "none"}},  # never called
                "history_db_path": str(folder / "history.db"),
            }
        )

    def add(self, items: Sequence[Item]) -> None:
        for item in items:
            about = {"created_at": item.timestamp.isoformat()}
            self._memory.add(item.text, user_id=NAME, metadata=about, infer=False)

    def _found(self, question: Item, limit: int) -> list[dict[str, Any]]:
        about = {"filters": {"user_id": NAME}, "threshold": 0}
        return self._memory.search(question.text, top_k=limit, **about)["results"]

    def search(self, question: Item, limit: int) -> list[str]:
        return [each["memory"] for each in self._found(question, limit)]

    def find(self, number: int) -> str:
        return self._found(workload.memory(number), 1)[0]["id"]

    def forget(self, found: str) -> None:
        self._memory.delete(found)

    def texts(self) -> list[str]:
        found = self._memory.get_all(filters={"user_id": NAME}, top_k=10**9)
        return [each["memory"] for each in found["results"]]

    def close(self) -> None:
        self._memory.close()
