"""The documents say what is true: commands run, settings exist, files are where they say."""

import json
import re
import subprocess
import sys
from pathlib import Path

import command_line
import pytest
import yaml
from agent_memory import interchange
from agent_memory.cli import cli
from memory_hooks import recall
from memory_hooks.capture import CaptureConfig
from memory_hooks.recall import RecallConfig
from memory_semantic import MemoryStorage, limits
from memory_semantic.server.settings import ServerConfig
from memory_semantic.settings import StorageConfig
from scripted import MEMORY_MODULE, MEMORY_MODULES, REPOSITORY

README = (REPOSITORY / "README.md").read_text()
MODULE_README = (MEMORY_MODULE / "README.md").read_text()
SERVER_PAGE = (REPOSITORY / "docs/server.md").read_text()
BEHAVIORS = sorted((REPOSITORY / "behaviors").glob("*.yaml"))
PACKAGES = ("memory_semantic", "memory_hooks", "agent_memory")
SOURCES = [path for name in PACKAGES for path in (MEMORY_MODULE / name).rglob("*.py")]


def blocks(text: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)


def test_the_example_at_the_top_of_the_readme() -> None:
    commands = blocks(README, "bash")[0].split("\n")
    assert commands[0] == "pip install uv && uv run examples/remember.py"
    example = subprocess.run(
        [sys.executable, "-W", "error", REPOSITORY / "examples/remember.py"],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert (example.returncode, example.stderr) == (0, "")
    told = [line.strip() for line in example.stdout.splitlines()]
    for line in blocks(README, "")[0].splitlines():
        if "mem-" not in line and "…" not in line:
            assert line.strip() in told
    assert list((Path.home()).iterdir()) == []  # it uses a store of its own


def test_the_python_in_the_module_s_readme_runs(tmp_path: Path) -> None:
    [code] = blocks(MODULE_README, "python")
    output = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=True
    )
    assert "We chose PostgreSQL for the users table." in output.stdout
    assert (tmp_path / "home/.amplifier/memory/sam").is_dir()


def test_every_setting_is_in_the_table_with_its_default() -> None:
    table = MODULE_README.split("## Settings")[1].split("\n## ")[0]
    rows = dict(re.findall(r"^\| `(\w+)` \| ([^|]+) \|", table, re.MULTILINE))
    assert set(rows) == {"agent_identity", *StorageConfig.model_fields}
    for name in ("storage_root", "max_query_results", "lock_timeout"):
        default = StorageConfig.model_fields[name].default
        assert rows[name].strip("`") == (f"{default:g}" if name == "lock_timeout" else str(default))


def test_every_setting_of_a_server_is_in_the_tables_with_its_default() -> None:
    rows = dict(re.findall(r"^\| `(\w+)` \| ([^|]+) \|", SERVER_PAGE, re.MULTILINE))
    fields = ServerConfig.model_fields
    assert set(rows) == {"qdrant_url", *fields}
    for name in fields.keys() - {"qdrant_api_key", "qdrant_write_consistency"}:
        default = fields[name].default
        assert rows[name].strip("`") == (f"{default:,}" if isinstance(default, int) else default)


@pytest.mark.parametrize(("page", "config"), [("recall", RecallConfig), ("capture", CaptureConfig)])
def test_every_setting_of_a_hook_is_in_the_table_with_its_default(page: str, config: type) -> None:
    text = (REPOSITORY / f"docs/{page}.md").read_text()
    [table] = re.findall(r"^\| setting \|.*?\n\n", f"{text}\n", re.MULTILINE | re.DOTALL)
    rows = dict(re.findall(r"^\| `(\w+)` \| `?([^|`]+)`? \|", table, re.MULTILINE))
    fields = config.__dataclass_fields__
    assert set(rows) == set(fields)
    for name in fields.keys() - {"min_cosine"}:
        default = fields[name].default
        assert rows[name] == (f"{default:g}" if isinstance(default, float) else str(default))


def test_the_page_shows_what_recall_says_and_where_it_stops() -> None:
    text = (REPOSITORY / "docs/recall.md").read_text()
    [shown] = blocks(text, "")
    assert shown.startswith(recall._HEAD) and shown.endswith(f"{recall._TAIL}\n")
    for limit in (recall.MAX_SECONDS, recall.MAX_SHOWN_CHARS, *recall.MIN_COSINE.values()):
        assert f"{limit:g}" in text


