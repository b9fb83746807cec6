"""What clients install: one folder for Claude Code, Codex and Copilot CLI."""

import json
import re
from itertools import chain
from pathlib import Path

import pytest
from client_programs import PACKAGES
from scripted import MEMORY_MODULE, REPOSITORY

PLUGINS = MEMORY_MODULE / "agent_memory/plugins"
FOLDER = PLUGINS / "agent-memory"
# Codex does not run a hook that names anything else.
KNOWN = {"prompt", "session_id", "cwd"}
OF_CLAUDE_CODE = {"source"}


@pytest.mark.parametrize("place", [REPOSITORY, PLUGINS], ids=["repository", "package"])
def test_a_marketplace_names_the_folder(place: Path) -> None:
    market = json.loads((place / ".claude-plugin/marketplace.json").read_text())
    [plugin] = market["plugins"]
    assert market["name"] == plugin["name"] == "agent-memory"
    assert (place / plugin["source"]).resolve() == FOLDER


@pytest.mark.parametrize("client", [".claude-plugin", ".codex-plugin", ".github/plugin"])
def test_the_files_that_a_client_is_told_of_are_there(client: str) -> None:
    manifest = json.loads((FOLDER / client / "plugin.json").read_text())
    # With a version, Codex would ask the person for trust again at each release.
    assert manifest["name"] == "agent-memory" and "version" not in manifest
    for key in manifest.keys() & {"hooks", "mcpServers", "skills"}:
        assert (FOLDER / manifest[key]).exists(), key


def test_a_hook_runs_the_one_command_or_a_tool_and_tells_what_every_client_knows() -> None:
    files = [*PLUGINS.rglob("hooks/*.json")]
    assert len(files) == 3
    for file in files:
        known = KNOWN | (OF_CLAUDE_CODE if file.name == "hooks.json" else set())
        groups = chain.from_iterable(json.loads(file.read_text())["hooks"].values())
        for hook in chain.from_iterable(group["hooks"] for group in groups):
            if hook["type"] == "command":
                assert hook["command"] == "agent-memory hook"  # trusted as it is, to the letter
            else:
                assert hook["tool"] in ("before_prompt", "receipt")
                assert set(re.findall(r"\$\{(\w+)\}", str(hook["input"]))) <= known


def test_the_page_names_the_versions_that_are_run() -> None:
    page = " ".join((REPOSITORY / "docs/clients.md").read_text().split())
    run = re.findall(r"(?:Claude Code|Codex|Gemini CLI|Copilot CLI) ([\d.]+\d)[ ,]", page)
    assert {version for _, version in PACKAGES.values()} <= set(run)
