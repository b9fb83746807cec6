"""A fault of the machine, not of the store, is named."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from command import EXECUTABLE, invoke
from conftest import MakeTools
from embeddings_server import EmbeddingsServer
from qdrant_server import QdrantServer
from tenacity import wait_none

KEY = "sk-very-secret"
TEXT = "a private thought"


@pytest.fixture(autouse=True)
def no_network_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ALL_PROXY", "HTTPS_PROXY", "HTTP_PROXY", "NO_PROXY", "SSL_CERT_FILE"):
        for spelling in (name, name.lower()):
            monkeypatch.delenv(spelling, raising=False)


def run(*arguments: str, code: int = 0, redirect: str = "", **environment: str) -> str:
    """What a command in a separate process prints besides its result."""
    process = subprocess.run(
        ["sh", "-c", f'exec "$@" {redirect}', "sh", str(EXECUTABLE), *arguments],
        env={**os.environ, **environment},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert process.returncode == code, (process.returncode, process.stderr)
    assert "Traceback" not in process.stderr and "unexpectedly" not in process.stderr
    return process.stderr


BROKEN = {
    "socks": (
        {"ALL_PROXY": "socks5://me:pw@127.0.0.1:1"},
        "socksio. Install it, or name an HTTP proxy. Check ALL_PROXY",
    ),
    "two of them": (
        {"ALL_PROXY": "socks5://127.0.0.1:1", "HTTP_PROXY": "socks5://127.0.0.1:1"},
        "Check ALL_PROXY and HTTP_PROXY",
    ),
    "lower case": ({"all_proxy": "socks5h://me:pw@h:1"}, "HTTP proxy. Check all_proxy"),
    "no proxy": ({"HTTPS_PROXY": "garbage://me:pw@x"}, "Check HTTPS_PROXY"),
    "no address": ({"HTTP_PROXY": "http://[::1"}, "Check HTTP_PROXY"),
    "no certificates": ({"SSL_CERT_FILE": "/nowhere.pem"}, "Check SSL_CERT_FILE"),
    "a folder": ({"SSL_CERT_FILE": "/"}, "Check SSL_CERT_FILE"),
    "no key log": ({"SSLKEYLOGFILE": "/nowhere/keys"}, "Check SSLKEYLOGFILE"),
}


@pytest.fixture
def no_certificates_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    from memory_semantic.embeddings import service
    from memory_semantic.server.connection import connect

    service._certificates.cache_clear()
    connect.cache_clear()


@pytest.mark.usefixtures("no_certificates_kept")
@pytest.mark.parametrize("name", BROKEN)
async def test_what_stops_a_request_is_named_in_a_session(
    make_tools: MakeTools, server: EmbeddingsServer, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    variables, words = BROKEN[name]
    for variable, value in variables.items():
        monkeypatch.setenv(variable, value)
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    with QdrantServer() as qdrant:
        for config in ({"qdrant_url": qdrant.url}, {"base_url": server.base_url}):
            tools = await make_tools(embedding_model="m", **config)
            said = await tools.refused("memory_store", content=TEXT)
            assert words in said and "unexpectedly" not in said, config
            assert "me:pw" not in said and KEY not in said and TEXT not in said
            assert "changed" in said  # and what was
        assert qdrant.requests == [] and server.requests == []


@pytest.mark.parametrize("name", ["socks", "no certificates"])
def test_what_stops_a_request_is_named_in_a_command(server: EmbeddingsServer, name: str) -> None:
    variables, words = BROKEN[name]
    environment = {**variables, "OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": server.base_url}
    said = run("store", TEXT, "--agent", "sam", code=1, **environment)
    assert words in said and "me:pw" not in said and server.requests == []
    environment = {**variables, "AGENT_MEMORY_QDRANT_URL": "http://127.0.0.1:9"}
    said = run("list", "--agent", "sam", code=1, **environment)
    assert words in said and "me:pw" not in said


@pytest.mark.usefixtures("no_certificates_kept")
async def test_a_proxy_that_is_down_is_named(
    make_tools: MakeTools, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://me:pw@127.0.0.1:9")
    monkeypatch.setattr("memory_semantic.embeddings.service._request.retry.wait", wait_none())
    tools = await make_tools(embedding_model="m", base_url="http://embeddings.example/v1")
    said = await tools.refused("memory_store", content=TEXT)
    assert "the proxy in HTTP_PROXY" in said and "me:pw" not in said


@pytest.mark.parametrize("url", ["http://h\n/v1", "http://h/v\r1", "http://a b/v1", "http://h\t/"])
@pytest.mark.parametrize("setting", ["base_url", "qdrant_url"])
async def test_rejects_an_address_with_a_blank_or_a_line_break(
    make_tools: MakeTools, setting: str, url: str
) -> None:
    tools = await make_tools(**{setting: url})
    said = await tools.refused("memory_store", content=TEXT)
    assert f"{setting} must be an address" in said


async def test_rejects_a_key_with_a_line_break(
    make_tools: MakeTools, server: EmbeddingsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", f"{KEY}\n{KEY}")
    tools = await make_tools(embedding_model="m", base_url=server.base_url)
    said = await tools.refused("memory_store", content=TEXT)
    assert "OPENAI_API_KEY is not a valid key" in said and KEY not in said and server.requests == []


@pytest.mark.parametrize("name", ["OPENAI_ORG_ID", "OPENAI_PROJECT_ID", "OPENAI_CUSTOM_HEADERS"])
async def test_a_variable_that_no_header_can_hold_is_named(
    make_tools: MakeTools, server: EmbeddingsServer, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv(name, "X: k\u00e4se")
    tools = await make_tools(embedding_model="m", base_url=server.base_url)
    said = await tools.refused("memory_store", content=TEXT)
    assert f"{name} must be ASCII" in said and "answered" not in said and server.requests == []


@pytest.mark.parametrize("encoding", ["utf-8:strict", "utf-8:surrogateescape"])
def test_a_text_from_standard_input_that_is_not_utf_8_is_named(home: Path, encoding: str) -> None:
    process = subprocess.run(
        [str(EXECUTABLE), "store", "-", "--agent", "sam"],
        input="gr\u00fc\u00dfe".encode("latin-1"),
        env={**os.environ, "PYTHONIOENCODING": encoding},
        capture_output=True,
    )
    assert process.returncode == 2 and b"on standard input is not UTF-8" in process.stderr


def test_an_export_to_a_full_disk_or_a_loop_of_links_names_the_file(
    home: Path, tmp_path: Path
) -> None:
    said = invoke("export", "/dev/full", "--yes", "--agent", "sam", code=1).stderr
    assert "/dev/full" in said and "it was not written" in said and "Free some space." in said
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    said = invoke("export", str(loop), "--yes", "--agent", "sam", code=1).stderr
    assert f"{loop} cannot be used: Too many levels of symbolic links; it was not written" in said
    assert loop.is_symlink()


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    """A home with a store of `sam`, and Amplifier's folder in it."""
    before = set(os.environ)
    home = tmp_path / "home"
    (home / ".amplifier").mkdir()
    invoke("store", "x", "--agent", "sam")
    yield home
    for name in set(os.environ) - before:  # from `keys.env`
        del os.environ[name]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"GOOD=1\nOPENAI_API_KEY=sk-\0very-secret\n", "keys.env is skipped from line 2 on"),
        (b"GOOD=1\nsk-very-secret\n", "keys.env, line 2, is skipped: it is not NAME=value"),
        (b"=sk-very-secret\n", "keys.env, line 1, is skipped"),
        (b"export OPENAI_API_KEY=sk-very-secret\n", "keys.env, line 1, is skipped"),
        (b"OPENAI_API_KEY=\xff\xfesk-very-secret\n", "keys.env is skipped, by Amplifier too"),
    ],
)
def test_a_broken_line_of_keys_stops_nothing_and_is_named(
    home: Path, content: bytes, words: str
) -> None:
    (home / ".amplifier" / "keys.env").write_bytes(content)
    listed = invoke("list", "--agent", "sam")
    assert words in listed.stderr and "mem-" in listed.stdout
    examined = invoke("doctor", "--agent", "sam", "--offline", code=1)
    assert words in examined.stdout and "very-secret" not in listed.output + examined.output


