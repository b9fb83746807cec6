"""The clients of the memory: what each is given, how that is taken back, and what it has now."""

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import tomllib
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Timer
from typing import Any, NamedTuple

from . import json_edit
from .files import rewrite

PLUGINS = Path(__file__).parent / "plugins"
TRUST = 'open it once; at "Hooks need review" choose 2, "Trust all and continue"'
# The marketplace in that folder, its plugin, and where Claude Code and Copilot CLI note them.
_MARKET, _PLUGIN = "agent-memory", "agent-memory@agent-memory"
_NOTED = (["extraKnownMarketplaces", _MARKET], ["enabledPlugins", _PLUGIN])
# What stands behind the name of a file as it was before.
_KEPT = ".before-agent-memory"
# Seconds for a client's command that changes something, and for one that only answers.
_CHANGE_SECONDS, _ANSWER_SECONDS = 120, 5
# Characters shown of what a client says about its failure.
_SHOWN = 1000
_OURS = re.compile(r"(^|[/ ])agent-memory'?( hook)?$")


@dataclass
class Plan:
    """What is to be done: commands of the client, which change the files `kept`; then edits, each a
    file, its text before and after, None for no file. `problems` say what is left to the person.
    In the files `known`, something of ours is there already.
    """

    undo: bool
    known: list[Path] = field(default_factory=list)
    commands: list[list[str]] = field(default_factory=list)
    kept: list[Path] = field(default_factory=list)
    edits: list[tuple[Path, str | None, str | None]] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    def apply(self) -> None:
        """Do it. Raises OSError, or ValueError with what the client said."""
        files = [*self.kept, *(file for file, _, _ in self.edits)]
        for file in files:
            if not (self.undo or file in self.known or _kept(file).exists()) and file.exists():
                shutil.copy2(file, _kept(file))
        for command in self.commands:
            done = _run(command, _CHANGE_SECONDS)
            if done.returncode:
                said = (done.stderr.strip() or done.stdout.strip())[:_SHOWN]
                raise ValueError(f"{shlex.join(command)} failed: {said}")
        for file, before, after in self.edits:
            if _read(file) != before:
                raise ValueError(f"{file} was changed meanwhile, and stays as it is")
            _write(file, after)
        if self.undo:
            for file in self.kept:
                _write(file, _taken_out(file, _NOTED, lambda _: True))
            for file in files:
                _kept(file).unlink(missing_ok=True)


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

    @property
    def version(self) -> str:
        """What it says its version is; empty if it does not say."""
        with suppress(OSError, subprocess.SubprocessError):
            told = _run([self.command, "--version"], _ANSWER_SECONDS).stdout
            return next(iter(re.findall(r"\d+(?:\.\d+)+", told)), "")
        return ""


@dataclass(frozen=True)
class Plugin(Client):
    """A client that takes the plugin by its own commands, and notes that in the file `config`.
    Where installing again brings no new version, there is an `update`.
    """

    config: Path
    install: str = "install"
    uninstall: str = "uninstall"
    update: str = ""

    def lacks(self) -> str | None:
        """What is missing of what it was given, as its files tell; None if it was given nothing.
        Raises ValueError if they cannot be read.
        """
        source, enabled = self._noted()
        if not (source or enabled):
            return None
        if not enabled:
            return "the plugin is not enabled"
        there = source and (source[0] != "/" or Path(source).is_dir())
        return "" if there else "the folder of the plugin is gone"

    def plan(self, undo: bool) -> Plan:
        """What sets it up, or undoes that. Raises ValueError as `lacks` does."""
        source, enabled = self._noted()
        moved, steps = source != str(PLUGINS), list[list[str]]()
        if undo and enabled is not None:
            steps.append([self.uninstall, _PLUGIN])
        if source and (undo or moved):
            steps.append(["marketplace", "remove", _MARKET])
        if not undo and moved:
            steps.append(["marketplace", "add", str(PLUGINS)])
        if not undo:
            steps.append([self.install, _PLUGIN])
        if not undo and not moved and enabled and self.update:
            steps.append([self.update, _PLUGIN])
        commands = [[self.command, "plugin", *step] for step in steps]
        known = [self.config] if source or enabled else []
        return Plan(undo, known, commands, [self.config] if steps else [])

    def _noted(self) -> tuple[str | None, bool | None]:
        """The folder or address of our marketplace, and if the plugin is enabled; None: unknown."""
        data = _parsed(self.config, _read(self.config))
        if self.config.suffix == ".toml":
            source = json_edit.at(data, "marketplaces", _MARKET, "source")
            return source, json_edit.at(data, "plugins", _PLUGIN, "enabled")
        market, plugin = (json_edit.at(data, *keys) for keys in _NOTED)
        source = json_edit.at(market, "source", "path") or ("elsewhere" if market else None)
        return source, plugin


class Part(NamedTuple):
    """What a client gets in one file of JSON; `new` is what such a file begins with."""

    file: Path
    values: list[tuple[json_edit.Keys, Any]]
    new: str = "{}\n"


