"""The settings that Amplifier would give the tools in this folder, read from its own files.

They are read as by Amplifier's command line: from `~/.amplifier/settings.yaml`, then from
`.amplifier/settings.yaml` and `.amplifier/settings.local.yaml` here, where later ones win; in them,
first `overrides`, then `modules.tools`. `${NAME}` and `${NAME:default}` are expanded, and
`~/.amplifier/keys.env` adds what the environment lacks. What a bundle sets is known only inside a
session.
"""

import getpass
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from memory_semantic import InputError, configured_agent, glance, limits

if TYPE_CHECKING:
    from memory_semantic import MemoryStorage, Place

MODULE = "tool-memory-semantic"
# The settings that name the agent; they say nothing about its store.
_IDENTITY = ("agent_identity", "agent_id")
# Stands for any agent where the answer is the same for all.
_ANYBODY = "anybody"
_IN_LIST = " (modules: tools)"
_VARIABLE = re.compile(r"\$\{([^}:]+)(?::([^}]*))?}")


@dataclass
class Settings:
    """The module's `config`, where each of its settings came from, a sentence for each thing that
    is wrong in the files, a file of settings that cannot be read, if there is one, and the `root`
    that was given in their place.
    """

    config: dict[str, Any] = field(default_factory=dict)
    sources: dict[str, str] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    unread: Path | None = None
    root: str | None = None

    def storage(self, agent: str = _ANYBODY, **changes: Any) -> "MemoryStorage":
        """The storage of `agent`, with `changes` to the settings. Raises InputError for a setting
        that is wrong or unknown.
        """
        from memory_semantic import MemoryStorage, core_settings

        return MemoryStorage(agent, {**core_settings(self.config, own=_IDENTITY), **changes})

    @property
    def place(self) -> "Place":
        """Where the stores of all agents are kept."""
        return self.storage().place

    def named_agent(self) -> tuple[str, str] | None:
        """The identity that sessions have here, if any, and what sets it."""
        named = configured_agent(self.config)
        return (named[0], self.sources.get(named[1], f"the variable {named[1]}")) if named else None

    def agent(self) -> tuple[str, bool]:
        """Whose memory it is where no option says so, and whether there is a reason: the settings
        or the environment name it, or it is the only one that has a store. Else it is the one named
        after the login, if that has a store, or nobody. Raises InputError if others have, or if a
        file that cannot be read may name another.
        """
        if named := self.named_agent():
            return named[0], True
        here = glance.is_here(self.config)  # the place would load the engine
        agents = glance.agents(glance.root_of(self.config)) if here else self.place.agents()
        if self.unread:
            raise InputError(f"Whose memories? Name the agent with --agent, or mend {self.unread}.")
        if len(agents) == 1:
            return agents[0], True
        if agents and _login() not in agents:
            there = f"Whose memories? There are stores of {', '.join(agents)}."
            how = "or with agent_identity in ~/.amplifier/settings.yaml"
            raise InputError(f"{there} Name the agent with --agent, {how}.")
        return _login(), False

    def to_set(self, **values: object) -> str:
        """Tells a person what to write where, so that sessions get these settings; None is left
        out.
        """
        if self.root:
            values = {"storage_root": self.root, **values}
        file, in_list, _ = self._place(values).partition(_IN_LIST)
        block = ["overrides:", f"  {MODULE}:", "    config:"]
        if in_list:
            block = ["modules:", "  tools:", f"  - module: {MODULE}", "    config:"]
        lines = [f"      {name}: {value}" for name, value in values.items() if value]
        return "\n".join([f"In {file}:", *block, *lines])

    def _place(self, names: Iterable[str]) -> str:
        # The strongest of the places that set one of these.
        order = [str(path) for path in files()]
        return max(
            (self.sources[name] for name in names if name in self.sources),
            key=lambda place: order.index(place) if place in order else len(order),
            default=str(home() / "settings.yaml"),
        )


