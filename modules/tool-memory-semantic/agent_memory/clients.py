"""The clients of the memory: what each is given, and how that is taken back."""

import json
import os
import re
import shlex
import shutil
import subprocess
import tomllib
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from .files import rewrite

PLUGINS = Path(__file__).parent / "plugins"
TRUST = 'open it once; at "Hooks need review" choose 2, "Trust all and continue"'
# The marketplace in that folder, its plugin, and where Claude Code and Copilot CLI note them.
_MARKET, _PLUGIN = "agent-memory", "agent-memory@agent-memory"
_NOTED = (("extraKnownMarketplaces", _MARKET), ("enabledPlugins", _PLUGIN))
# Seconds for a client's command.
_SECONDS = 120
# Characters shown of what a client says about its failure.
_SHOWN = 1000
_OURS = re.compile(r"(^|[/ ])agent-memory'?( hook)?$")
_COMMAND = re.compile(r'"command": ("(?:\\.|[^"\\])*")')

# The keys that lead to a value. A None at the end means an item of the list there.
Keys = tuple[str | None, ...]


@dataclass
class Plan:
    """What is to be done: commands of the client, then edits, each a file, its text before and
    after, None for no file. `problems` say what is left to the person.
    """

    undo: bool
    commands: list[list[str]] = field(default_factory=list)
    edits: list[tuple[Path, str | None, str | None]] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    def apply(self) -> None:
        """Do it. Raises OSError, or ValueError with what the client said."""
        for command in self.commands:
            done = subprocess.run(
                command,
                cwd=Path.home(),  # outside of any project, with nobody to ask
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=_SECONDS,
            )
            if done.returncode:
                said = (done.stderr.strip() or done.stdout.strip())[:_SHOWN]
                raise ValueError(f"{shlex.join(command)} failed: {said}")
        for file, before, after in self.edits:
            if _read(file) != before:
                raise ValueError(f"{file} was changed meanwhile, and stays as it is")
            if after is None:
                file.unlink(missing_ok=True)
            else:
                rewrite(file, after)


@dataclass(frozen=True)
class Client:
    """A program that can use the memory. One with a window may have no command, but a `folder`."""

    name: str
    title: str
    command: str
    folder: Path | None

    @property
    def found(self) -> bool:
        """Whether it is on this machine."""
        return bool(shutil.which(self.command) or (self.folder and self.folder.is_dir()))


@dataclass(frozen=True)
class Plugin(Client):
    """A client that takes the plugin by its own commands, and notes that in the file `config`.
    Where installing again brings no new version, there is an `update`.
    """

    config: Path
    install: str = "install"
    uninstall: str = "uninstall"
    update: str = ""

    def plan(self, undo: bool) -> Plan:
        """What sets it up, or undoes that. Raises ValueError if the file cannot be read."""
        source, enabled = self._noted()
        moved, steps = source != str(PLUGINS), list[list[str]]()
        # Copilot CLI goes on noting that it is not enabled.
        if undo and (enabled or (source and enabled is not None)):
            steps.append([self.uninstall, _PLUGIN])
        if source and (undo or moved):
            steps.append(["marketplace", "remove", _MARKET])
        if not undo and moved:
            steps.append(["marketplace", "add", str(PLUGINS)])
        if not undo:
            steps.append([self.install, _PLUGIN])
        if not undo and not moved and enabled and self.update:
            steps.append([self.update, _PLUGIN])
        if undo and steps and not self.found:
            gone = (
                f"{self.command} is not on this machine, so what {self.config} names has no effect."
            )
            return Plan(undo, problems=[gone])
        commands = [[self.command, "plugin", *step] for step in steps]
        return Plan(undo, commands)

    def _noted(self) -> tuple[str | None, bool | None]:
        """The folder or address of our marketplace, and if the plugin is enabled; None: unknown."""
        text, is_toml = _read(self.config), self.config.suffix == ".toml"
        try:
            data = tomllib.loads(text or "") if is_toml else _parsed(text)
        except ValueError as error:
            raise ValueError(f"{self.config} cannot be read: {error}") from None
        if is_toml:
            source = _at(data, ("marketplaces", _MARKET, "source"))
            return source, _at(data, ("plugins", _PLUGIN, "enabled"))
        market, plugin = (_at(data, keys) for keys in _NOTED)
        source = _at(market, ("source", "path")) or ("elsewhere" if market else None)
        return source, plugin