@dataclass(frozen=True)
class Files(Client):
    """A client that reads what we write into its files."""

    parts: list[Part]

    def lacks(self) -> str | None:
        """See `Plugin`."""
        found = [
            ("hooks" if keys[0] == "hooks" else "tools", _held(_read(file), keys))
            for file, values, _ in self.parts
            for keys, _ in values
        ]
        if not any(held for _, held in found):
            return None
        missing = {what for what, held in found if not held}
        return " and ".join(f"the {what} are missing" for what in sorted(missing))

    def plan(self, undo: bool) -> Plan:
        """See `Plugin`."""
        plan = Plan(undo)
        for part in self.parts:
            before = _read(part.file)
            try:
                if any(_held(before, keys) for keys, _ in part.values):
                    plan.known.append(part.file)
                after = _without(before, part) if undo else _with(before, part)
            except ValueError as error:
                plan.problems.append(f"{part.file} stays as it is: {error}.")
                if not undo:
                    plan.problems.append(f"Add this to it yourself:\n{_with(None, part)}")
                continue
            if after != before or (undo and _kept(part.file).exists()):
                plan.edits.append((part.file, before, after))
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
        (["mcpServers", "memory"], {"command": "agent-memory", "args": ["mcp"], "trust": True}),
        *_hooks(_group("agent-memory hook", 5000), "SessionStart", "BeforeAgent"),
    ]
    # Copilot CLI reads the file of VS Code's hooks, too, but has them from the plugin.
    code_hook = _group(f'[ -n "$COPILOT_PROJECT_DIR" ] || {hook}', 5)
    code_hooks = _hooks(code_hook, "SessionStart", "UserPromptSubmit")
    code_parts = [
        Part(code / "mcp.json", [(["servers", "memory"], {"type": "stdio", **server})]),
        Part(copilot / "hooks/agent-memory.json", code_hooks),
    ]
    cursor_hooks = _hooks({"command": hook}, "sessionStart", "beforeSubmitPrompt")
    cursor_parts = [
        Part(cursor / "mcp.json", [(["mcpServers", "memory"], server)]),
        Part(cursor / "hooks.json", cursor_hooks, '{\n  "version": 1\n}\n'),
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


def codex_trusts() -> bool | None:
    """Whether Codex runs our hooks; None if it does not say so in time."""
    us = {"name": "agent-memory", "version": "1"}
    asked = [
        {"id": 0, "method": "initialize", "params": {"clientInfo": us}},
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
            start_new_session=True,  # its command starts another process
        )
        timer = Timer(_ANSWER_SECONDS, os.killpg, (server.pid, signal.SIGKILL))
        timer.start()
        try:
            print(*map(json.dumps, asked), sep="\n", file=server.stdin, flush=True)
            answers = map(json.loads, server.stdout or [])
            answer = next((each for each in answers if each.get("id") == 1), {})
            hooks = [hook for each in answer["result"]["data"] for hook in each["hooks"]]
            ours = [each for each in hooks if each.get("pluginId") == _PLUGIN]
            return bool(ours) and all(each["trustStatus"] == "trusted" for each in ours)
        finally:
            timer.cancel()
            os.killpg(server.pid, signal.SIGKILL)
            server.communicate()
    return None


def _hooks(hook: dict[str, Any], *events: str) -> list[tuple[json_edit.Keys, Any]]:
    return [(["hooks", event, None], hook) for event in events]


def _group(command: str, timeout: int) -> dict[str, Any]:
    """A hook in Claude Code's form."""
    return {"hooks": [{"type": "command", "command": command, "timeout": timeout}]}


def _commands(value: Any) -> list[str]:
    """What this starts."""
    found = re.findall(r'"command": ("(?:\\.|[^"\\])*")', json.dumps(value))
    return [json.loads(each) for each in found]


def _ours(value: Any) -> bool:
    """Whether all that this starts is agent-memory."""
    commands = _commands(value)
    return bool(commands) and all(_OURS.search(each) for each in commands)


def _held(text: str | None, keys: json_edit.Keys) -> Any:
    """What this text has of ours there, if anything."""
    value = json_edit.at(json_edit.load(text or ""), *filter(None, keys))
    values = value if isinstance(value, list) else [value]
    return next((each for each in values if _ours(each)), None)


def _with(text: str | None, part: Part) -> str:
    """The text of a file with this part. What the person added to a value of ours stays, unless the
    command is elsewhere by now.
    """
    text = text or part.new
    for keys, value in reversed(part.values):  # each is put first
        if _commands(_held(text, keys)) != _commands(value):
            text = json_edit.without(text, keys, _ours, json_edit.load(text))
            text = json_edit.with_value(text, keys, value)
    return text


def _without(text: str | None, part: Part) -> str | None:
    """The text of a file without this part; None for no file."""
    held = [keys for keys, _ in part.values if _held(text, keys)]
    return _taken_out(part.file, held, _ours, part.new) if held else text


def _taken_out(
    file: Path, all_keys: Sequence[json_edit.Keys], ours: Callable[[Any], bool], new: str = ""
) -> str | None:
    """The text of a file without what is ours there; as it was kept, if that says the same; None
    if there was no file, and nothing else is in it.
    """
    text, kept = _read(file) or "", _read(_kept(file))
    before = _parsed(file, new if kept is None else kept)
    for keys in all_keys if file.suffix == ".json" else ():
        text = json_edit.without(text, keys, ours, before)
    emptied = {keys[0] for keys in all_keys} - before.keys()
    left = {k: v for k, v in _parsed(file, text).items() if v != {} or k not in emptied}
    noted = _comments(file, text) != _comments(file, kept or new)
    return kept if left == before and not noted else text


def _comments(file: Path, text: str) -> list[str]:
    if file.suffix == ".json":
        return json_edit.comments(text)
    return re.findall("#.*", text)


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
        Path(os.path.realpath(file)).unlink(missing_ok=True)
        return
    rewrite(file, text)


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
