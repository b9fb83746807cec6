"""`agent-memory model`: one command from nothing to a store with a model that runs here."""

import asyncio
import json
import signal
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
import yaml
from agent_memory.settings import load
from agent_memory.yaml_edit import with_value
from command import Command, invoke, settings
from memory_semantic import EmbeddingGenerator, MemoryStorage
from memory_semantic.limits import MULTILINGUAL
from model_hub import BGE, FILE_OF, ModelHub
from qdrant_server import QdrantServer

TEXTS = [f"The {color} door leads to room {number}." for number, color in enumerate("abc" * 130)]


class InEveryFolder(Command):
    """Without --root: on the stores that sessions have, whose settings `model use` may write."""

    def _all(self, arguments: tuple[str, ...]) -> list[str]:
        return [*arguments, *([] if "--agent" in arguments else ["--agent", "sam"])]


@pytest.fixture
def root() -> Path:
    return Path("~/.amplifier/memory").expanduser()


@pytest.fixture
def command(root: Path) -> Command:
    return InEveryFolder(root)


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModelHub]:
    with ModelHub() as serving:
        monkeypatch.setenv("FASTEMBED_CACHE_PATH", str(tmp_path / "models"))
        monkeypatch.setenv("HF_ENDPOINT", serving.url)
        yield serving


def use(command: Command, *arguments: str, code: int = 0) -> tuple[str, str]:
    """What `model use` prints in a process of its own, which reads HF_ENDPOINT."""
    process = command.start("model", "use", *arguments)
    said = process.communicate(timeout=50)
    assert process.returncode == code, said
    return said


async def test_one_command_fetches_a_model_reembeds_the_store_and_sets_it(
    hub: ModelHub, command: Command, root: Path, sam: MemoryStorage
) -> None:
    await sam.store_many(TEXTS[:3])
    file = settings()
    file.write_text("overrides:\n  # mine\n  tool-x: {config: {}}  # stays\n")
    said, notes = use(command, BGE, "--yes")
    assert said == f"3 memories of sam with the model {BGE}.\n"
    assert f"fetches 67.0 MB from {hub.url}, licence mit" in notes and "100%" in notes
    assert "embeds 3 memories of sam anew (so far with local)" in notes
    assert file.read_text() == (
        "overrides:\n  # mine\n  tool-x: {config: {}}  # stays\n"
        f"  tool-memory-semantic:\n    config:\n      embedding_model: {BGE}\n"
    )
    storage = MemoryStorage("sam", {"storage_root": str(root)})
    info = await storage.info()
    assert info and info.model == (BGE, "c0ffeec0ffee.1", 384)
    hub.headers.clear()
    facts, notes = use(command, BGE, "--json")  # asks nothing: all is done
    assert json.loads(facts)["memories"] == 3 and notes == "" and hub.headers == []
    rows = json.loads(invoke("model", "list", "--json").stdout)
    states = {row["model"]: (row["name"], row["state"]) for row in rows}
    assert states == {MULTILINGUAL: ("multilingual", "not fetched"), BGE: ("", "fetched")}


async def test_an_interruption_leaves_a_working_store_and_the_next_run_finishes(
    hub: ModelHub, command: Command, sam: MemoryStorage
) -> None:
    await sam.store_many(TEXTS)
    hub.cut = FILE_OF[BGE]
    fetching = command.start("model", "use", BGE, "--yes")
    await until(lambda: hub.cut in hub.fetched)
    fetching.send_signal(signal.SIGINT)  # while the rest does not come
    assert "Interrupted. Nothing was changed. Run it again" in fetching.communicate(timeout=9)[1]
    assert fetching.returncode == 1 and (await sam.search(TEXTS[7]))[0].content == TEXTS[7]
    hub.cut = ""
    hub.go_on.set()
    embedding = command.start("model", "use", BGE, "--yes")
    gathered = partial(command.root.glob, "sam/qdrant.db/*.vectors")
    await until(lambda: any(gathered()) or embedding.poll() is not None)
    embedding.send_signal(signal.SIGINT)
    said = embedding.communicate(timeout=50)[1]
    assert embedding.returncode in (0, 1), said
    info = await sam.info()  # it may have been interrupted when all was done
    assert info and info.model.model in ((BGE, "local") if embedding.returncode else (BGE,)), said
    use(command, BGE, "--yes")
    with_model = MemoryStorage("sam", {"storage_root": str(command.root)})
    assert (await with_model.search(TEXTS[7]))[0].content == TEXTS[7]


async def until(true: Callable[[], bool]) -> None:
    """Wait until something is `true`, for a minute at most."""
    async with asyncio.timeout(60):
        while not true():
            await asyncio.sleep(0.01)


