"""The clients of the memory: what each is given, how that is taken back, and what it has now."""

import json
import os
import re
import shlex
import shutil
import subprocess
import tomllib
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Timer
from typing import Any, NamedTuple

from . import json_edit
from .files import write

PLUGINS = Path(__file__).parent / "plugins"
# The marketplace in that folder, and its plugin.
_MARKETPLACE, _PLUGIN = "agent-memory", "agent-memory@agent-memory"
# Where Claude Code and Copilot CLI note them.
_PLUGIN_KEYS = (["extraKnownMarketplaces", _MARKETPLACE], ["enabledPlugins", _PLUGIN])
# What stands behind the name of a file as it was before.
_KEPT = ".before-agent-memory"
# Seconds for a client's command that changes something, and for one that only answers.
_CHANGE_SECONDS, _ANSWER_SECONDS = 120, 5
TRUST = 'open it once; at "Hooks need review" choose 2, "Trust all and continue"'
_US = {"name": "agent-memory", "version": "1"}
_CURSOR = '{\n  "version": 1\n}\n'
_COMMAND = re.compile(r"(^|[/ ])agent-memory'?( hook)?$")


class Entry(NamedTuple):
    """A value of ours in a file of JSON, and the text that a new file begins with."""

    file: Path
    keys: json_edit.Keys
    value: Any
    new: str = "{}\n"


class Edit(NamedTuple):
    """A file, and its text before and after; None stands for no file."""

    file: Path
    before: str | None
    after: str | None


@dataclass
class Plan:
    """What is to be done: commands of the client, which change the files `kept`, then edits.
    `problems` say what cannot be done, and what the person can do instead.
    """

    undo: bool
    commands: list[list[str]] = field(default_factory=list)
    kept: list[Path] = field(default_factory=list)
    edits: list[Edit] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    def apply(self) -> None:
        """Do it. Raises OSError, or ValueError with what the client said."""
        files = [*self.kept, *(edit.file for edit in self.edits)]
        for file in files:
            if not self.undo and file.exists() and not _kept(file).exists():
                shutil.copy2(file, _kept(file))
        for command in self.commands:
            done = _run(command, _CHANGE_SECONDS)
            if done.returncode:
                said = done.stderr.strip() or done.stdout.strip()
                raise ValueError(f"{shlex.join(command)} failed: {said}")
        for file, before, after in self.edits:
            if _read(file) != before:
                raise ValueError(f"{file} was changed meanwhile, and stays as it is")
            _write(file, after)
        if self.undo:
            for file in self.kept:
                _write(file, _taken_out(file, _PLUGIN_KEYS, lambda _: True))
            for file in files:
                _kept(file).unlink(missing_ok=True)


@dataclass(frozen=True)
class Client:
    """A program that can use the memory. One with a window may have no command, but a `folder`."""

    name: str
    title: str
    command: str
    folder: Path | None = None

    @property
    def found(self) -> bool:
        """Whether it is on this machine."""
        return bool(shutil.which(self.command) or (self.folder and self.folder.is_dir()))

    @property
    def version(self) -> str:
        """What it says its version is; empty if it does not say."""
        with suppress(OSError, subprocess.SubprocessError):
            told = _run([self.command, "--version"], _ANSWER_SECONDS).stdout
            return next(iter(re.findall(r"\d+(?:\.\d+)+", told)), "")
        return ""

    def lacks(self) -> str | None:
        """What is missing of what it was given, as its files tell; None if it was given nothing.
        Raises ValueError if they cannot be read.
        """
        raise NotImplementedError

    def plan(self, undo: bool) -> Plan:
        """What sets it up, or undoes that. Raises ValueError if its files do not say."""
        raise NotImplementedError


