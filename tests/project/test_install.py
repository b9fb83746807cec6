"""A person installs the command as the README says, and it works from a separate environment."""

import json
import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
from scripted import MEMORY_MODULE, REPOSITORY

# That of the real home, so that nothing is fetched twice.
CACHE = subprocess.check_output(["uv", "cache", "dir"], text=True).strip()

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.fixture(autouse=True)
def cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UV_CACHE_DIR", CACHE)


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A repository with one commit, of what this one holds now."""
    clone = tmp_path / "clone"
    left_out = shutil.ignore_patterns(".git", ".venv", "__pycache__", ".*_cache", "uv.lock")
    shutil.copytree(REPOSITORY, clone, ignore=left_out)
    commit(clone)
    return clone


def commit(clone: Path) -> None:
    git = ["git", "-c", "user.name=Sam", "-c", "user.email=sam@example.com"]
    for words in (["init"], ["add", "--all"], ["commit", "--message", "As it is now"]):
        subprocess.run([*git, *words], cwd=clone, check=True)


def line(page: str, beginning: str) -> str:
    """The one line of this page that begins so, without its comment."""
    [found] = re.findall(rf"^{beginning}.*$", (REPOSITORY / page).read_text(), re.MULTILINE)
    return found.partition("   #")[0]


def tools(tmp_path: Path) -> dict[str, str]:
    """An environment in which `uv tool` installs into this folder."""
    places = {"UV_TOOL_DIR": str(tmp_path / "tools"), "UV_TOOL_BIN_DIR": str(tmp_path / "bin")}
    return {**os.environ, **places, "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}"}


def megabytes(folder: Path) -> float:
    return sum(each.lstat().st_blocks for each in folder.rglob("*")) * 512 / 2**20


def below(folder: Path) -> set[Path]:
    return {each.relative_to(folder) for each in folder.rglob("*") if each.is_file()}


def test_the_first_command_runs_in_a_bare_clone(clone: Path) -> None:
    """And its environment stays small: whoever only looks is not asked for what the tests need."""
    first = line("README.md", "pip install uv && ").removeprefix("pip install uv && ")
    subprocess.run(shlex.split(first), cwd=clone, check=True)
    find = ["uv", "python", "find", "--script", first.split()[-1]]
    python = Path(subprocess.check_output(find, cwd=clone, text=True).strip())
    environment = python.parents[1]
    try:
        assert python.is_relative_to(CACHE)
        assert 100 < megabytes(environment) <= 250
    finally:
        shutil.rmtree(environment)
    assert [*Path.home().iterdir()] == []  # it uses a store of its own
    assert not (clone / ".venv").exists() and not (clone / "uv.lock").exists()


def test_installed_without_a_clone_updated_and_removed(clone: Path, tmp_path: Path) -> None:
    environment = tools(tmp_path)

    def as_told(beginning: str) -> None:
        told = re.sub(r"git\+https://[^#]+", f"git+file://{clone}", line("README.md", beginning))
        subprocess.run(shlex.split(told), cwd=tmp_path, env=environment, check=True)

    def run(*arguments: str, input: str = "") -> str:
        command = [tmp_path / "bin/agent-memory", *arguments]
        return subprocess.check_output(command, env=environment, text=True, input=input)

    as_told("uv tool install ")
    assert "agent-memory" in run("--version")
    [plugins] = (tmp_path / "tools").rglob("agent_memory/plugins")
    assert below(plugins) == below(MEMORY_MODULE / "agent_memory/plugins")
    run("store", "We chose PostgreSQL for the users table.", "--agent", "sam")
    [found] = json.loads(run("search", "Which database?", "--json"))
    assert found["content"].startswith("We chose PostgreSQL")
    run("stats", "--html", str(tmp_path / "page.html"))
    assert "We chose PostgreSQL" in (tmp_path / "page.html").read_text()
    assert "✗" not in run("doctor")
    search = {"name": "memory_search", "arguments": {"query": "Which database?"}}
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": search}
    assert "We chose PostgreSQL" in run("mcp", input=json.dumps(call))

    project = clone / "modules/tool-memory-semantic/pyproject.toml"
    project.write_text(re.sub(r'(?m)^version = ".*"$', 'version = "99.0"', project.read_text()))
    commit(clone)
    as_told("uv tool upgrade ")
    assert "99.0" in run("--version")
    assert json.loads(run("search", "Which database?", "--json")) == [found]

    as_told("uv tool uninstall ")
    assert not (tmp_path / "bin/agent-memory").exists()
    assert (Path.home() / ".amplifier/memory/sam").is_dir()