class Part(NamedTuple):
    """What a client gets in one file of JSON, and what such a file holds besides if it is new."""

    file: Path
    values: list[tuple[Keys, Any]]
    new: dict[str, Any] = {}  # noqa: RUF012 - never changed

    def added(self, data: dict[str, Any]) -> dict[str, Any]:
        """`data` with this. What the person added to a value of ours stays, unless the command is
        elsewhere by now. Raises ValueError if something else is in the way.
        """
        data = deepcopy(data or self.new)
        for keys, value in self.values:
            held = _held(data, keys)
            if held and _commands(held) != _commands(value):
                _take_out(data, keys)
                held = None
            if not held:
                _put(data, keys, value)
        return data

    def taken_out(self, data: dict[str, Any]) -> dict[str, Any] | None:
        """`data` without this; None if it was there, and nothing else is."""
        held = [keys for keys, _ in self.values if _held(data, keys)]
        data = deepcopy(data)
        for keys in held:
            _take_out(data, keys)
        return None if held and data == self.new else data


@dataclass(frozen=True)
class Files(Client):
    """A client that reads what we write into its files."""

    parts: list[Part]

    def plan(self, undo: bool) -> Plan:
        """See `Plugin`."""
        plan = Plan(undo)
        for part in self.parts:
            before = _read(part.file)
            try:
                data = _parsed(before)
                after = part.taken_out(data) if undo else part.added(data)
            except ValueError as error:
                stays = f"{part.file} stays as it is: {error}."
                text, mine = before or "", _dumped(part.added({}))
                added = all(command in text for command in _COMMAND.findall(mine))
                if not undo and not added:
                    plan.problems += [stays, f"Add this to it yourself:\n{mine}"]
                elif undo and "agent-memory" in text:
                    plan.problems += [stays, "Take out what names agent-memory."]
                continue
            if undo and any(map(_OURS.search, _commands(after or {}))):
                left = f"{part.file} still names agent-memory, beside what is yours. Take that out."
                plan.problems.append(left)
            if after is None and part.file.is_symlink():
                after = part.new
            if after != data:
                text = None if after is None else _dumped(after, before or "")
                plan.edits.append((part.file, before, text))
        return plan


def clients() -> list[Plugin | Files]:
    """All that the memory can be set up for."""
    home, support = Path.home(), Path.home() / "Library/Application Support"  # the latter on a Mac
    code = (support if support.is_dir() else _folder("XDG_CONFIG_HOME", ".config")) / "Code/User"
    claude, codex = _folder("CLAUDE_CONFIG_DIR", ".claude"), _folder("CODEX_HOME", ".codex")
    copilot, cursor = _folder("COPILOT_HOME", ".copilot"), home / ".cursor"
    # A program with a window may not find the command. The path is that of the link, which stays
    # when what it leads to changes.
    path = shutil.which("agent-memory") or "agent-memory"
    server, hook = {"command": path, "args": ["mcp"]}, f"{shlex.quote(path)} hook"
    gemini = [
        (("mcpServers", "memory"), {"command": "agent-memory", "args": ["mcp"], "trust": True}),
        *_hooks(_group("agent-memory hook", 5000), "SessionStart", "BeforeAgent"),
    ]
    # Copilot CLI reads the file of VS Code's hooks, too, but has them from the plugin.
    code_hook = _group(f'[ -n "$COPILOT_PROJECT_DIR" ] || {hook}', 5)
    code_hooks = _hooks(code_hook, "SessionStart", "UserPromptSubmit")
    code_parts = [
        Part(code / "mcp.json", [(("servers", "memory"), {"type": "stdio", **server})]),
        Part(copilot / "hooks/agent-memory.json", code_hooks),
    ]
    cursor_hooks = _hooks({"command": hook}, "sessionStart", "beforeSubmitPrompt")
    cursor_parts = [
        Part(cursor / "mcp.json", [(("mcpServers", "memory"), server)]),
        Part(cursor / "hooks.json", cursor_hooks, {"version": 1}),
    ]
    gemini_parts = [Part(home / ".gemini/settings.json", gemini)]
    return [
        Plugin("claude", "Claude Code", "claude", None, claude / "settings.json", update="update"),
        Plugin("codex", "Codex", "codex", None, codex / "config.toml", "add", "remove"),
        Plugin("copilot", "Copilot CLI", "copilot", None, copilot / "settings.json"),
        Files("gemini", "Gemini CLI", "gemini", None, gemini_parts),
        Files("vscode", "VS Code", "code", code, code_parts),
        Files("cursor", "Cursor", "cursor", cursor, cursor_parts),
    ]