def test_the_setting_is_changed_where_it_is_and_a_service_is_left(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = settings(embedding_model="bge-m3", base_url="http://localhost:1/v1")
    command.run("model", "use", "local", "--yes")
    new = yaml.safe_load(file.read_text())["overrides"]["tool-memory-semantic"]["config"]
    assert new == {"embedding_model": "local", "base_url": None}


ELSEWHERE = "    config: {embedding_model: x}\n"
IN_LIST = f"modules:\n  tools:\n  - module: tool-memory-semantic\n{ELSEWHERE}"


@pytest.mark.parametrize(
    ("file", "text", "options", "block"),
    [
        ("~/.amplifier/settings.yaml", "overrides: {a: 1}\n", [], "overrides:"),
        ("~/.amplifier/settings.yaml", IN_LIST, [], "modules:\n  tools:\n  - module: tool"),
        (
            "~/.amplifier/settings.yaml",
            f"overrides:\n  tool-memory-semantic:\n{ELSEWHERE}{IN_LIST}",
            *([], "modules:\n  tools:\n  - module: tool"),
        ),
        (
            ".amplifier/settings.yaml",
            f"overrides:\n  tool-memory-semantic:\n{ELSEWHERE.replace('x', 'local')}",
            *([], "overrides:"),
        ),
        (
            ".amplifier/settings.yaml",
            "overrides:\n  tool-memory-semantic:\n    config: {base_url: 'http://localhost:1/v1'}\n",
            *([], "overrides:"),
        ),
        ("~/.amplifier/settings.yaml", "", ["--root", "other"], "overrides:"),
    ],
)
def test_what_is_not_written_is_printed_and_when_pasted_is_what_sessions_get(
    command: Command,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    file: str,
    text: str,
    options: list[str],
    block: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    path = Path(file).expanduser().absolute()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    said = command.run("model", "use", "static", "--yes", *options).stderr
    assert path.read_text() == text and "for all agents" not in said
    _, _, pasted = said.partition(f"In {path}:\n")
    assert pasted.startswith(block)
    path.write_text(pasted)
    config = load(None).config
    assert config.pop("base_url", None) is None and config.pop("dimensions", None) is None
    root = {"storage_root": str(tmp_path / "other")} if options else {}
    assert config == {"embedding_model": "static", **root}


def test_other_agents_are_named_that_need_the_same(command: Command) -> None:
    for agent in ("sam", "alice"):
        command.run("store", "tea", "--agent", agent)
    command.run("model", "use", "local", "--yes")  # which all have
    said = command.run("model", "use", "static", "--yes").stderr
    assert "with --agent: alice." in said


@pytest.mark.parametrize(
    ("name", "said"),
    [("englsh", "no model 'englsh' that runs"), ("no/such", "agent-memory model list --all")],
)
def test_a_name_that_does_not_run_here_is_refused(command: Command, name: str, said: str) -> None:
    assert said in command.run("model", "use", name, "--yes", code=2).stderr


def test_a_store_of_another_version_is_embedded_anew_once_that_was_agreed_to(
    command: Command,
) -> None:
    file = settings(embedding_model="static")
    command.run("store", "tea")
    [manifest] = command.root.glob("sam/**/manifest.json")
    version = EmbeddingGenerator("static").version or ""
    older = manifest.read_text().replace(version, "an older one")
    manifest.write_text(older)
    said = command.run("model", "use", "static", input="n\n").stderr
    assert "embeds 1 memory of sam anew (so far with static)" in said
    assert manifest.read_text() == older
    command.run("model", "use", "static", "--yes")
    assert "tea" in command.run("search", "tea").stdout and "static" in file.read_text()


def test_on_a_server_it_says_at_once_how_a_store_gets_another_model(
    command: Command, qdrant: QdrantServer
) -> None:
    settings(qdrant_url=qdrant.url)
    command.run("store", "tea")
    said = command.run("model", "use", BGE, code=1).stderr
    assert "`agent-memory export" in said and "fetches" not in said
    said = command.run("model", "use", "local", "--yes")
    assert "1 memory of sam with the model local." in said.stdout
    assert "embedding_model: local" in said.stderr


@pytest.mark.parametrize(
    ("package", "said"),
    [
        ("fastembed", "the package fastembed. Nothing was changed. Run: uv pip install --python"),
        ("onnxruntime", "cannot be imported: import of onnxruntime halted; None in sys.modules."),
    ],
)
def test_without_the_package_the_model_that_was_asked_for_and_what_to_install_are_named(
    command: Command, monkeypatch: pytest.MonkeyPatch, package: str, said: str
) -> None:
    for module in [name for name in sys.modules if name.startswith("fastembed")]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, package, None)
    settings(agent_identity="sam")
    for line in (f"model use {BGE}", "model list"):
        found = invoke(*line.split(), code=1).stderr
        assert said in found and found.endswith(f"agent-memory {line}\n")
        assert MULTILINGUAL not in found
    assert not (command.root / "sam").exists()


OVERRIDES = "overrides:\n  tool-memory-semantic:\n    config:\n"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", f"{OVERRIDES}      a: x\n"),
        ("# none\n", f"# none\n{OVERRIDES}      a: x\n"),
        ("b: 1 # one\n\n# end", f"b: 1 # one\n{OVERRIDES}      a: x\n\n# end"),
        (f"{OVERRIDES}      b: 1\nc: [2]\n", f"{OVERRIDES}      b: 1\n      a: x\nc: [2]\n"),
        (f"{OVERRIDES}      a: old  # mine\n", f"{OVERRIDES}      a: x  # mine\n"),
        (
            "overrides:\n    z:\n      - 1\n",
            "overrides:\n    z:\n      - 1\n    tool-memory-semantic:\n      config:\n"
            "        a: x\n",
        ),
        (
            f"{OVERRIDES}      a: old\n".replace("\n", "\r\n"),
            f"{OVERRIDES}      a: x\n".replace("\n", "\r\n"),
        ),
        ("b: 1\r\n", f"b: 1\n{OVERRIDES}      a: x\n".replace("\n", "\r\n")),
        ("overrides: {tool-memory-semantic: {config: {b: 1}}}", None),
        ("x: &a {a: 1}\noverrides: {tool-memory-semantic: {config: *a}}", None),
        ("overrides:\n  tool-memory-semantic:\n    config: &a\n      a: 1\nx: *a\n", None),
        ("overrides:\n", None),
        ("[]", None),
    ],
)
def test_only_the_value_is_changed(before: str, after: str | None) -> None:
    keys = ["overrides", "tool-memory-semantic", "config", "a"]
    try:
        assert with_value(before, keys, "x") == after
    except ValueError:
        assert after is None
