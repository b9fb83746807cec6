"""Whose store a call uses, and what a session says about itself. Resolved at each call, because a
host may name the agent late.
"""

import os
import re
import reprlib
from collections.abc import Mapping
from contextlib import suppress
from hashlib import sha256
from pathlib import Path, PurePath
from typing import Any

from .errors import InputError
from .limits import MAX_METADATA_CHARS

ENVIRONMENT_VARIABLE = "AMPLIFIER_AGENT_IDENTITY"
# The settings of a module that name the agent, the strongest first.
SETTINGS = ("agent_identity", "agent_id")

# The module that mounts the memory tools. Others that work on the same store read its settings.
TOOL_MODULE = "tool-memory-semantic"
RECALL_MODULE = "hooks-memory-semantic-recall"

# It becomes a folder name. Lower case only: on a file system that ignores case, `Sam` and `sam`
# would share one store (V1 design, section 7).
AGENT_ID = re.compile(r"[a-z0-9_-]{1,64}")

# In a repository's config, the address of its remote `origin`, unless that is a folder named by the
# way from here; without what may follow a path.
_ORIGIN = re.compile(
    r'(?m)^\[remote "origin"\][^[]*?^[ \t]*url[ \t]*=[ \t]*+"?+([^."\n?#][^"\n?#]*)'
)
# Of what differs in git@example.com:a/b and https://sam:key@example.com/a/b, only the host is kept.
_ADDRESS = re.compile(r"^(?:[\w+.-]+://)?(?:[^/]*@)?([^/:]*):?(?:\d+(?=/))?/*")

# What says in a memory's metadata in which project it holds.
_PROJECT = ("project", "project_id")

_HOW_TO_SET = """in ~/.amplifier/settings.yaml:
overrides:
  tool-memory-semantic:
    config:
      agent_identity: your-name"""


def validate_agent_id(agent_id: object) -> str:
    """`agent_id` itself. Raises InputError unless it is 1 to 64 of a-z, 0-9, `_` and `-`."""
    if not isinstance(agent_id, str):
        raise InputError(
            f"agent_identity must be a text, not {reprlib.repr(agent_id):.40}: put it in quotes, "
            f"{_HOW_TO_SET}"  # not repr: with aliases a little YAML stands for gigabytes
        )
    if AGENT_ID.fullmatch(agent_id):
        return agent_id
    if agent_id.isascii() and AGENT_ID.fullmatch(agent_id.lower()):
        remedy = f"Write it in lower case: {agent_id.lower()}"
    elif agent_id.startswith(("${", "{{")):
        remedy = f"It was not expanded. Write the name itself, {_HOW_TO_SET}"
    else:
        remedy = "Use 1 to 64 of the characters a-z, 0-9, _ and -."
    raise InputError(f"The agent_identity {agent_id!r:.80} cannot name a store. {remedy}")


def overruled(agent_id: object) -> str:
    """A sentence if the environment names another agent than `agent_id`, which won; else blank."""
    other = os.environ.get(ENVIRONMENT_VARIABLE)
    if not _is_set(other) or other == agent_id:
        return ""
    first = "the agent_identity of the session or the settings comes first"
    return f"{ENVIRONMENT_VARIABLE} names {other!r:.80}, but is not used: {first}."


def configured_agent(config: Mapping[str, Any]) -> tuple[str, str] | None:
    """The identity in a module's `config` or the environment, and the setting or variable that
    names it. Raises InputError if the first that is set is not a valid name.
    """
    named = {name: config.get(name) for name in SETTINGS}
    named[ENVIRONMENT_VARIABLE] = os.environ.get(ENVIRONMENT_VARIABLE)
    found = next((name for name, value in named.items() if _is_set(value)), None)
    return (_checked(named[found]), found) if found else None


