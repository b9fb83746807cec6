"""A person installs the command as the README says, and it works from a separate environment."""

import json
import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
from mcp.client.stdio import StdioServerParameters
from mcp_client import connected
from scripted import MEMORY_MODULE, REPOSITORY

# That of the real home, so that nothing is fetched twice.
CACHE = subprocess.check_output(["uv", "cache", "dir"], text=True).strip()

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.fixture(autouse=True)
def cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UV_CACHE_DIR", CACHE)


def installed(page: str, ending: str, tmp_path: Path) -> dict[str, str]:
    """The environment after the line of this page was run in a clone."""
    clone = tmp_path / "clone"
    shutil.copytree(MEMORY_MODULE, clone / "modules/tool-memory-semantic")
    text = (REPOSITORY / page).read_text()
    [line] = re.findall(rf"^uv tool install .*{ending}$", text, re.MULTILINE)
    places = {"UV_TOOL_DIR": str(tmp_path / "tools"), "UV_TOOL_BIN_DIR": str(tmp_path / "bin")}
    environment = {**os.environ, **places, "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}"}
    subprocess.run(shlex.split(line), cwd=clone, env=environment, check=True)
    return environment


def below(folder: Path) -> set[Path]:
    return {each.relative_to(folder) for each in folder.rglob("*") if each.is_file()}


def test_uv_tool_install_from_a_clone(tmp_path: Path) -> None:
    environment = installed("README.md", r'\[cli\]"', tmp_path)

    def run(*arguments: str) -> str:
        command = [tmp_path / "bin/agent-memory", *arguments]
        return subprocess.check_output(command, env=environment, text=True)

    assert "agent-memory" in run("--version")
    [plugins] = (tmp_path / "tools").rglob("agent_memory/plugins")
    assert below(plugins) == below(MEMORY_MODULE / "agent_memory/plugins")
    run("store", "We chose PostgreSQL for the users table.", "--agent", "sam")
    [found] = json.loads(run("search", "Which database?", "--json"))
    assert found["content"].startswith("We chose PostgreSQL")
    run("stats", "--html", str(tmp_path / "page.html"))
    assert "We chose PostgreSQL" in (tmp_path / "page.html").read_text()
    assert "✗" not in run("doctor")


def test_without_the_extra_it_says_how_to_get_what_it_needs(tmp_path: Path) -> None:
    subprocess.run(["uv", "venv", "-q", tmp_path / "venv"], check=True)
    python = tmp_path / "venv/bin/python"
    subprocess.run(
        ["uv", "pip", "install", "-q", "--python", python, str(MEMORY_MODULE)], check=True
    )
    subprocess.run(["uv", "pip", "uninstall", "-q", "--python", python, "click"], check=True)

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [tmp_path / "venv/bin/agent-memory", *arguments]
        return subprocess.run(command, capture_output=True, text=True)

    lacking = run("list")
    assert lacking.returncode == 1 and "Traceback" not in lacking.stderr
    said, _, line = lacking.stderr.strip().rpartition("To install it alone: ")
    assert "needs the package click, a part of the extra [cli]" in said
    subprocess.run(shlex.split(line), check=True)
    assert run("store", "Tabs, not spaces.", "--agent", "sam").returncode == 0


async def test_a_client_of_mcp_as_the_page_says(tmp_path: Path) -> None:
    environment = installed("docs/mcp.md", "", tmp_path)
    block = (REPOSITORY / "docs/mcp.md").read_text().split("```json\n")[1].split("```")[0]
    told = json.loads(block)["mcpServers"]["memory"]
    command = shutil.which(told["command"], path=environment["PATH"]) or ""
    assert command.startswith(str(tmp_path))
    server = StdioServerParameters(command=command, args=told["args"], env=environment)
    async with connected(server) as memory:
        await memory.ask("memory_store", content="We chose PostgreSQL for the users table.")
        found = await memory.ask("memory_search", query="Which database?")
    assert found["memories"][0]["content"].startswith("We chose PostgreSQL")