@dataclass(frozen=True)
class Plugin(Client):
    """A client that takes the plugin by its own commands, and notes that in the file `config`.
    Where installing again brings no new version, there is an `update`.
    """

    config: Path = Path()
    install: str = "install"
    uninstall: str = "uninstall"
    update: str = ""

    def _noted(self) -> tuple[str | None, bool | None]:
        """The folder of our marketplace, and whether the plugin is enabled, if it knows them."""
        data = _parsed(self.config, _read(self.config))
        if self.config.suffix == ".toml":
            source = json_edit.at(data, "marketplaces", _MARKETPLACE, "source")
            return source, json_edit.at(data, "plugins", _PLUGIN, "enabled")
        source = json_edit.at(data, "extraKnownMarketplaces", _MARKETPLACE, "source", "path")
        return source, json_edit.at(data, "enabledPlugins", _PLUGIN)

    def lacks(self) -> str | None:
        """See `Client`."""
        source, enabled = self._noted()
        if not (source or enabled):
            return None
        gone = "" if source and Path(source).is_dir() else "the folder of the plugin is gone"
        return gone if enabled else "the plugin is not enabled"

    def plan(self, undo: bool) -> Plan:
        """See `Client`."""
        source, enabled = self._noted()
        moved, steps = source != str(PLUGINS), list[list[str]]()
        if undo and enabled is not None:
            steps.append([self.uninstall, _PLUGIN])
        if source and (undo or moved):
            steps.append(["marketplace", "remove", _MARKETPLACE])
        if not undo and moved:
            steps.append(["marketplace", "add", str(PLUGINS)])
        if not undo:
            steps.append([self.install, _PLUGIN])
        if not undo and not moved and enabled and self.update:
            steps.append([self.update, _PLUGIN])
        commands = [[self.command, "plugin", *step] for step in steps]
        return Plan(undo, commands, [self.config] if steps else [])


@dataclass(frozen=True)
class Files(Client):
    """A client that reads what we write into its files."""

    entries: tuple[Entry, ...] = ()

    def lacks(self) -> str | None:
        """See `Client`."""
        tools, *hooks = [
            _holds(_parsed(entry.file, _read(entry.file)), entry.keys) for entry in self.entries
        ]
        if not (tools or any(hooks)):
            return None
        missing = {"the tools": tools, "the hooks": all(hooks)}
        return " and ".join(f"{what} are missing" for what, there in missing.items() if not there)

    def plan(self, undo: bool) -> Plan:
        """See `Client`."""
        plan = Plan(undo)
        for file in dict.fromkeys(entry.file for entry in self.entries):
            entries = [entry for entry in self.entries if entry.file == file]
            before = _read(file)
            try:
                after = _with(before, entries)
                if undo:
                    keys = [entry.keys for entry in entries]
                    after = _taken_out(file, keys, _ours, entries[0].new)
            except ValueError as error:
                plan.problems.append(f"{file} stays as it is: {error}.")
                if not undo:
                    plan.problems.append(f"Add this to it yourself:\n{_with(None, entries)}")
                continue
            if after != before:
                plan.edits.append(Edit(file, before, after))
        return plan


def clients() -> list[Client]:
    """All that the memory can be set up for."""
    home, support = Path.home(), Path.home() / "Library/Application Support"  # the latter on a Mac
    code = (support if support.is_dir() else _folder("XDG_CONFIG_HOME", ".config")) / "Code/User"
    claude, codex = _folder("CLAUDE_CONFIG_DIR", ".claude"), _folder("CODEX_HOME", ".codex")
    copilot, cursor = _folder("COPILOT_HOME", ".copilot"), home / ".cursor"
    gemini = home / ".gemini/settings.json"
    # A program with a window may not find the command. The path is that of the link, which stays
    # when what it leads to changes.
    path = shutil.which("agent-memory") or "agent-memory"
    server, hook = {"command": path, "args": ["mcp"]}, f"{shlex.quote(path)} hook"
    # Copilot CLI reads this file, too, but has its hooks from the plugin.
    code_hooks = copilot / "hooks/agent-memory.json"
    code_hook = f'[ -n "$COPILOT_PROJECT_DIR" ] || {hook}'
    gemini_server = {"command": "agent-memory", "args": ["mcp"], "trust": True}
    return [
        Plugin("claude", "Claude Code", "claude", None, claude / "settings.json", update="update"),
        Plugin("codex", "Codex", "codex", None, codex / "config.toml", "add", "remove"),
        Plugin("copilot", "Copilot CLI", "copilot", None, copilot / "settings.json"),
        Files(
            *("gemini", "Gemini CLI", "gemini", None),
            (
                Entry(gemini, ["mcpServers", "memory"], gemini_server),
                *_hooks(gemini, ["SessionStart", "BeforeAgent"], "agent-memory hook", 5000),
            ),
        ),
        Files(
            *("vscode", "VS Code", "code", code),
            (
                Entry(code / "mcp.json", ["servers", "memory"], {"type": "stdio", **server}),
                *_hooks(code_hooks, ["SessionStart", "UserPromptSubmit"], code_hook, 5),
            ),
        ),
        Files(
            *("cursor", "Cursor", "cursor", cursor),
            (
                Entry(cursor / "mcp.json", ["mcpServers", "memory"], server),
                *(
                    Entry(cursor / "hooks.json", ["hooks", event, None], {"command": hook}, _CURSOR)
                    for event in ("sessionStart", "beforeSubmitPrompt")
                ),
            ),
        ),
    ]


