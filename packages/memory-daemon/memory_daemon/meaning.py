"""Meaning: each chunk's vector, by the embedding model that the settings name, kept and compared by
pgvector. Without that extension, or without a model, everything is found by words alone."""

import asyncio
import logging
from collections.abc import Sequence

import psycopg
from memory_semantic import EmbeddingError, EmbeddingGenerator, mask
from psycopg import sql

from .database import Connection, connected
from .settings import Refused

AT_ONCE = 128  # texts embedded in one step of filling in
FILL_SECONDS = 60  # between looks for chunks without a vector: a service may have failed
INDEX_MEMORY = "256MB"  # the graph of 200,000 chunks; of more, the rest is slower to build
_EXTENSION = (
    "SELECT extnamespace::regnamespace::text AS place FROM pg_extension WHERE extname = 'vector'"
)
_OLD = " AND string_to_array(extversion, '.')::int[] < '{0,8}'"  # without iterative scans
_COLUMN = (
    "SELECT col_description(attrelid, attnum) AS model FROM pg_attribute"
    " WHERE attrelid = 'chunks'::regclass AND attname = 'embedding' AND NOT attisdropped"
)
# Whether the index was built to its end, and whether no other daemon is building it.
_INDEX = (
    "SELECT coalesce((SELECT indisvalid FROM pg_index WHERE indexrelid = to_regclass("
    "'chunks_meaning')), false) AS sound, pg_try_advisory_lock(1835363685) AS alone"
)
_NONE = "Everything is found by words alone, not by meaning: {}"
log = logging.getLogger(__name__)


class Meaning:
    """An embedding model. `prepare` says whether the database can keep its vectors; until then, and
    if it cannot, there are none.
    """

    def __init__(self, model: str) -> None:
        self._model = EmbeddingGenerator(model) if model != "none" else None
        self.on = False

    async def prepare(self, dsn: str) -> None:
        """Make room for the model's vectors; those of another model are dropped, and made anew by
        `fill`. Logs once why there is no meaning, if there is none.
        """
        try:
            if self._model:
                async with connected(dsn) as connection, connection.transaction():
                    await self._prepare(connection, self._model)
                self.on = True
        except (EmbeddingError, Refused) as error:
            log.warning(_NONE.format(error))

    async def _prepare(self, connection: Connection, model: EmbeddingGenerator) -> None:
        await connection.execute("SELECT pg_advisory_xact_lock(1835363684)")  # as migrations do
        try:
            async with connection.transaction():
                await connection.execute("CREATE EXTENSION IF NOT EXISTS vector SCHEMA memory")
        except psycopg.Error:
            pass  # not installed, or not this user's to create
        found = await (await connection.execute(_EXTENSION)).fetchone()
        if not found or (await connection.execute((_EXTENSION + _OLD).encode())).rowcount:
            raise Refused(
                "the database has no extension vector (pgvector) of version 0.8 or newer. Install "
                "it, let an administrator run CREATE EXTENSION vector, and start again."
            )
        if not model.dimensions:
            await model.generate("dimensions")
        name = f"{model.version or model.model} {model.dimensions}"
        column = await (await connection.execute(_COLUMN)).fetchone()
        place = f"memory, {found['place']}, pg_temp"
        await connection.execute(f"SET LOCAL search_path = {place}".encode())
        await connection.execute(
            f"ALTER FUNCTION acb_candidates SET search_path = {place}".encode()
        )
        if not column or column["model"] != name:
            log.info("The vectors of %s are made.", name)
            comment = sql.Literal(name).as_string(connection)
            await connection.execute(
                f"""
                ALTER TABLE chunks DROP COLUMN IF EXISTS embedding,
                  ADD COLUMN embedding halfvec({model.dimensions});
                COMMENT ON COLUMN chunks.embedding IS {comment};
                CREATE INDEX chunks_to_embed ON chunks (ts) WHERE embedding IS NULL""".encode()
            )

    async def vectors(self, texts: Sequence[str]) -> list[str | None]:
        """The vectors of `texts` as pgvector reads them, None where there is none yet."""
        try:
            return await self._vectors(texts) if self.on else [None] * len(texts)
        except EmbeddingError:
            return [None] * len(texts)

    async def question(self, text: str) -> str | None:
        """The vector of a question, or None: the built-in models read Latin letters only."""
        latin_only = self._model and self._model.model in ("static", "local")
        if not text.strip() or (latin_only and not _latin(text)):
            return None
        masked, _ = await asyncio.to_thread(mask, text)  # it may go to a service
        [vector] = await self.vectors([masked])
        return vector

    async def fill(self, dsn: str) -> None:
        """Give every chunk without a vector one, the newest first, and then index them; look again
        now and then.
        """
        while self.on:
            try:
                async with connected(dsn) as connection:
                    while await self._fill(connection):
                        pass
                    await self._index(connection)
            except (Refused, EmbeddingError) as error:
                log.warning("Chunks wait for their vectors: %s", error)
            await asyncio.sleep(FILL_SECONDS)

    async def _fill(self, connection: Connection) -> int:
        found = await connection.execute(
            "SELECT tenant_id, chunk_id, text FROM chunks WHERE embedding IS NULL"
            f" ORDER BY ts DESC LIMIT {AT_ONCE}".encode()
        )
        rows = await found.fetchall()
        vectors = await self._vectors([row["text"] for row in rows])
        made = [{**row, "vector": vector} for row, vector in zip(rows, vectors, strict=True)]
        async with connection.transaction(), connection.cursor() as cursor:
            await cursor.executemany(
                "UPDATE chunks SET embedding = %(vector)s WHERE tenant_id = %(tenant_id)s"
                " AND chunk_id = %(chunk_id)s",
                made,
            )
        return len(rows)

    async def _index(self, connection: Connection) -> None:
        # Not before most vectors are there: to add them one by one takes ten times as long. Until
        # then, and while it is built, a search compares all vectors of its tenant.
        found = await (await connection.execute(_INDEX)).fetchone()
        if not found or found["sound"] or not found["alone"]:
            return
        await connection.execute(
            f"SET maintenance_work_mem = '{INDEX_MEMORY}';"
            " SET max_parallel_maintenance_workers = 0;"
            " DROP INDEX IF EXISTS chunks_meaning".encode()
        )
        await connection.execute(
            "CREATE INDEX CONCURRENTLY chunks_meaning ON chunks USING hnsw"
            " (embedding halfvec_cosine_ops)"
        )

    async def _vectors(self, texts: Sequence[str]) -> list[str | None]:
        assert self._model
        here = await self._model.load()
        found = await (
            asyncio.to_thread(self._now, texts) if here else self._model.generate_batch(texts)
        )
        return [f"[{','.join(f'{number:.4g}' for number in vector)}]" for vector in found]

    def _now(self, texts: Sequence[str]) -> list[list[float]]:
        assert self._model
        found: list[list[float]] = []
        for text in texts:
            try:
                found.append(self._model.embed_now(text))
            except EmbeddingError:  # it knows no word of this text
                found.append([0.0] * (self._model.dimensions or 0))
        return found


def _latin(text: str) -> bool:
    letters = [letter for letter in text if letter.isalpha()]
    return 2 * sum(letter < "\u0250" for letter in letters) >= len(letters)
