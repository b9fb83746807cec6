"""The embedded PostgreSQL: who runs it, who may use it, and what is left when somebody is killed."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import psycopg
import pytest
from memory_daemon import embedded
from memory_daemon.database import Refused
from memory_daemon_process import wait_until

pytestmark = pytest.mark.timeout(300)  # a slow machine starts its servers in a minute
USER = """
import sys
from pathlib import Path
from memory_daemon.embedded import embedded
with embedded(Path(sys.argv[1])):
    print("runs", flush=True)
    sys.stdin.read()
"""


def start(home: Path) -> "subprocess.Popen[str]":
    """A process that uses the embedded PostgreSQL until its standard input closes."""
    return subprocess.Popen(
        [sys.executable, "-c", USER, str(home)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def runs(process: "subprocess.Popen[str]") -> bool:
    assert process.stdout
    return process.stdout.readline() == "runs\n"


def postmaster(home: Path) -> int:
    return int((home / "postgres/postmaster.pid").read_text().split()[0])


def processes(home: Path) -> str:
    """All that has the folder in its command line: the script, and the server as root."""
    found = subprocess.run(["ps", "-A", "-ww", "-o", "stat=,args="], capture_output=True, text=True)
    return "".join(line for line in found.stdout.splitlines() if str(home) in line)


def answers(home: Path) -> bool:
    try:
        psycopg.connect(f"host={home}/postgres user=postgres dbname=postgres").close()
    except psycopg.OperationalError:
        return False
    return True


def test_no_other_folder_is_opened_to_anybody(empty: Path) -> None:
    private = empty.with_name("private")
    private.mkdir(0o700)
    folders = [private, *empty.parents, *Path(psycopg.__file__).parents]
    modes = [folder.stat().st_mode for folder in folders]
    with start(empty) as user:
        assert runs(user) and answers(empty)
    as_root = os.geteuid() == 0  # then another user runs it, who must be able to enter
    assert empty.stat().st_mode & 0o777 == (0o711 if as_root else 0o700)
    assert (empty / "postgres").stat().st_mode & 0o777 == 0o700
    assert (empty / "postgres").stat().st_uid == (os.geteuid() or 65_534)
    assert (empty / "postgres.log").stat().st_mode & 0o777 == 0o600
    said, _ = start(private / "home").communicate()
    assert ("may not enter the folder" in said) == as_root
    assert [folder.stat().st_mode for folder in folders] == modes


def test_no_server_is_left_after_20_kills_of_its_user(empty: Path) -> None:
    with start(empty) as user:
        assert runs(user)
    for number in range(20):
        with start(empty) as user:
            assert number % 2 or runs(user)
            time.sleep(random.uniform(0, 0.5))  # also while it starts
            user.kill()
    wait_until(lambda: not processes(empty))
    assert not answers(empty)
    with start(empty) as user:
        assert runs(user)


def test_processes_share_it_and_each_goes_on_without_the_others(empty: Path) -> None:
    with start(empty) as second:
        with start(empty) as first:
            assert runs(first) and runs(second)
            server = postmaster(empty)
            with start(empty) as command:  # such as `token make` beside `serve`
                assert runs(command)
            os.killpg(first.pid, 0)
            assert answers(empty) and postmaster(empty) == server
            os.kill(server, signal.SIGKILL)
            wait_until(lambda: answers(empty))  # it is started again
        wait_until(lambda: answers(empty))  # by the second, if the first had done so
        second.send_signal(signal.SIGINT)  # as Ctrl-C does
    wait_until(lambda: not processes(empty))


def refusal(home: Path) -> str:
    with pytest.raises(Refused) as refused, embedded.embedded(home):
        pass
    return str(refused.value)


def test_data_of_another_version_are_refused_and_left_alone(empty: Path) -> None:
    def content() -> dict[Path, bytes]:
        return {path: path.read_bytes() for path in empty.glob("postgres/**/*") if path.is_file()}

    with start(empty) as user:
        assert runs(user)
    (empty / "postgres/PG_VERSION").write_text("17\n")
    before = content()
    said = refusal(empty)
    assert "its data are of PostgreSQL 17, and this is 18" in said and "dump them with" in said
    assert content() == before and len(before) > 900


def test_what_cannot_run_is_explained(empty: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    empty.touch()
    assert f"cannot run in {empty}/home (Not a directory)" in refusal(empty / "home")
    empty.unlink()
    with start(empty) as user:
        assert runs(user)
    (empty / "postgres/postgresql.conf").write_text("max_connections = none\n")
    assert f'{empty}/postgres/postgresql.conf" contains errors). Its data' in refusal(empty)
    monkeypatch.setattr(embedded, "find_spec", lambda _: None)
    said = refusal(empty)
    assert "MEMORY_DAEMON_DSN" in said and "agent-memory-daemon[embedded]" in said
