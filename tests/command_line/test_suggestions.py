"""What the command suggests can be pasted, and is about the store that it worked on."""

import re
import shlex
import sys
from collections.abc import Callable
from pathlib import Path

import click
import pytest
from agent_memory.cli import COMMANDS, cli
from click.testing import CliRunner, Result
from command import Command, invoke, settings

# A suggested command ends where its line, its code span or its sentence does.
SUGGESTED = re.compile(rf"agent-memory (?:{'|'.join(COMMANDS)})\b[^`\n;,]*")


def garble(folder: Path) -> None:
    (folder / "qdrant.db/manifest.json").write_text("{")


def erase_shard(folder: Path) -> None:
    for path in folder.glob("qdrant.db/shard-*/**/version.info"):
        path.unlink()


def change_model(_: Path) -> None:
    settings(embedding_model="text-embedding-3-small")


def interrupt(folder: Path) -> None:
    (folder / "rebuild").mkdir()


def remove(folder: Path) -> None:
    folder.rename(folder.with_name("elsewhere"))


@pytest.fixture
def odd(tmp_path: Path) -> Command:
    """The store of sam, in a folder whose name a shell would split."""
    command = Command(tmp_path / "my memory")
    command.run("store", "We chose PostgreSQL. " * 40)
    return command


def suggested(result: Result) -> list[str]:
    return SUGGESTED.findall(result.output.replace("\n\n", "\n"))


class TestOptions:
    @pytest.mark.parametrize("harm", [garble, erase_shard, change_model, interrupt, remove])
    @pytest.mark.parametrize(
        "words",
        [
            *(["list"], ["store", "x"], ["stats"], ["doctor"], ["doctor", "--json"], ["agents"]),
            *(["forget", "mem-000000000000"], ["model", "fetch", "nonsense"]),
        ],
        ids=" ".join,
    )
    def test_every_suggested_command_has_those_that_were_given(
        self, odd: Command, harm: Callable[[Path], None], words: list[str]
    ) -> None:
        harm(odd.root / "sam")
        of_agent = words[0] not in ("agents", "model")
        given = ["--root", str(odd.root), *(["--agent", "sam"] if of_agent else [])]
        for line in suggested(CliRunner().invoke(cli, [*words, *given])):
            if "--json" in words:
                line = line.partition('"')[0]
            assert f"--root {shlex.quote(str(odd.root))}" in line, line
            if not re.match("agent-memory (agents|model (fetch|list))", line):
                assert "--agent sam" in line or words == ["agents"], line

    @pytest.mark.parametrize("harm", [garble, interrupt])
    def test_nothing_is_added_if_nothing_was_given(
        self, odd: Command, harm: Callable[[Path], None]
    ) -> None:
        settings(agent_identity="sam", storage_root=str(odd.root))
        harm(odd.root / "sam")
        for words in (["list"], ["doctor"], ["show", "mem-000000000000"]):
            said = CliRunner().invoke(cli, words).output
            assert "--root" not in said and "--agent" not in said

    def test_what_is_suggested_works_when_it_is_pasted(self, odd: Command) -> None:
        invoke("store", "healthy", "--agent", "sam")  # where the settings have it
        garble(odd.root / "sam")
        [doctor] = suggested(odd.run("list", code=1))
        result = invoke(*shlex.split(doctor.partition(".")[0])[1:], code=1)
        [repair] = [line for line in suggested(result) if "--repair" in line]
        assert "Rebuilt, with 1 memory" in invoke(*shlex.split(repair)[1:], input="y\n").output
        assert len(odd.json("list")) == 1

    def test_what_it_suggests_to_remove_is_that_alone(self, odd: Command) -> None:
        names = ("rebuild", "rebuild.tmp", "damaged-20260101-000000")
        for name in names:
            (odd.root / "sam" / name).mkdir()
        said = odd.run("doctor").stdout
        for name in names:
            assert f"rm -r {shlex.quote(str(odd.root / 'sam' / name))}\n" in said
        [memory] = odd.json("list")
        kept = odd.root / "sam" / names[-1]
        (kept / "text").write_text(memory["content"])
        said = odd.run("forget", memory["id"], "--yes", code=1).stderr
        assert f"rm -r {shlex.quote(str(kept))}" in said

    def test_the_repair_still_finds_what_is_repairable(self, odd: Command) -> None:
        garble(odd.root / "sam")
        [problem] = [each for each in odd.json("doctor", code=1) if each["state"] == "problem"]
        assert problem["mend"].startswith("agent-memory doctor --agent sam --root ")
        assert problem["mend"].endswith(" --repair")

    def test_another_agent_that_is_named_stays(self, odd: Command) -> None:
        odd.run("store", "two", "--agent", "alice")
        garble(odd.root / "alice")
        said = odd.run("agents").stdout
        root = shlex.quote(str(odd.root))
        assert f"agent-memory doctor --agent alice --root {root}\n" in said

    def test_a_memory_is_no_suggestion(self, odd: Command) -> None:
        id = odd.json("store", "Run agent-memory doctor, then agent-memory list.")["memory_id"]
        for words in (["list"], ["show", id], ["search", "doctor"]):
            assert "Run agent-memory doctor, then agent-memory list." in odd.run(*words).stdout

    def test_every_command_takes_what_is_added(self) -> None:
        context = click.Context(cli)
        for name in COMMANDS:
            found = cli.get_command(context, name)
            assert found
            commands = found.commands.values() if isinstance(found, click.Group) else [found]
            for each in commands:
                options = {option for param in each.params for option in param.opts}
                full = f"{name} {each.name}" if isinstance(found, click.Group) else name
                expected = (
                    {"--root"}
                    if full in ("agents", "model fetch", "model list")
                    else {
                        "--root",
                        "--agent",
                    }
                )
                assert name == "completion" or options & {"--root", "--agent"} == expected


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

    def test_a_no_is_no_lack_of_an_answer(self, command: Command) -> None:
        id = command.json("store", "one")["memory_id"]
        said = command.run("forget", id, input="n\n", code=1).stderr
        assert said.endswith("Error: Nothing was changed.\n")


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