def _hooks(hook: dict[str, Any], *events: str) -> list[tuple[Keys, Any]]:
    return [(("hooks", event, None), hook) for event in events]


def _group(command: str, timeout: int) -> dict[str, Any]:
    """A hook in Claude Code's form."""
    return {"hooks": [{"type": "command", "command": command, "timeout": timeout}]}


def _commands(value: Any) -> list[str]:
    """What this starts."""
    return [json.loads(each) for each in _COMMAND.findall(json.dumps(value))]


def _ours(value: Any) -> bool:
    """Whether all that this starts is agent-memory."""
    commands = _commands(value)
    return bool(commands) and all(_OURS.search(each) for each in commands)


def _at(data: Any, keys: Keys) -> Any:
    """What is under these keys; None if nothing is."""
    for key in keys:
        data = data.get(key) if isinstance(data, dict) else None
    return data


def _held(data: Any, keys: Keys) -> Any:
    """What these data have of ours there, if anything."""
    value = _at(data, keys[:-1] if keys[-1] is None else keys)
    values = value if isinstance(value, list) else [value]
    return next((each for each in values if _ours(each)), None)


def _put(data: Any, keys: Keys, value: Any) -> None:
    """Put a value there, the first in a list. Raises ValueError if something else is there."""
    key, *rest = keys
    if key is None and isinstance(data, list):
        data.insert(0, value)
    elif key is None or not isinstance(data, dict):
        raise ValueError("something else is where it belongs")
    elif rest:
        _put(data.setdefault(key, [] if rest == [None] else {}), tuple(rest), value)
    elif key in data:
        raise ValueError(f'it has another "{key}", so give ours another name')
    else:
        data[key] = value


def _take_out(data: Any, keys: Keys) -> None:
    """Take out what is ours there, and what holds nothing then."""
    key, *rest = keys
    there = data.get(key) if isinstance(data, dict) else None
    if rest == [None] and isinstance(there, list):
        there[:] = [each for each in there if not _ours(each)]
    elif rest:
        _take_out(there, tuple(rest))
    if isinstance(data, dict) and (there in ({}, []) if rest else _ours(there)):
        data.pop(key, None)


def _parsed(text: str | None) -> dict[str, Any]:
    """The object that the text of a file holds; an empty one if there is nothing. Raises ValueError
    if it is something else, also if it has comments, which would be lost.
    """
    try:
        data = json.loads(text) if text and text.strip() else {}
    except json.JSONDecodeError as error:
        raise ValueError(f"it is not plain JSON (line {error.lineno})") from None
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    if not isinstance(data, dict):
        raise ValueError("it is not an object")
    return data


def _dumped(data: dict[str, Any], before: str = "") -> str:
    """The text for these data, laid out as the one before."""
    indent = re.search(r'\n([ \t]+)"', before)
    text = json.dumps(data, indent=indent[1] if indent else 2, ensure_ascii=False) + "\n"
    return text.replace("\n", "\r\n") if "\r\n" in before else text


def _read(file: Path) -> str | None:
    try:
        return file.read_bytes().decode()
    except FileNotFoundError:
        return None
    except UnicodeDecodeError:
        raise ValueError(f"{file} is not UTF-8 text") from None


def _folder(variable: str, usual: str) -> Path:
    return Path(os.environ.get(variable) or Path.home() / usual)
