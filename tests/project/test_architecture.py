"""The rooms of docs/architecture.md: who imports whom. Imports inside functions count."""

import ast
import re
from collections.abc import Iterator
from graphlib import TopologicalSorter
from importlib import import_module
from pathlib import Path

import pytest
from scripted import MEMORY_MODULE, REPOSITORY

DAEMON = REPOSITORY / "packages" / "memory-daemon"

# Each room of memory_semantic may import its own layer and what is below it.
LAYERS = (
    ("answers", "tools"),
    ("storage",),
    ("upkeep", "usage"),
    ("files",),
    ("examine", "findings", "place"),
    ("embeddings", "exchange", "links"),
    ("store",),
    ("merging", "ranking"),
    ("points",),
    (
        *("check", "errors", "glance", "identity", "limits", "masking", "memory"),
        *("network", "plaintext", "posix", "remembered", "settings", "speaker", "times"),
        *("tokens", "workers"),
    ),
)
LAYER_OF = {room: number for number, rooms in enumerate(LAYERS) for room in rooms}
GROUND = set(LAYERS[-1])
# What the two places are built on.
UNDER_FILES = {room for room, number in LAYER_OF.items() if number > LAYER_OF["files"]}

# What each package outside imports of memory_semantic; "" is what it exports. The command and the
# daemon, guests of the core, take public names alone.
OUTSIDE = {
    "agent_memory": {"", "exchange", "glance", "limits", "times", "upkeep"},
    "memory_hooks": {"", *GROUND, "embeddings", "ranking"},
    "memory_mcp": {"", *GROUND, "tools"},
    "memory_models": GROUND,
    "memory_server": UNDER_FILES,
    "memory_sharing": {"", *GROUND, "tools"},
    "amplifier_module_tool_memory_semantic": {"identity", "tools"},
    "amplifier_module_tool_memory_semantic_sharing": set[str](),
    "amplifier_module_hooks_memory_semantic_capture": set[str](),
    "amplifier_module_hooks_memory_semantic_recall": set[str](),
    "memory_daemon": {""},
}

# The modules, or the room, that may import what takes long to load, or is good for one thing only.
USERS = {
    "qdrant_edge": {"files.edge"},
    "qdrant_client": {"memory_server"},
    "memory_server": {"storage", "upkeep"},
    "openai": {"embeddings.service"},
    "memory_sharing": {
        "agent_memory.commands.share",
        "amplifier_module_tool_memory_semantic_sharing",
    },
    "memory_models": {"embeddings.generator", "agent_memory.commands.model"},
    "fastembed": {"memory_models"},
    "huggingface_hub": {"memory_models"},
    "amplifier_core": {"tools", "memory_hooks"},
}


def modules(package: str) -> dict[str, Path]:
    """By dotted name, the modules of a package."""
    found = {}
    parent = DAEMON if package == "memory_daemon" else MEMORY_MODULE
    for path in sorted((parent / package).rglob("*.py")):
        parts = path.relative_to(parent).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    assert found
    return found


CORE = modules("memory_semantic")
EVERYTHING = CORE | {name: path for each in OUTSIDE for name, path in modules(each).items()}


def imports(name: str, path: Path) -> Iterator[str]:
    """The dotted names of all modules that this one imports, wherever in it."""
    package = name.split(".") if path.stem == "__init__" else name.split(".")[:-1]
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            source = ".".join([*base, *filter(None, [node.module])])
            for alias in node.names:
                submodule = f"{source}.{alias.name}"
                yield submodule if submodule in EVERYTHING else source


def room(module: str) -> str:
    """`files` for memory_semantic.files.edge; "" for memory_semantic itself."""
    return [*module.split("."), ""][1]


def imported_of_the_core(package: str) -> set[tuple[str, str]]:
    return {
        (name, target)
        for name, path in modules(package).items()
        for target in imports(name, path)
        if target.split(".")[0] == "memory_semantic"
    }


def test_every_module_has_its_layer() -> None:
    assert {room(name) for name in CORE} - {""} == set(LAYER_OF)


def test_imports_go_downward() -> None:
    upward = {
        (name, target)
        for name, target in imported_of_the_core("memory_semantic")
        if room(name) and (not room(target) or LAYER_OF[room(target)] < LAYER_OF[room(name)])
    }
    assert not upward


def test_imports_go_in_no_circle() -> None:
    known = {
        name: set(imports(name, path)) - {name, "memory_semantic"}
        for package in ("memory_semantic", "memory_server")
        for name, path in modules(package).items()
    }
    TopologicalSorter(known).prepare()  # raises CycleError


@pytest.mark.parametrize("package", USERS)
def test_only_these_know(package: str) -> None:
    users = {
        name.removeprefix("memory_semantic.")
        for name, path in EVERYTHING.items()
        if name.split(".")[0] != package
        if any(target.split(".")[0] == package for target in imports(name, path))
    }
    assert users
    assert not [user for user in users if not {user, user.split(".")[0]} & USERS[package]]


def test_the_core_knows_nothing_that_is_built_on_it() -> None:
    others = OUTSIDE.keys() - USERS.keys()
    for name, path in (CORE | modules("memory_server")).items():
        assert others.isdisjoint(target.split(".")[0] for target in imports(name, path)), name


@pytest.mark.parametrize("package", OUTSIDE)
def test_what_is_built_on_the_core_imports_these_rooms(package: str) -> None:
    assert {room(target) for _, target in imported_of_the_core(package)} <= OUTSIDE[package]


@pytest.mark.parametrize("package", ["agent_memory", "memory_daemon"])
def test_a_guest_imports_only_public_names(package: str) -> None:
    public = import_module("memory_semantic").__all__
    wrong = [
        (name, node.module, alias.name)
        for name, path in modules(package).items()
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("memory_semantic")
        for alias in node.names
        if node.module != "memory_semantic" or alias.name not in public
    ]
    assert not wrong


def test_the_daemon_knows_nothing_else_that_is_built_on_the_core() -> None:
    others = OUTSIDE.keys() - {"memory_daemon"}
    for name, path in modules("memory_daemon").items():
        assert others.isdisjoint(target.split(".")[0] for target in imports(name, path)), name


def test_every_public_name_can_be_imported_and_few_are_needed() -> None:
    core = import_module("memory_semantic")
    assert all(hasattr(core, name) for name in core.__all__) and len(core.__all__) <= 37


def test_the_page_shows_every_room() -> None:
    picture = (REPOSITORY / "docs/architecture.md").read_text().split("```")[1]
    assert {*LAYER_OF, *OUTSIDE} <= set(re.findall(r"\w+", picture))