def codex_trusts() -> bool | None:
    """Whether Codex runs our hooks; None if it does not say so in time."""
    asked = [
        {"id": 0, "method": "initialize", "params": {"clientInfo": _US}},
        {"method": "initialized"},
        {"id": 1, "method": "hooks/list", "params": {"cwds": [str(Path.home())]}},
    ]
    with suppress(OSError, ValueError, LookupError, TypeError):
        server = subprocess.Popen(
            ["codex", "app-server"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        timer = Timer(_ANSWER_SECONDS, server.kill)
        timer.start()
        try:
            print(*map(json.dumps, asked), sep="\n", file=server.stdin, flush=True)
            answers = map(json.loads, server.stdout or [])
            answer = next(each for each in answers if each.get("id") == 1)
            hooks = [hook for each in answer["result"]["data"] for hook in each["hooks"]]
            ours = [each for each in hooks if each["pluginId"] == _PLUGIN]
            return bool(ours) and all(each["trustStatus"] == "trusted" for each in ours)
        finally:
            timer.cancel()
            server.kill()
            server.communicate()
    return None


def _hooks(file: Path, events: list[str], command: str, timeout: int) -> list[Entry]:
    """Hooks in Claude Code's form."""
    hook = {"type": "command", "command": command, "timeout": timeout}
    return [Entry(file, ["hooks", event, None], {"hooks": [hook]}) for event in events]


def _ours(value: Any) -> bool:
    """Whether all that this starts is agent-memory."""
    found = re.findall(r'"command": ("(?:\\.|[^"\\])*")', json.dumps(value))
    return bool(found) and all(_COMMAND.search(json.loads(each)) for each in found)


def _holds(data: Any, keys: json_edit.Keys) -> Any:
    """What is ours there, if anything is."""
    value = json_edit.at(data, *filter(None, keys))
    values = value if isinstance(value, list) else [value]
    return next((each for each in values if _ours(each)), None)


def _with(text: str | None, entries: list[Entry]) -> str:
    """The text of a file with these entries."""
    text = text or entries[0].new
    for _, keys, value, _ in entries:
        if _holds(json_edit.load(text), keys) != value:
            text = json_edit.without(text, keys, _ours, json_edit.load(text))
            text = json_edit.with_value(text, keys, value)
    return text


def _taken_out(
    file: Path, all_keys: Iterable[json_edit.Keys], ours: Callable[[Any], bool], new: str = ""
) -> str | None:
    """The text of a file without what is ours there: as it was before, if that is all that changed;
    None if the file is ours.
    """
    text, kept = _read(file), _read(_kept(file))
    if text is None:
        return None
    before = _parsed(file, new if kept is None else kept)
    for keys in all_keys if file.suffix == ".json" else ():
        text = json_edit.without(text, keys, ours, before)
    left = {
        key: value for key, value in _parsed(file, text).items() if value != {} or key in before
    }
    commented = kept is None and re.search("#|//|/[*]", text)
    return kept if left == before and not commented else text


def _parsed(file: Path, text: str | None) -> dict[str, Any]:
    """What this text, of a file of JSON or TOML, holds. Raises ValueError if it is neither."""
    return (tomllib.loads if file.suffix == ".toml" else json_edit.load)(text or "")


def _kept(file: Path) -> Path:
    return file.with_name(file.name + _KEPT)


def _read(file: Path) -> str | None:
    try:
        return file.read_bytes().decode()
    except FileNotFoundError:
        return None


def _write(file: Path, text: str | None) -> None:
    if text is None:
        file.unlink(missing_ok=True)
        return
    file.parent.mkdir(parents=True, exist_ok=True)
    mode = file.stat().st_mode if file.exists() else 0o600
    write(str(file), text.encode())
    file.chmod(mode)


def _folder(variable: str, usual: str) -> Path:
    return Path(os.environ.get(variable) or Path.home() / usual)


def _run(command: list[str], seconds: float) -> subprocess.CompletedProcess[str]:
    """Run it outside of any project, with nobody to ask."""
    return subprocess.run(
        command,
        cwd=Path.home(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=seconds,
    )
