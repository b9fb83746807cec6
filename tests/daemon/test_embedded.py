"""The embedded PostgreSQL: who runs it and shares it, and what is left when one is killed."""

import asyncio
import os
import random
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import psycopg
import pytest
from mcp import MCPError
from memory_daemon import embedded
from memory_daemon.database import Refused
from memory_daemon_process import Agent, DaemonProcess
from processes import wait_until

pytestmark = pytest.mark.timeout(300)  # a slow machine starts its servers in a minute
USER = """
import pathlib, sys, memory_daemon.embedded as it
with it.embedded(pathlib.Path(sys.argv[1])): print("runs", flush=True); sys.stdin.read()"""


def start(home: Path, wait: bool = True) -> "subprocess.Popen[bytes]":
    """A process that uses the embedded PostgreSQL until its standard input closes."""
    command, pipe = [sys.executable, "-c", USER, str(home)], subprocess.PIPE
    user = subprocess.Popen(command, stdin=pipe, stdout=pipe, start_new_session=True)
    assert user.stdout and (not wait or user.stdout.readline() == b"runs\n")
    return user


def refusal(home: Path) -> str:
    with pytest.raises(Refused) as refused, embedded.embedded(home):
        pass
    return str(refused.value)


def postmaster(home: Path) -> int:
    return int((home / "postgres/postmaster.pid").read_text().split()[0])


def answers(home: Path) -> bool:
    with suppress(psycopg.OperationalError):
        psycopg.connect(f"host={home}/postgres user=postgres dbname=postgres").close()
        return True
    return False


def nothing_is_left(home: Path) -> bool:
    found = subprocess.run(["pgrep", "-f", str(home)], capture_output=True)  # the script too
    return found.returncode == 1 and not answers(home)


def test_no_other_folder_is_opened_to_anybody(empty: Path) -> None:
    private = empty.with_name("private")
    private.mkdir(0o700)
    folders = [private, *empty.parents, *Path(psycopg.__file__).parents]
    modes = [folder.stat().st_mode for folder in folders]
    with start(empty):
        assert answers(empty)
    if as_root := os.geteuid() == 0:  # then another user runs it
        assert "user 65534, who may not enter the folder" in refusal(private / "home")
    found = [(empty / name).stat() for name in (".", "postgres", "postgres.log")]
    assert [each.st_mode & 0o777 for each in found] == [0o711 if as_root else 0o700, 0o700, 0o600]
    assert found[1].st_uid == (65_534 if as_root else os.geteuid())
    assert [folder.stat().st_mode for folder in folders] == modes


def test_no_server_is_left_after_20_kills_of_its_user(empty: Path) -> None:
    for number in range(20):
        with start(empty, wait=number % 2 > 0) as user:
            time.sleep(random.uniform(0, 0.5))  # also while it starts, or is created
            user.kill()
    wait_until(lambda: nothing_is_left(empty))
    with start(empty):
        assert answers(empty)


def test_processes_share_it_and_each_goes_on_without_the_others(empty: Path) -> None:
    with start(empty) as second:
        with start(empty):
            os.kill(postmaster(empty), signal.SIGKILL)
            wait_until(lambda: answers(empty))
            server = postmaster(empty)
            start(empty).communicate()  # such as `token make` beside `serve`
        assert answers(empty) and postmaster(empty) == server
        os.killpg(second.pid, signal.SIGINT)  # as Ctrl-C does
    wait_until(lambda: nothing_is_left(empty))


async def recorded(agent: Agent, event_id: str) -> str:
    """Record an event until it is acknowledged; each refusal asks for that."""
    events = [{"text": event_id, "event_id": event_id}]
    while True:
        try:
            well, said = await agent.call("record_event", events=events)
        except MCPError as error:  # its token could not be looked up
            well, said = False, str(error)
        if well:
            return event_id
        assert said.endswith("Try again later.")
        await asyncio.sleep(0.2)


async def test_what_was_acknowledged_survives_kill_9_of_each_process(empty: Path) -> None:
    first, second = DaemonProcess(empty).start(), DaemonProcess(empty).start()
    sam, eve = first.agent("t"), second.agent("t")
    acknowledged = [await recorded(sam, "before")]
    os.kill(postmaster(empty), signal.SIGKILL)
    acknowledged += [await recorded(sam, "server-killed"), await recorded(eve, "here-too")]
    first.stop(signal.SIGKILL)
    acknowledged += [await recorded(eve, "daemon-killed")]

    async def write(number: int) -> list[str]:
        return [await recorded(eve, f"{number}.{count}") for count in range(20)]

    async with eve.connected():
        writing = asyncio.gather(*map(write, range(5)))
        await asyncio.sleep(0.5)
        os.kill(postmaster(empty), signal.SIGKILL)
        acknowledged += [each for written in await writing for each in written]
    second.stop(signal.SIGKILL)
    first.start()
    acknowledged += [await recorded(sam, "both-killed")]
    found = first.sql("SELECT event_id FROM events JOIN chunks USING (tenant_id, event_id)")
    assert sorted(each for (each,) in found) == sorted(acknowledged)
    first.stop()


def test_what_cannot_run_is_explained(empty: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "cannot run in /dev/null/home (Not a directory)" in refusal(Path("/dev/null/home"))
    start(empty).communicate()
    (empty / "postgres/postgresql.conf").write_text("max_connections = none\n")
    assert f'{empty}/postgres/postgresql.conf" contains errors). Its data' in refusal(empty)
    (empty / "postgres/PG_VERSION").write_text("17\n")
    before = {path: path.read_bytes() for path in empty.glob("postgres/**/*") if path.is_file()}
    assert "of PostgreSQL 17, and this is 18: dump them with the old version" in refusal(empty)
    assert all(path.read_bytes() == content for path, content in before.items())
    monkeypatch.setattr(embedded, "find_spec", lambda _: None)
    assert "agent-memory-daemon[embedded]" in refusal(empty)


def test_what_the_environment_says_of_other_databases_counts_for_nothing(
    empty: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGPORT", "5433")
    user = start(empty)
    monkeypatch.setenv("PGHOSTADDR", "127.0.0.9")
    with embedded.embedded(empty) as dsn:
        psycopg.connect(dsn).close()
    monkeypatch.delenv("PGPORT")
    with embedded.embedded(empty) as dsn:
        psycopg.connect(dsn).close()
    user.communicate()