def load(root: str | None) -> Settings:
    """The settings that the files and the environment give now, with the stores in `root` if it is
    given. Also puts the keys of `keys.env` into the environment.
    """
    settings = Settings(problems=list(load_keys()))
    overrides: dict[str, tuple[Any, str]] = {}
    tools: dict[str, tuple[Any, str]] = {}
    for path in files():
        try:
            content = _yaml(path)
        except (OSError, ValueError) as error:
            settings.problems.append(f"{path} is skipped, by Amplifier too: {_reason(error)}.")
            settings.unread = path
            continue
        module = _mapping(_mapping(content.get("overrides")).get(MODULE))
        overrides |= {key: (value, str(path)) for key, value in _config(module).items()}
        listed = _mapping(content.get("modules")).get("tools")
        if isinstance(listed, list):  # the list of a later file replaces that of an earlier one
            tools = {
                key: (value, f"{path}{_IN_LIST}")
                for entry in listed
                if isinstance(entry, Mapping) and entry.get("module") == MODULE
                for key, value in _config(entry).items()
            }
    for key, (value, source) in (overrides | tools).items():
        settings.config[key] = _expanded(value)
        settings.sources[key] = source
    if root is not None:
        with suppress(FileNotFoundError):  # the current folder was deleted
            root = root if root.startswith("~") else str(Path(root).absolute())
        settings.root = root
        settings.config |= {"storage_root": root, "qdrant_url": limits.HERE}
    return settings


def files() -> list[Path]:
    """The settings files that exist, the strongest last."""
    paths = [home() / "settings.yaml"]
    with suppress(FileNotFoundError):  # the current folder was deleted
        here = Path(".amplifier").absolute()
        paths += [here / "settings.yaml", here / "settings.local.yaml"]
    return [path for path in dict.fromkeys(paths) if path.exists()]


def home() -> Path:
    """Amplifier's own folder. For a user without a home it is a path that does not exist."""
    return Path(os.path.expanduser("~/.amplifier"))  # noqa: PTH111 - Path's would raise an error


def _login() -> str:
    """The name of the login, as one that an agent may have; `me` if nothing is left of it."""
    login = ""
    with suppress(ImportError, KeyError, OSError):  # none of the variables, and no such user
        login = getpass.getuser()
    return re.sub("[^a-z0-9_-]+", "-", login.lower()).strip("-")[:64] or "me"


def load_keys() -> Iterator[str]:
    """Put into the environment what `keys.env` has and the environment lacks. Yields a sentence for
    whatever cannot be used.
    """
    path = home() / "keys.env"
    try:
        lines = path.read_text("utf-8-sig").split("\n") if path.exists() else []
    except (OSError, ValueError) as error:
        yield f"{path} is skipped, by Amplifier too: {_reason(error)}."
        return
    for number, line in enumerate(map(str.strip, lines), start=1):
        name, equals, value = line.partition("=")
        if not line or line.startswith("#"):
            continue
        if not (equals and name.strip().isidentifier()):
            yield f"{path}, line {number}, is skipped: it is not NAME=value."
            continue
        try:
            os.environ.setdefault(name.strip(), value.strip().strip("\"'"))
        except ValueError:
            why = "no variable can hold it"
            yield f"{path} is skipped from line {number} on, by Amplifier too: {why}."
            return


def _yaml(path: Path) -> Mapping[str, Any]:
    text = path.read_text("utf-8-sig")
    if MODULE not in text:
        return {}  # to load the parser takes longer than all else that a hook does
    import yaml

    try:
        content = yaml.safe_load(text)
    except RecursionError:
        raise InputError("it is nested too deeply") from None
    except (yaml.YAMLError, ValueError) as error:
        mark = getattr(error, "problem_mark", None)
        raise InputError(f"it is not YAML{f' (line {mark.line + 1})' if mark else ''}") from None
    if content is not None and not isinstance(content, Mapping):
        raise InputError("it holds no settings")
    return content or {}


def _reason(error: OSError | ValueError) -> str:
    if isinstance(error, UnicodeError):
        return "it is not UTF-8 text"
    return error.strerror or "it cannot be read" if isinstance(error, OSError) else str(error)


def _config(module: Mapping[str, Any]) -> Mapping[str, Any]:
    return _mapping(module.get("config"))


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _expanded(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    return _VARIABLE.sub(lambda found: os.environ.get(found[1], found[2] or ""), value)