def test_the_files_for_a_server_are_whole() -> None:
    compose = yaml.safe_load((REPOSITORY / "docs/server/compose.yaml").read_text())
    job = yaml.safe_load((REPOSITORY / ".github/workflows/qdrant.yaml").read_text())
    images = {service["image"] for service in compose["services"].values()}
    assert images == {job["jobs"]["contract"]["services"]["qdrant"]["image"]}
    assert job["jobs"]["contract"]["steps"][-1]["run"] in SERVER_PAGE


def test_every_limit_is_in_the_table_with_its_value() -> None:
    table = MODULE_README.split("## Limits")[1].split("\n## ")[0]
    pairs = re.findall(r"(\d[\d,]*)[^,|(]*\(`(\w+)`\)", table)
    told = {name: int(value.replace(",", "")) for value, name in pairs}
    numbers = {
        name: int(value)
        for name, value in vars(limits).items()
        if name.isupper() and isinstance(value, int | float)
    }
    not_limits = {"ALL", "RECENCY_BOOST", "LEXICAL_WEIGHT"}
    assert told == {name: numbers[name] for name in numbers.keys() - not_limits}


def test_security_names_tests_that_exist() -> None:
    security = (REPOSITORY / "SECURITY.md").read_text()
    tests = {path.name: path.read_text() for path in (REPOSITORY / "tests").rglob("test_*.py")}
    assert set(re.findall(r"test_\w+\.py", security)) <= set(tests)
    everything = "".join(tests.values())
    for phrase in re.findall(r"\*([a-z][^*]+)\*", security.split("## Not promised")[0]):
        assert f"test_{'_'.join(phrase.split())}" in everything, phrase


def test_the_reference_of_the_command_line_is_its_help() -> None:
    assert command_line.PAGE.read_text() == command_line.reference()


def test_the_documented_export_can_be_imported(tmp_path: Path) -> None:
    page = (REPOSITORY / "docs/export.md").read_text()
    data = "".join(blocks(page, "json")).encode()
    storage = MemoryStorage("sam", {"storage_root": str(tmp_path)})
    [(_, memory)], _ = interchange.read(data, "file", storage)
    exported = [*interchange.export_lines("sam", [memory])]
    assert exported[1] == data.decode().splitlines()[1]
    assert json.loads(exported[0]).keys() == json.loads(data.decode().splitlines()[0]).keys()


def test_commands_in_the_readme_exist() -> None:
    for name, rest in re.findall(r"`agent-memory ([a-z]+)([^`]*)`", README):
        options = {option for each in cli.commands[name].params for option in each.opts}
        assert set(re.findall(r"--[a-z-]+", rest)) <= options


@pytest.mark.parametrize("path", BEHAVIORS, ids=lambda path: path.stem)
def test_a_behavior_points_to_what_is_there(path: Path) -> None:
    header = yaml.safe_load((REPOSITORY / "bundle.md").read_text().split("---")[1])
    behavior = yaml.safe_load(path.read_text())
    assert behavior["bundle"]["name"] == path.stem
    assert behavior["bundle"]["version"] == header["bundle"]["version"]
    modules = [*behavior.get("tools", []), *behavior.get("hooks", [])]
    for module in modules:
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
        assert namespace == header["bundle"]["name"]
        [found] = [
            each
            for each in (REPOSITORY / f"{folder}{file}{ending}" for ending in ("", ".md", ".yaml"))
            if each.is_file()
        ]
        assert found.parent.name != "context" or len(found.read_text().splitlines()) <= 30


def test_what_remembers_by_itself_is_not_in_the_bundle() -> None:
    header = yaml.safe_load((REPOSITORY / "bundle.md").read_text().split("---")[1])
    ours = [each["bundle"] for each in header["includes"] if "agent-memory:" in each["bundle"]]
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
        MEMORY_MODULE / "README.md",
    ):
        for target in re.findall(r"\]\((?!https?:)([^)#]+)\)", document.read_text()):
            assert (document.parent / target).exists(), f"{document.name}: {target}"
