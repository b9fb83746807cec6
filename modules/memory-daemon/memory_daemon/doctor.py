"""What is right and what is not, and what to do about it."""

from collections.abc import AsyncIterator

import psycopg

from .access import Tokens
from .database import MIGRATIONS, sentences
from .settings import POOL_SECONDS, Settings

_WALL = """
  SELECT count(*) FILTER (WHERE relrowsecurity AND NOT relforcerowsecurity) FROM pg_class
  WHERE relnamespace = 'memory'::regnamespace
    AND relname IN ('events', 'chunks', 'decisions', 'tasks', 'artifacts')"""
_SEEN_WITHOUT_TENANT = """
  SELECT (SELECT count(*) FROM events) + (SELECT count(*) FROM chunks) + (SELECT count(*) FROM
   decisions) + (SELECT count(*) FROM tasks) + (SELECT count(*) FROM artifacts)"""


async def examine(settings: Settings, dsn: str) -> AsyncIterator[tuple[bool, str]]:
    """Each finding: whether it is well, and a sentence. Raises Refused."""
    tokens = Tokens(settings.tokens).all()
    tenants = {access.tenant for access in tokens}
    yield bool(tokens), f"{len(tokens)} tokens for {len(tenants)} tenants in {settings.tokens}"
    with sentences():
        async with await psycopg.AsyncConnection.connect(
            dsn, autocommit=True, connect_timeout=POOL_SECONDS
        ) as connection:

            async def value(query: str) -> int:
                row = await (await connection.execute(query)).fetchone()
                return row[0] if row else 0

            await connection.execute("SET search_path = memory")
            server = connection.info.server_version // 10_000
            where = "your own" if settings.dsn else f"embedded in {settings.home}"
            yield 15 <= server, f"PostgreSQL {server}, {where} (15 or newer is needed)"
            version = await value("SELECT max(version) FROM schema_version")
            yield version == len(MIGRATIONS), f"schema {version} of {len(MIGRATIONS)}"
            yield await value(_WALL) == 5, "row level security is on for all five tables"
            async with connection.transaction():
                await connection.execute("SET LOCAL ROLE memory_daemon")
                seen = await value(_SEEN_WITHOUT_TENANT)
            yield seen == 0, f"without a tenant {seen} rows are seen"
            size = await value("SELECT pg_database_size(current_database()) / 1000000")
            chunks = await value("SELECT count(*) FROM chunks")
            yield (
                True,
                f"{await value('SELECT count(*) FROM events')} events, {chunks} chunks, {size} MB",
            )
            known = await value(
                "SELECT count(*) FROM pg_stats WHERE schemaname = 'memory' AND tablename = 'chunks'"
                " AND attname = 'tsv' AND most_common_elems IS NOT NULL"
            )
            yield (
                bool(known) or chunks < 1_000,
                "the frequencies of words are known"
                if known
                else "the frequencies of words are not known yet (ANALYZE memory.chunks makes them)",
            )
