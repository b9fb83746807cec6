"""Wrong words, a question that nobody answers, a package that is not there: each is explained."""

import re
import shlex
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from agent_memory.cli import COMMANDS
from click.testing import Result
from command import Command, invoke, settings

# A suggested command ends where its line, its code span or its sentence does.
SUGGESTED = re.compile(rf"agent-memory (?:{'|'.join(COMMANDS)})\b[^`\n;,]*")


@pytest.fixture
def odd(tmp_path: Path) -> Command:
    """The store of sam, in a folder whose name a shell would split."""
    command = Command(tmp_path / "my memory")
    command.run("store", "We chose PostgreSQL. " * 40)
    return command


def suggested(result: Result) -> list[str]:
    return SUGGESTED.findall(result.output.replace("\n\n", "\n"))


class TestWords:
    @pytest.mark.parametrize(
        ("words", "line"),
        [
            (["search", "which", "database"], "search 'which database'"),
            (["store", "it", "is", "Bob's"], """store 'it is Bob'"'"'s'"""),
            (["store", "--tag", "a", "a", "b", "-t", "c"], "store --tag a 'a b' -t c"),
            (["search", "-x"], "search -- -x"),
            (["store", "- a note", "--tag", "x"], "store --tag x -- '- a note'"),
            (["search", "-n of the thing"], "search -- '-n of the thing'"),
            (["serach", "which database"], "search 'which database'"),
            (["lst"], "list"),
        ],
        ids=str,
    )
    def test_the_command_that_was_meant(self, words: list[str], line: str) -> None:
        assert invoke(*words, code=2).stderr.endswith(f" agent-memory {line}\n")

    @pytest.mark.parametrize("words", [["a", "b"], ["- a b"], ["--a b"]])
    def test_what_it_suggests_can_be_pasted(self, odd: Command, words: list[str]) -> None:
        [meant] = suggested(odd.run("store", *words, code=2))
        invoke(*shlex.split(meant)[1:])
        assert odd.json("list")[0]["content"] == " ".join(words)

    @pytest.mark.parametrize(
        "words",
        [
            ["search", "--limt", "3"],
            ["list", "-x"],
            ["search", "--tag=a b"],
            ["frob"],
            ["store", "x", "--tag"],
        ],
    )
    def test_where_nothing_was_meant_nothing_is_suggested(self, words: list[str]) -> None:
        assert "agent-memory" not in invoke(*words, code=2).stderr.partition("Error: ")[2]


class TestNobodyToAsk:
    """Without a terminal, a question names the option that answers it."""

    def test_what_would_delete_or_replace(self, command: Command, tmp_path: Path) -> None:
        id = command.json("store", "one", "--tag", "x")["memory_id"]
        file = tmp_path / "memories.jsonl"
        file.write_text("mine")
        for words in (
            ["forget", id],
            ["share", "--tag", "x", "--to", "alice"],
            ["export", str(file)],
        ):
            process = command.start(*words)
            _, said = process.communicate("")
            assert process.returncode == 1 and "add --yes. Nothing was changed." in said
        assert file.read_text() == "mine" and len(command.json("list")) == 1


class TestPackages:
    """A package that only some commands need is asked for by these, when they need it."""

    @pytest.fixture
    def lacks(self, tmp_path: Path) -> Callable[[str], str]:
        """A path from which Python cannot import a package."""

        def without(package: str) -> str:
            folder = tmp_path / f"without {package}"
            folder.mkdir()
            code = f"import sys\nsys.modules[{package!r}] = None\n"
            (folder / "sitecustomize.py").write_text(code)
            return str(folder)

        return without

    @pytest.mark.parametrize(("module", "package"), [("click", "click"), ("yaml", "pyyaml")])
    def test_one_that_is_needed_at_once(
        self, odd: Command, lacks: Callable[[str], str], module: str, package: str
    ) -> None:
        settings(agent_identity="sam")
        process = odd.start("list", PYTHONPATH=lacks(module))
        _, said = process.communicate()
        assert process.returncode == 1 and "Traceback" not in said
        assert said.endswith(f"uv pip install --python {sys.executable} {package}\n")
