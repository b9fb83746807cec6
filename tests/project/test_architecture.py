"""The rooms of docs/architecture.md: who imports whom. Imports inside functions count."""

import ast
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest
from scripted import MEMORY_MODULE, REPOSITORY

# Each room of memory_semantic may import its own layer and what is below it.
LAYERS = (
    ("tools",),
    ("storage", "models"),
    ("maintenance", "usage"),
    ("files", "server"),
    ("embeddings", "merging"),
    ("store",),
    ("ranking",),
    (
        *("check", "errors", "identity", "limits", "masking", "memory", "network"),
        *("plaintext", "posix", "resources", "settings", "workers"),
    ),
)
LAYER_OF = {room: number for number, rooms in enumerate(LAYERS) for room in rooms}
GROUND = set(LAYERS[-1])
# To tell a misspelt setting from a server's, the names of those are needed where there is none.
UPWARD = {("memory_semantic.settings", "memory_semantic.server.settings")}

# What each package outside imports of memory_semantic; "" is what it exports. The command, a guest
# of the core, takes public names alone: its own, and those of the one door for keeping stores in
# order.
OUTSIDE = {
    "agent_memory": {"", "limits", "maintenance", "models"},
    "memory_hooks": {"", *GROUND, "embeddings", "ranking"},
    "memory_sharing": {"", *GROUND, "tools"},
    "amplifier_module_tool_memory_semantic": {"tools"},
    "amplifier_module_tool_memory_semantic_sharing": set[str](),
    "amplifier_module_hooks_memory_semantic_capture": set[str](),
    "amplifier_module_hooks_memory_semantic_context": set[str](),
}
DOORS = ("memory_semantic", "memory_semantic.maintenance", "memory_semantic.models")

# The modules, or the room, that may import what is not ours: it takes long to load, or is good for
# one thing only.
USERS = {
    "qdrant_edge": {"files.shard", "files.query"},
    "qdrant_client": {"server"},
    "openai": {"embeddings.service"},
    "fastembed": {"embeddings.onnx"},
    "huggingface_hub": {"embeddings.fetch"},
    "onnxruntime": {"embeddings.direct"},
    "amplifier_core": {"tools"},
}


def modules(package: str) -> dict[str, Path]:
    """By dotted name, the modules of a package."""
    found = {}
    for path in sorted((MEMORY_MODULE / package).rglob("*.py")):
        parts = path.relative_to(MEMORY_MODULE).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    assert found
    return found


CORE = modules("memory_semantic")
EVERYTHING = {name for package in ("memory_semantic", *OUTSIDE) for name in modules(package)}


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
    """`files` for memory_semantic.files.shard; "" for memory_semantic itself."""
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
    assert upward == UPWARD


def test_files_and_the_server_do_not_know_each_other() -> None:
    rooms = {(room(name), room(target)) for name, target in imported_of_the_core("memory_semantic")}
    assert not rooms & {("files", "server"), ("server", "files")}


@pytest.mark.parametrize("package", USERS)
def test_only_these_know(package: str) -> None:
    users = {
        name.removeprefix("memory_semantic.")
        for name, path in CORE.items()
        if any(target.split(".")[0] == package for target in imports(name, path))
    }
    assert users
    assert not [user for user in users if not {user, user.split(".")[0]} & USERS[package]]


def test_the_core_knows_nothing_that_is_built_on_it() -> None:
    others = {*OUTSIDE, "memory_daemon"}
    for name, path in CORE.items():
        assert others.isdisjoint(target.split(".")[0] for target in imports(name, path)), name


@pytest.mark.parametrize("package", OUTSIDE)
def test_what_is_built_on_the_core_imports_these_rooms(package: str) -> None:
    assert {room(target) for _, target in imported_of_the_core(package)} <= OUTSIDE[package]


def test_the_command_imports_only_public_names() -> None:
    public = {door: {*import_module(door).__all__, "maintenance", "models"} for door in DOORS}
    wrong = [
        (name, node.module, alias.name)
        for name, path in modules("agent_memory").items()
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("memory_semantic")
        for alias in node.names
        if alias.name not in public.get(node.module or "", ())
    ]
    assert not wrong


def test_every_public_name_can_be_imported_and_few_are_needed() -> None:
    core = import_module("memory_semantic")
    assert all(hasattr(core, name) for name in core.__all__) and len(core.__all__) <= 25


def test_the_page_shows_every_room() -> None:
    picture = (REPOSITORY / "docs/architecture.md").read_text().split("```")[1]
    assert {*LAYER_OF, *OUTSIDE} <= set(re.findall(r"\w+", picture))
