"""The documents say what is true: commands run, settings exist, files are where they say."""

import json
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import click
import pytest
import yaml
from agent_memory.cli import cli
from command import EXECUTABLE, Command, invoke
from memory_semantic import identity
from scripted import MEMORY_MODULE, MEMORY_MODULES, REPOSITORY

README = (REPOSITORY / "README.md").read_text()
MODULE_README = (MEMORY_MODULE / "README.md").read_text()
CLIENTS_PAGE = (REPOSITORY / "docs/clients.md").read_text()
SERVER_PAGE = (REPOSITORY / "docs/server.md").read_text()
BUNDLE = yaml.safe_load((REPOSITORY / "bundle.md").read_text().split("---")[1])
AMPLIFIER = "git+https://github.com/microsoft/amplifier-module-"
BEHAVIORS = sorted((REPOSITORY / "behaviors").glob("*.yaml"))


def blocks(text: str, language: str) -> list[str]:
    fenced = re.findall(r"^```(\w*)\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    return [block for named, block in fenced if named == language]


def test_what_the_readme_tries(tmp_path: Path) -> None:
    """A terminal shows the score, and above the text what else is known of it."""
    command = Command(tmp_path / "memory")
    [store, stored, search, found, text] = blocks(README, "text")[0].splitlines()
    command.run(*shlex.split(store)[2:])
    assert re.fullmatch("mem-[0-9a-f]{12}  stored for sam", stored)
    [memory] = command.json(*shlex.split(search)[2:])
    assert re.fullmatch(rf"{memory['score']:.2f}  mem-\w+  2026-[\d: -]+", found)
    assert text == memory["content"]


def test_what_the_page_shows_of_setup(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, title in (("claude", "2.1.332 (Claude Code)"), ("codex", "codex-cli 0.171.0")):
        program = tmp_path / name
        program.write_text(f"#!/bin/sh\necho '{title}'\n")
        program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{EXECUTABLE.parent}:/usr/bin:/bin")
    told = invoke("setup", "claude", "codex", "--dry-run").stdout
    told = told.replace(str(MEMORY_MODULE), "…").splitlines()
    [block] = [each for each in blocks(CLIENTS_PAGE, "text") if "$ agent-memory setup" in each]
    shown = block.partition("Go on?")[0].splitlines()[1:]
    assert shown == told[: len(shown)]


def test_the_python_in_the_module_s_readme_runs(tmp_path: Path) -> None:
    [code] = blocks(MODULE_README, "python")
    output = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=True
    )
    assert "We chose PostgreSQL for the users table." in output.stdout
    assert (tmp_path / "home/.amplifier/memory/sam").is_dir()


def test_the_module_s_readme_lists_what_names_an_agent() -> None:
    """In the order of `test_settings.py`, *the first that is set wins*."""
    section = MODULE_README.split("## Whose memory")[1].split("```")[0]
    assert re.findall(r"^\d\. [^`]*`([\w.]+)`", section, re.MULTILINE) == [
        *("agent_identity", "session.agent_identity", "session.capabilities.agent_identity"),
        *identity.SETTINGS,
        identity.ENVIRONMENT_VARIABLE,
    ]


def test_the_files_for_a_server_are_whole() -> None:
    compose = yaml.safe_load((REPOSITORY / "docs/server/compose.yaml").read_text())
    workflow = yaml.safe_load((REPOSITORY / ".github/workflows/ci.yml").read_text())
    job = workflow["jobs"]["qdrant"]
    images = {service["image"] for service in compose["services"].values()}
    assert images == {job["services"]["qdrant"]["image"]}
    assert job["steps"][-1]["run"] in SERVER_PAGE


def test_security_names_tests_that_exist() -> None:
    security = (REPOSITORY / "SECURITY.md").read_text()
    tests = {path.name: path.read_text() for path in (REPOSITORY / "tests").rglob("test_*.py")}
    assert set(re.findall(r"test_\w+\.py", security)) <= set(tests)
    everything = "".join(tests.values())
    for phrase in re.findall(r"\*([a-z][^*]+)\*", security.split("## Not promised")[0]):
        assert f"test_{'_'.join(phrase.split())}" in everything, phrase


def test_the_documented_export_can_be_imported(tmp_path: Path) -> None:
    page = (REPOSITORY / "docs/export.md").read_text()
    data = "".join(blocks(page, "json")).encode()
    (tmp_path / "page.jsonl").write_bytes(data)
    command = Command(tmp_path / "memory")
    command.run("import", str(tmp_path / "page.jsonl"))
    exported = command.run("export", "-").stdout.encode().splitlines(keepends=True)
    assert exported[1] == data.splitlines(keepends=True)[1]
    assert json.loads(exported[0]).keys() == json.loads(data.decode().splitlines()[0]).keys()


def test_commands_in_the_readme_exist() -> None:
    for name, rest in re.findall(r"`agent-memory ([a-z]+)([^`]*)`", README):
        command = cli.get_command(click.Context(cli), name)
        assert command, name
        options = {option for each in command.params for option in each.opts}
        assert set(re.findall(r"--[a-z-]+", rest)) <= options


def version(package: str) -> str:
    project = tomllib.loads((REPOSITORY / package / "pyproject.toml").read_text())
    return project["project"]["version"]


def test_everything_has_the_version_of_its_module() -> None:
    bundles = [BUNDLE, *(yaml.safe_load(path.read_text()) for path in BEHAVIORS)]
    latest = re.findall(r"^## (\S+)", (REPOSITORY / "CHANGELOG.md").read_text(), re.MULTILINE)[0]
    named = {latest, *(each["bundle"]["version"] for each in bundles)}
    assert named == {version("modules/tool-memory-semantic")}
    assert version("modules/hooks-memory-daemon") == version("packages/memory-daemon")


@pytest.mark.parametrize("path", BEHAVIORS, ids=lambda path: path.stem)
def test_a_behavior_points_to_what_is_there(path: Path) -> None:
    behavior = yaml.safe_load(path.read_text())
    # Beside a bundle.md of the same name, Amplifier takes a behavior for the bundle itself.
    same = path.stem == BUNDLE["bundle"]["name"]
    assert behavior["bundle"]["name"] == path.stem + ("-behavior" if same else "")
    modules = [*behavior.get("tools", []), *behavior.get("hooks", [])]
    for module in modules:
        if module["module"] == "tool-skills":  # Amplifier's own; each bundle adds a folder to it
            [folder] = module["config"]["skills"]
            assert [*REPOSITORY.glob(f"{folder.removeprefix('@agent-memory:')}/*/SKILL.md")]
            continue
        if module["source"].startswith(f"{AMPLIFIER}{module['module']}@"):
            continue  # one of Amplifier's own
        source = (path.parent / module["source"]).resolve()
        own = source.name == module["module"]  # a module that is a distribution of its own
        assert source.is_dir() and (own or module["module"] in MEMORY_MODULES)
        assert own or source == MEMORY_MODULE
    files = [(name, "") for name in behavior.get("context", {}).get("include", [])]
    files += [(name, "agents/") for name in behavior.get("agents", {}).get("include", [])]
    files += [(each["bundle"], "") for each in behavior.get("includes", [])]
    assert modules or files
    for name, folder in files:
        namespace, _, file = name.partition(":")
        assert namespace == BUNDLE["bundle"]["name"]
        [found] = [
            each
            for each in (REPOSITORY / f"{folder}{file}{ending}" for ending in ("", ".md", ".yaml"))
            if each.is_file()
        ]
        assert found.parent.name != "context" or len(found.read_text().splitlines()) <= 30


def test_what_remembers_by_itself_is_not_in_the_bundle() -> None:
    ours = [each["bundle"] for each in BUNDLE["includes"] if "agent-memory:" in each["bundle"]]
    assert ours == ["agent-memory:behaviors/memory-core"]
    for name in re.findall(r"behaviors/([a-z-]+)\.yaml", README):
        assert (REPOSITORY / f"behaviors/{name}.yaml").is_file()


@pytest.mark.parametrize("block", blocks(README, "yaml"))
def test_the_yaml_that_users_paste_is_valid(block: str) -> None:
    assert isinstance(yaml.safe_load(block), dict)


def test_links_lead_somewhere() -> None:
    for document in (
        *REPOSITORY.glob("*.md"),
        *REPOSITORY.glob("docs/*.md"),
        *REPOSITORY.glob("modules/*/README.md"),
        *REPOSITORY.glob("packages/*/README.md"),
    ):
        for target in re.findall(r"\]\((?!https?:)([^)#]+)\)", document.read_text()):
            assert (document.parent / target).exists(), f"{document.name}: {target}"
