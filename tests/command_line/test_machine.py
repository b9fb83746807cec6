"""A fault of the machine or wrong words, not of the store, is named by the command."""

import os
import subprocess
import sys
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path

import pytest
from command import EXECUTABLE, Command, invoke, settings


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


def test_a_text_from_standard_input_that_is_not_utf_8_is_named() -> None:
    text = BytesIO("gr\u00fc\u00dfe".encode("latin-1"))
    said = invoke("store", "-", "--agent", "sam", input=text, code=2).stderr
    assert "on standard input is not UTF-8" in said


def test_an_export_to_a_full_disk_names_the_file(home: Path) -> None:
    said = invoke("export", "/dev/full", "--yes", "--agent", "sam", code=1).stderr
    assert "/dev/full" in said and "it was not written" in said and "Free some space." in said


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"GOOD=1\nA=sk-\0very-secret\n", "keys.env is skipped from line 2 on, by Amplifier too"),
        (b"GOOD=1\nsk-very-secret\n", "keys.env, line 2, is skipped: it is not NAME=value"),
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
    named = f"✗ settings    {home}/.amplifier/{words}" in examined.stdout
    assert named and "very-secret" not in listed.output + examined.output


def test_good_keys_are_read_silently(home: Path) -> None:
    lines = "# keys\n\n GOOD = 'yes'\r\nAMPLIFIER_AGENT_IDENTITY=\"sam\"\nURL=a=b"
    (home / ".amplifier" / "keys.env").write_bytes(b"\xef\xbb\xbf" + lines.encode())
    assert invoke("list").stderr == ""
    assert (os.environ["GOOD"], os.environ["URL"]) == ("yes", "a=b")


# A file without our name is not read on: to load the parser takes longer than all else.
OURS = b"overrides:\n  tool-memory-semantic: "


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        *((name, None, "Is a directory.") for name in ("keys.env", "settings.yaml")),
        *((name, b"\xff", "it is not UTF-8 text.") for name in ("keys.env", "settings.yaml")),
        ("settings.yaml", OURS + b"[\n", "it is not YAML (line 3)."),
        ("settings.yaml", OURS + b"[" * 2_000, "it is nested too deeply."),
    ],
)
def test_settings_that_cannot_be_read_are_named(
    home: Path, name: str, content: bytes | None, reason: str
) -> None:
    path = home / ".amplifier" / name
    path.write_bytes(content) if content else path.mkdir()
    said = invoke("list", "--agent", "sam").stderr
    assert f"{path} is skipped, by Amplifier too: {reason}" in said
    if name == "settings.yaml":  # it may name another agent, or keep the texts here
        said = invoke("store", "y", code=2).stderr
        assert f"Whose memories? Name the agent with --agent, or mend {path}." in said


@pytest.mark.parametrize("value", ["", "somewhere", " "])
def test_a_home_that_is_not_a_folder_is_named(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", value)
    for arguments in (("list",), ("store", "x")):
        assert "HOME is" in invoke(*arguments, "--agent", "sam", code=2).output
    monkeypatch.setenv("HOME", "/dev/null")
    assert "Not a directory" in invoke("store", "x", "--agent", "sam", code=1).output


@pytest.mark.parametrize("line", ["list", "export -", "--help"])
def test_a_full_standard_output_is_named(home: Path, line: str) -> None:
    with Path("/dev/full").open("w") as full:
        process = subprocess.run(
            [str(EXECUTABLE), *line.split()],
            env={**os.environ, "PYTHONUNBUFFERED": "", "AMPLIFIER_AGENT_IDENTITY": "sam"},
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
        )
    assert process.returncode == 1
    said = process.stderr
    assert said.startswith("Error: Standard output cannot be written: No space left on device.")
    assert said.count("\n") == 1  # and nothing more when Python flushes at its end


WITHOUT_POSIX = """
import sys, os
sys.modules["fcntl"] = sys.modules["resource"] = None
del os.register_at_fork, os.fork
from agent_memory.__main__ import main
main()
"""


def test_on_windows_the_command_says_where_it_runs() -> None:
    command = [sys.executable, "-c", WITHOUT_POSIX, "store", "x"]
    process = subprocess.run(command, capture_output=True, text=True)
    assert process.returncode == 1 and "inside WSL" in process.stderr
    assert "\nError: agent-memory runs" in process.stderr


INTERRUPTED = """
import os, signal, sys
class Interrupting:
    def find_spec(self, name, path=None, target=None):
        if name == sys.argv[1]:
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Interrupting())
from agent_memory.__main__ import main
main()
"""


@pytest.mark.parametrize("when", ["agent_memory.interrupt", "agent_memory.cli"])
def test_ctrl_c_prints_no_traceback_and_says_if_nothing_was_changed(when: str) -> None:
    command = [sys.executable, "-c", INTERRUPTED, when]
    process = subprocess.run(command, capture_output=True, text=True)
    assert process.returncode == 1
    assert process.stderr == "Interrupted before it began. Nothing was changed.\n"


def test_a_package_that_is_missing_is_asked_for(command: Command, tmp_path: Path) -> None:
    settings(agent_identity="sam")
    (tmp_path / "sitecustomize.py").write_text("import sys\nsys.modules['yaml'] = None\n")
    process = command.start("list", PYTHONPATH=str(tmp_path))
    _, said = process.communicate()
    assert process.returncode == 1 and "Traceback" not in said
    assert said.endswith(f"uv pip install --python {sys.executable} pyyaml\n")
