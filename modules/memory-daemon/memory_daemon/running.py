"""The daemon as a process: database, upkeep, web server."""

import asyncio
import contextlib
import logging
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import uvicorn

from .access import Tokens
from .database import Database, migrate
from .embedded import Embedded
from .forgetting import forget
from .server import Daemon
from .settings import Refused, Settings

WATCH_SECONDS = 0.2
RETENTION_SECONDS = 3_600
log = logging.getLogger(__name__)


@asynccontextmanager
async def database_of(settings: Settings) -> AsyncIterator[str]:
    """The address of the database, migrated; the embedded one runs for as long as this is open."""
    if settings.dsn:
        await migrate(settings.dsn)
        yield settings.dsn
        return
    embedded = Embedded(settings.home)
    embedded.ensure()
    watch = asyncio.create_task(_keep_alive(embedded))
    try:
        await migrate(embedded.dsn)
        yield embedded.dsn
    finally:
        watch.cancel()
        embedded.stop()


async def serve(settings: Settings, ready: Callable[[str], None]) -> None:
    """Serve until a signal ends it; `ready` is called with the URL. Raises Refused."""
    tokens = Tokens(settings.tokens)
    tokens.all()
    listening = _listen(settings.host, settings.port)
    async with database_of(settings) as dsn, Database(dsn) as database:
        daemon = Daemon(settings, tokens, database)
        tasks = [asyncio.create_task(daemon.meaning.stored("loads the model"))]
        if settings.retention_days:
            tasks.append(asyncio.create_task(_retain(dsn, settings.retention_days)))
        config = uvicorn.Config(daemon.app(), log_level="warning", access_log=False)
        host = f"[{settings.host}]" if ":" in settings.host else settings.host
        ready(f"http://{host}:{listening.getsockname()[1]}/mcp")
        try:
            await uvicorn.Server(config).serve(sockets=[listening])
        finally:
            for task in tasks:
                task.cancel()


def _listen(host: str, port: int) -> socket.socket:
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        return socket.create_server((host, port), family=family)
    except OSError as error:
        raise Refused(
            f"The daemon cannot listen on {host}:{port} ({error.strerror}). Set MEMORY_DAEMON_PORT "
            "or MEMORY_DAEMON_HOST to another."
        ) from error


async def _keep_alive(embedded: Embedded) -> None:
    while True:
        await asyncio.sleep(WATCH_SECONDS)
        if embedded.gone():
            try:
                await asyncio.to_thread(embedded.ensure)
                log.warning("The embedded PostgreSQL had ended and was started again.")
            except Refused as error:
                log.error("%s", error)
                await asyncio.sleep(5)


async def _retain(dsn: str, days: int) -> None:
    while True:
        with contextlib.suppress(Refused):
            await forget(dsn, {"before": f"{days}d"})
        await asyncio.sleep(RETENTION_SECONDS)
