"""One daemon and one PostgreSQL for all tests here; each test has its own tenant.

TEST_MEMORY_DAEMON_DSN names a PostgreSQL to use instead of the embedded one.
"""

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import amplifier_module_hooks_memory_daemon as hook
import pytest
from memory_daemon_process import TEST_DSN, Agent, DaemonProcess
from psycopg.conninfo import make_conninfo


@pytest.fixture
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a slow machine a call may take longer than a person would wait for it."""
    monkeypatch.setattr(hook, "BUNDLE_SECONDS", 60.0)
    monkeypatch.setattr(hook, "CALL_SECONDS", 60.0)


@pytest.fixture
def empty() -> Iterator[Path]:
    """A folder that every user may enter, because PostgreSQL does not run as root."""
    yield from _folder()


def _folder() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="md-", dir="/tmp"))
    folder.chmod(0o755)
    yield folder / "home"
    shutil.rmtree(folder, ignore_errors=True)  # its PostgreSQL may still be closing files


@pytest.fixture(scope="session")
def daemon() -> Iterator[DaemonProcess]:
    for home in _folder():
        daemon = DaemonProcess(home, **({"dsn": TEST_DSN} if TEST_DSN else {})).start()
        yield daemon
        daemon.stop()


@pytest.fixture
def tenant(request: pytest.FixtureRequest) -> str:
    return f"{request.node.name[:80]}-{os.urandom(4).hex()}"


@pytest.fixture
def sam(daemon: DaemonProcess, tenant: str) -> Agent:
    """An agent with its own tenant."""
    return daemon.agent(tenant)


@pytest.fixture
def eve(daemon: DaemonProcess, tenant: str) -> Agent:
    """Another agent of sam's tenant."""
    return daemon.agent(tenant, "eve")


@pytest.fixture
def fresh(daemon: DaemonProcess) -> Iterator[str]:
    """The address of an empty database."""
    name = f"t{os.urandom(6).hex()}"
    daemon.sql(f"CREATE DATABASE {name}")
    yield make_conninfo(daemon.dsn, dbname=name)
    daemon.sql(f"DROP DATABASE {name} WITH (FORCE)")