def resolve_agent_id(coordinator: Any, config: Mapping[str, Any]) -> str:
    """The identity of the session that `coordinator` belongs to.

    The first of these that is set, blank counting as not set: the capability `agent_identity`, the
    session's configuration (`session.agent_identity`, `session.capabilities.agent_identity`), the
    module's `config` (`agent_identity`, or `agent_id`), the environment. Session before module, so
    that an agent that states its own identity keeps its own store whatever the user's settings say.

    Raises InputError if none is set, or if the first that is set is not a valid name.
    """
    session = _mapping(_mapping(coordinator.config).get("session"))
    candidates = (
        coordinator.get_capability("agent_identity"),
        session.get("agent_identity"),
        _mapping(session.get("capabilities")).get("agent_identity"),
    )
    stated = next(filter(_is_set, candidates), None)
    if stated is not None:
        return _checked(stated)
    if configured := configured_agent(config):
        return configured[0]
    raise InputError(
        "This session has no agent_identity, so it has no store; nothing was stored or searched. "
        f"Ask the user to set one, {_HOW_TO_SET}"
    )


def module_config(coordinator: Any, module: str) -> Mapping[str, Any]:
    """The config of this tool module in the session's mount plan; empty if it is not there."""
    for entry in _mapping(coordinator.config).get("tools") or ():
        if isinstance(entry, Mapping) and entry.get("module") == module:
            return entry.get("config") or {}
    return {}


def origin(coordinator: Any, stored_by: str, *, everywhere: bool = False) -> dict[str, str]:
    """The metadata of what `stored_by` stores in the session of `coordinator`: with the project, in
    which it holds, unless it holds `everywhere`.
    """
    known = {"stored_by": stored_by, "session": coordinator.session_id}
    known |= {} if everywhere else project_of(coordinator)
    return {name: str(text)[:MAX_METADATA_CHARS] for name, text in known.items() if text}


def project_of(coordinator: Any) -> dict[str, str]:
    """The project that a session works on: its name as `project`, and as `project_id` what tells it
    from others. It is a repository, known by the address of its remote `origin`, else by the folder
    that its worktrees share; without one, the working directory. Empty if that was removed.
    """
    try:
        here = Path(coordinator.get_capability("session.working_dir") or ".").resolve()
    except (OSError, RuntimeError):  # the latter is a loop of links
        return {}
    address = str(here)
    with suppress(OSError, ValueError, RuntimeError):
        address = _repository(here) or address
    whole, name = (
        text.encode(errors="surrogateescape") for text in (address, PurePath(address).name)
    )
    key = sha256(whole).hexdigest()[:12]
    return {"project": name.decode(errors="replace").strip() or key, "project_id": key}


def of_project(metadata: Mapping[str, str], other: Mapping[str, str]) -> dict[str, str]:
    """The `metadata` of a memory with the project in `other`; without one, it holds in all."""
    own = {name: text for name, text in metadata.items() if name not in _PROJECT}
    return own | {name: other[name] for name in _PROJECT if name in other}


def _repository(here: Path) -> str | None:
    """The address of the repository that `here` is in. Only reads git's own files."""
    for git in (folder / ".git" for folder in (here, *here.parents)):
        if not git.exists():
            continue
        # Of a worktree: gitdir: /home/sam/shop/.git/worktrees/fix, and in that, commondir: ../..
        pointed = _text(git).removeprefix("gitdir:").strip()
        own = git.parent / pointed if pointed else git
        shared = (own / _text(own / "commondir").strip()).resolve()
        origin = _ORIGIN.search(_text(shared / "config"))
        address = _ADDRESS.sub(r"\1/", origin[1].strip().lower()) if origin else str(shared)
        return address.rstrip("/").removesuffix(".git").rstrip("/")
    return None


def _text(file: Path) -> str:
    return file.read_text(encoding="utf-8", errors="replace") if file.is_file() else ""


def _checked(agent_id: object) -> str:
    try:
        return validate_agent_id(agent_id)
    except InputError as error:
        raise InputError(f"{error}\n{overruled(agent_id)}".rstrip()) from None


def _is_set(value: object) -> bool:
    return value is not None and not (isinstance(value, str) and not value.strip())


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