def test_good_keys_are_read_silently(home: Path) -> None:
    lines = "# keys\n\n GOOD = 'yes'\r\nAMPLIFIER_AGENT_IDENTITY=\"sam\"\nURL=a=b"
    (home / ".amplifier" / "keys.env").write_bytes(b"\xef\xbb\xbf" + lines.encode())
    assert invoke("list").stderr == ""
    assert (os.environ["GOOD"], os.environ["URL"]) == ("yes", "a=b")


@pytest.mark.parametrize("name", ["keys.env", "settings.yaml"])
@pytest.mark.parametrize("content", [None, b"\xff\xfe\x00"])
def test_settings_that_cannot_be_read_are_named(
    home: Path, name: str, content: bytes | None
) -> None:
    path = home / ".amplifier" / name
    path.write_bytes(content) if content else path.mkdir()
    said = invoke("list", "--agent", "sam").stderr
    reason = "it is not UTF-8 text" if content else "Is a directory"
    assert f"{path} is skipped, by Amplifier too: {reason}." in said


@pytest.mark.parametrize("value", ["", "somewhere", " "])
def test_a_home_that_is_not_a_folder_is_named(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", value)
    for arguments in (("list",), ("store", "x")):
        assert "HOME is" in invoke(*arguments, "--agent", "sam", code=2).output
    monkeypatch.setenv("HOME", "/dev/null")
    assert "Not a directory" in invoke("store", "x", "--agent", "sam", code=1).output


def test_a_command_works_in_a_deleted_folder(home: Path, tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    script = f"cd {gone} && rmdir {gone} && exec {EXECUTABLE} list --agent sam"
    process = subprocess.run(["sh", "-c", script], capture_output=True, text=True)
    assert (process.returncode, process.stderr) == (0, "") and "mem-" in process.stdout


@pytest.mark.parametrize(
    "arguments",
    [
        *(["list", "--agent", "sam"], ["list", "--json", "--agent", "sam"], ["agents"]),
        *(["store", "y", "--agent", "sam"], ["export", "-", "--agent", "sam"]),
        *(["--help"], ["list", "--help"], ["--version"], ["completion", "bash"]),
    ],
)
def test_a_full_standard_output_is_named(home: Path, arguments: list[str]) -> None:
    said = run(*arguments, code=1, redirect="> /dev/full", PYTHONUNBUFFERED="")
    assert said.startswith("Error: Standard output cannot be written: No space left on device.")
    assert said.count("\n") == 1  # and nothing more when Python flushes at its end


NO_POSIX = """
import sys, os
sys.modules["fcntl"] = sys.modules["resource"] = None
del os.register_at_fork, os.fork
"""


@pytest.mark.parametrize("arguments", [["list"], ["store", "x"], ["doctor"], ["agents"]])
def test_on_windows_the_command_says_where_it_runs(arguments: list[str]) -> None:
    script = f"{NO_POSIX}\nfrom agent_memory.__main__ import main\nmain()"
    process = subprocess.run(
        [sys.executable, "-c", script, *arguments], capture_output=True, text=True
    )
    assert process.returncode == 1 and "Traceback" not in process.stderr
    assert "inside WSL" in process.stderr and process.stderr.startswith("Error: agent-memory runs")


def test_on_windows_the_tools_are_mounted_and_say_where_they_run() -> None:
    script = f"""{NO_POSIX}
import asyncio
from amplifier_core.testing import MockCoordinator
from amplifier_module_tool_memory_semantic import mount
async def main():
    coordinator = MockCoordinator()
    await mount(coordinator, {{"agent_identity": "sam"}})
    for tool in coordinator.mount_points["tools"].values():
        print((await tool.execute({{"content": "x", "query": "x"}})).error["message"])
asyncio.run(main())
"""
    output = subprocess.check_output([sys.executable, "-c", script], text=True)
    assert output.count("agent-memory runs on Linux") == 2


def test_ctrl_c_at_startup_prints_no_traceback(home: Path) -> None:
    """From the start of Python through all imports to the end."""
    script = "import sys; from agent_memory.__main__ import main; "
    script += "print('ready', file=sys.stderr, flush=True); main()"
    interrupted = 0
    for number in range(8):
        command = [sys.executable, "-c", script, "search", "x", "--agent", "sam"]
        pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        with subprocess.Popen(command, text=True, **pipes) as process:
            assert process.stderr and process.stderr.readline() == "ready\n"
            time.sleep(number * 0.1)
            process.send_signal(signal.SIGINT)
            _, said = process.communicate(timeout=30)
        assert "Traceback" not in said, (number, said)
        interrupted += process.returncode != 0
    assert interrupted


def test_an_interrupt_while_it_loads_says_that_nothing_was_changed() -> None:
    script = """
import sys
class Interrupting:
    def find_spec(self, name, path=None, target=None):
        if name == "agent_memory.cli":
            raise KeyboardInterrupt
sys.meta_path.insert(0, Interrupting())
from agent_memory.__main__ import main
main()
"""
    process = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert process.returncode == 1
    assert process.stderr == "Interrupted before it began. Nothing was changed.\n"
