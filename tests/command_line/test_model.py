"""`agent-memory model`: one command from nothing to a store with a model that runs here."""

import json
import signal
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from agent_memory.settings import load
from command import Command, invoke, settings
from memory_semantic import EmbeddingGenerator, MemoryStorage
from memory_semantic.limits import MULTILINGUAL
from model_hub import BGE, FILE_OF, ModelHub
from processes import wait_until
from qdrant_server import QdrantServer

TEXTS = [f"The {color} door leads to room {number}." for number, color in enumerate("abc" * 90)]


@pytest.fixture
def root() -> Path:
    return Path("~/.amplifier/memory").expanduser()


@pytest.fixture
def command() -> Command:
    """On the stores that sessions have."""
    return Command()


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


async def test_one_command_fetches_a_model_and_reembeds_the_store_for_all_sessions(
    hub: ModelHub, command: Command, root: Path, sam: MemoryStorage
) -> None:
    await sam.store_many(TEXTS[:3])
    said, notes = use(command, BGE, "--yes")
    assert said == f"3 memories of sam with the model {BGE}.\n"
    assert f"fetches 67.0 MB from {hub.url}, licence mit" in notes and "100%" in notes
    assert "embeds 3 memories of sam anew (so far with local)" in notes
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
    wait_until(lambda: hub.cut in hub.fetched, 60)
    fetching.send_signal(signal.SIGINT)  # while the rest does not come
    assert "Interrupted. Nothing was changed. Run it again" in fetching.communicate(timeout=9)[1]
    assert fetching.returncode == 1 and (await sam.search(TEXTS[7]))[0].content == TEXTS[7]
    hub.cut = ""
    hub.go_on.set()
    embedding = command.start("model", "use", BGE, "--yes")
    gathered = partial(command.root.glob, "sam/qdrant.db/*.vectors")
    wait_until(lambda: any(gathered()) or embedding.poll() is not None, 60)
    embedding.send_signal(signal.SIGINT)
    said = embedding.communicate(timeout=50)[1]
    assert embedding.returncode in (0, 1), said
    info = await sam.info()  # it may have been interrupted when all was done
    assert info and info.model.model in ((BGE, "local") if embedding.returncode else (BGE,)), said
    use(command, BGE, "--yes")
    with_model = MemoryStorage("sam", {"storage_root": str(command.root)})
    assert (await with_model.search(TEXTS[7]))[0].content == TEXTS[7]


def test_without_a_store_it_makes_one_which_keeps_the_model(command: Command) -> None:
    said = command.run("model", "use", "static", input="n\n").stderr
    assert "makes a store for sam" in said and not (command.root / "sam").exists()
    command.run("model", "use", "static", "--yes")
    stored = command.json("store", "tea")
    assert stored["embedding_model"] == "static" and not stored["new_store"]
    again = command.run("model", "use", "static")  # asks nothing: all is done
    assert again.stdout == "1 memory of sam with the model static.\n" and not again.stderr


OURS, LOCAL = "overrides:\n  tool-memory-semantic:\n", "    config: {embedding_model: local}\n"
SERVICE = "    config: {base_url: 'http://localhost:1/v1', embedding_model: m, dimensions: 9}\n"
IN_LIST = "modules:\n  tools:\n  - module: tool-memory-semantic\n"


@pytest.mark.parametrize(
    ("file", "text", "begins"),
    [
        ("~/.amplifier/settings.yaml", f"{OURS}{LOCAL}{IN_LIST}{LOCAL}", "modules:"),
        (".amplifier/settings.yaml", f"{OURS}{SERVICE}", "overrides:"),
    ],
)
def test_settings_that_say_otherwise_are_told_and_when_pasted_are_what_sessions_get(
    command: Command,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    file: str,
    text: str,
    begins: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    path = Path(file).expanduser().absolute()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    said = command.run("model", "use", "static", "--yes").stderr
    assert path.read_text() == text
    _, _, pasted = said.partition(f"In {path}:\n")
    assert pasted.startswith(begins)
    path.write_text(pasted)
    config = load(None).config
    assert {name: value for name, value in config.items() if value} == {"embedding_model": "static"}
    assert command.json("store", "tea")["embedding_model"] == "static"


@pytest.mark.parametrize(
    ("name", "said"),
    [("englsh", "no model 'englsh' that runs"), ("no/such", "agent-memory model list --all")],
)
def test_a_name_that_does_not_run_here_is_refused(command: Command, name: str, said: str) -> None:
    assert said in command.run("model", "use", name, "--yes", code=2).stderr


def test_a_store_of_another_version_is_embedded_anew_once_that_was_agreed_to(
    command: Command,
) -> None:
    settings(embedding_model="static")
    command.run("store", "tea")
    [manifest] = command.root.glob("sam/**/manifest.json")
    version = EmbeddingGenerator("static").version or ""
    older = manifest.read_text().replace(version, "an older one")
    manifest.write_text(older)
    said = command.run("model", "use", "static", input="n\n").stderr
    assert "embeds 1 memory of sam anew (so far with static)" in said
    assert manifest.read_text() == older
    command.run("model", "use", "static", "--yes")
    assert "tea" in command.run("search", "tea").stdout


def test_on_a_server_it_says_at_once_how_a_store_gets_another_model(
    command: Command, qdrant: QdrantServer
) -> None:
    settings(qdrant_url=qdrant.url)
    command.run("store", "tea")
    said = command.run("model", "use", BGE, code=1).stderr
    assert "`agent-memory export" in said and "fetches" not in said
    said = command.run("model", "use", "local", "--yes")
    assert "1 memory of sam with the model local." in said.stdout
    assert not said.stderr


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
