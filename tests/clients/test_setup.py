"""`setup`: every client on this machine gets the memory, nothing else changes, and all of it can be
taken back.

The clients are stand-ins: programs that keep their notes as the real ones do. Claude Code and
Copilot CLI lay out their settings anew, Codex keeps its comments.
"""

import json
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from agent_memory import clients, json_edit
from command import Command, invoke
from hypothesis import given
from hypothesis import strategies as st

# What all stand-ins do first: note how they were called, and say their version.
_BEGINNING = """#!/usr/bin/env python3
import json, os, sys
from pathlib import Path
home, words = Path(os.environ["HOME"]), sys.argv[1:]
if words == ["--version"]:
    sys.exit(print("{name} 1.2.3"))
with (home / "calls").open("a") as calls:
    print("{name}", *words, file=calls)
if (home / "broken").exists() and (home / "broken").read_text() == "{name}":
    sys.exit("Error: the disk of {name} is on fire")
"""
# Claude Code, and Copilot CLI, which leaves a plugin that it no longer has as switched off.
_JSON_NOTES = """
file = home / ".{name}" / "settings.json"
notes = json.loads(file.read_text()) if file.exists() else {{}}
markets = notes.setdefault("extraKnownMarketplaces", {{}})
plugins = notes.setdefault("enabledPlugins", {{}})
if words[1:3] == ["marketplace", "add"]:
    if "{name}" == "copilot" and "agent-memory" in markets:
        sys.exit("already registered")
    markets["agent-memory"] = {{"source": {{"source": "directory", "path": words[3]}}}}
elif words[1:3] == ["marketplace", "remove"]:
    del markets["agent-memory"]
elif words[1] == "install":
    plugins[words[2]] = True
elif words[1] == "uninstall" and "{name}" == "claude":
    del plugins[words[2]]
elif words[1] == "uninstall":
    plugins[words[2]] = False
file.parent.mkdir(exist_ok=True)
file.write_text(json.dumps(notes, indent=2))
"""
_CODEX = """
if words == ["app-server"]:
    for line in sys.stdin:
        asked = json.loads(line)
        status = (home / "trust").read_text() if (home / "trust").exists() else "untrusted"
        if status == "silent":  # as its command does, it waits for another process
            import subprocess
            subprocess.run(["/bin/sleep", "100"])
        hook = {"pluginId": "agent-memory@agent-memory", "trustStatus": status}
        result = {"data": [{"cwd": "/", "hooks": [hook, {"pluginId": None}]}]}
        print(json.dumps({"method": "configWarning"}))
        print(json.dumps({"id": asked.get("id"), "result": result}), flush=True)
    sys.exit()
file = home / ".codex" / "config.toml"
text = file.read_text() if file.exists() else ""
market = '\\n[marketplaces.agent-memory]\\nsource_type = "local"\\nsource = "%s"\\n'
plugin = '\\n[plugins."agent-memory@agent-memory"]\\nenabled = true\\n'
if words[1:3] == ["marketplace", "add"]:
    if "[marketplaces.agent-memory]" in text:
        sys.exit("already added from a different source; remove it before adding this source")
    text += market % words[3]
elif words[1:3] == ["marketplace", "remove"]:
    start = text.index("\\n[marketplaces.agent-memory]")
    text = text[:start] + "\\n".join(text[start:].split("\\n")[4:])
elif words[1] == "add":
    text = text.replace(plugin, "") + plugin
elif words[1] == "remove":
    text = text.replace(plugin, "")
file.parent.mkdir(exist_ok=True)
file.write_text(text)
"""
PLUGIN = "agent-memory@agent-memory"


class Machine:
    """A home with a PATH of its own."""

    def __init__(self, home: Path, bin: Path) -> None:
        self.home, self.bin = home, bin

    def install(self, name: str) -> None:
        """Put a client on the PATH."""
        notes = {"codex": _CODEX, "claude": _JSON_NOTES, "copilot": _JSON_NOTES}.get(name, "")
        notes = notes.format(name=name) if notes is _JSON_NOTES else notes
        program = self.bin / name
        program.write_text(_BEGINNING.format(name=name) + notes)
        program.chmod(0o755)

    def write(self, file: str, text: str) -> Path:
        path = self.home / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode())
        return path

    def calls(self) -> list[str]:
        """What was run since the last look."""
        file = self.home / "calls"
        lines = file.read_text().splitlines() if file.exists() else []
        file.unlink(missing_ok=True)
        return [line.removeprefix("agent-memory ") for line in lines]

    def files(self) -> dict[str, bytes]:
        """Every file, and what is in it."""
        found = (path for path in self.home.rglob("*") if path.is_file())
        return {str(path.relative_to(self.home)): path.read_bytes() for path in found}

    def json(self, file: str) -> Any:
        return json.loads((self.home / file).read_text())


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    """Without any client. The command is a link, as `uv tool install` makes it."""
    made = Machine(tmp_path / "home", tmp_path / "bin")
    made.bin.mkdir()
    python = shutil.which("python3")
    assert python
    for name, target in {
        "agent-memory": "/bin/true",
        "python3": python,
        "env": "/usr/bin/env",
    }.items():
        (made.bin / name).symlink_to(target)
    monkeypatch.setenv("PATH", str(made.bin))
    for name in ("CLAUDE_CONFIG_DIR", "CODEX_HOME", "COPILOT_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(clients, "PLUGINS", tmp_path / "plugins")
    monkeypatch.setattr(clients, "_ANSWER_SECONDS", 60)  # stand-ins start slowly when busy
    (tmp_path / "plugins").mkdir()
    return made


EVERYONE = ("claude", "codex", "copilot", "gemini", "code", "cursor")
# As people and programs have them: indents, comments, no final newline, somebody else's servers.
THEIRS = {
    ".claude/settings.json": '{\n    "theme": "dark",\n    "list": [1, 2]\n}',
    ".codex/config.toml": '# mine\nmodel = "x"   # why\n',
    ".copilot/settings.json": '{"theme": "dark"}\n',
    ".gemini/settings.json": '{\n\t// mine\n\t"hooks": {"SessionStart": [{"hooks": []}]},\n}\n',
    ".config/Code/User/mcp.json": '{\n  "servers": {\n    "x": {"url": "http://x"}\n  }\n}\n',
    ".cursor/mcp.json": '{"mcpServers": {}}',
    ".cursor/hooks.json": '{\r\n  "version": 1,\r\n  "hooks": {}\r\n}\r\n',
}


@pytest.fixture
def everyone(machine: Machine) -> Machine:
    """With every client, and files of its own for each."""
    for name in EVERYONE:
        machine.install(name)
    for file, text in THEIRS.items():
        machine.write(file, text)
    return machine


def test_claude_code_takes_the_plugin_by_its_own_commands(machine: Machine) -> None:
    machine.install("claude")
    shown = invoke("setup", "--yes").output
    steps = [f"plugin marketplace add {clients.PLUGINS}", f"plugin install {PLUGIN}"]
    assert machine.calls() == [f"claude {step}" for step in steps]
    assert all(f"claude {step}" in shown for step in steps)
    assert "Claude Code 1.2.3" in shown and "✓ Claude Code: set up" in shown


def test_codex_takes_the_plugin_and_the_person_has_to_trust_its_hooks(machine: Machine) -> None:
    machine.install("codex")
    shown = invoke("setup", "--yes").output
    assert machine.calls()[:2] == [
        f"codex plugin marketplace add {clients.PLUGINS}",
        f"codex plugin add {PLUGIN}",
    ]
    assert 'Left to you: open it once; at "Hooks need review" choose 2' in shown
    machine.write("trust", "trusted")
    assert "Left to you" not in invoke("setup", "--yes").output


def test_what_is_there_already_is_brought_up_to_date(everyone: Machine) -> None:
    invoke("setup", "--yes")
    before, _ = everyone.files(), everyone.calls()
    shown = invoke("setup", "--yes").output
    assert shown.count("It has the memory already") == len(EVERYONE)
    assert [call for call in everyone.calls() if "plugin" in call] == [
        f"claude plugin install {PLUGIN}",
        f"claude plugin update {PLUGIN}",
        f"codex plugin add {PLUGIN}",
        f"copilot plugin install {PLUGIN}",
    ]
    assert {**everyone.files(), "calls": b""} == {**before, "calls": b""}


def test_what_the_person_added_stays_and_a_command_that_moved_is_found(
    everyone: Machine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    invoke("setup", "cursor", "--yes")
    file = everyone.home / ".cursor/mcp.json"
    file.write_text(file.read_text().replace('"mcp"', '"mcp", "--agent", "sam"'))
    before = everyone.files()
    assert "There is nothing to do." in invoke("setup", "cursor", "--yes").output
    assert everyone.files() == before
    newer = tmp_path / "newer bin"
    newer.mkdir()
    (newer / "agent-memory").symlink_to("/bin/true")
    monkeypatch.setenv("PATH", f"{newer}:{everyone.bin}")
    invoke("setup", "cursor", "--yes")
    assert everyone.json(".cursor/mcp.json")["mcpServers"]["memory"]["command"] == (
        f"{newer}/agent-memory"
    )
    [hook] = everyone.json(".cursor/hooks.json")["hooks"]["sessionStart"]
    assert hook == {"command": f"'{newer}/agent-memory' hook"}
    invoke("setup", "cursor", "--undo", "--yes")
    everyone.calls()
    assert file.read_text() == THEIRS[".cursor/mcp.json"]


@pytest.mark.parametrize("name", ["claude", "codex", "copilot"])
def test_a_plugin_from_another_installation_is_replaced(
    everyone: Machine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str
) -> None:
    invoke("setup", name, "--yes")
    everyone.calls()
    monkeypatch.setattr(clients, "PLUGINS", tmp_path / "newer")
    invoke("setup", name, "--yes")
    assert everyone.calls()[:2] == [
        f"{name} plugin marketplace remove agent-memory",
        f"{name} plugin marketplace add {tmp_path / 'newer'}",
    ]


@pytest.mark.parametrize("name", ["claude", "copilot"])
def test_a_plugin_from_an_address_is_replaced_by_that_of_this_version(
    machine: Machine, name: str
) -> None:
    machine.install(name)
    market = {"agent-memory": {"source": {"source": "github", "repo": "someone/agent-memory"}}}
    notes = {"extraKnownMarketplaces": market, "enabledPlugins": {PLUGIN: True}}
    machine.write(f".{name}/settings.json", json.dumps(notes))
    assert doctor(machine)[name]["state"] == "ok"
    invoke("setup", "--yes")
    assert machine.calls()[0] == f"{name} plugin marketplace remove agent-memory"
    market = machine.json(f".{name}/settings.json")["extraKnownMarketplaces"]["agent-memory"]
    assert market["source"]["path"] == str(clients.PLUGINS)


def test_what_clients_without_plugins_get(everyone: Machine) -> None:
    invoke("setup", "gemini", "vscode", "cursor", "--yes")
    link = str(everyone.bin / "agent-memory")
    server = {"command": "agent-memory", "args": ["mcp"], "trust": True}
    gemini = json_edit.load((everyone.home / ".gemini/settings.json").read_text())
    assert gemini["mcpServers"] == {"memory": server}
    assert [each["hooks"] for each in gemini["hooks"]["SessionStart"]][-1] == []
    assert gemini["hooks"]["BeforeAgent"][0]["hooks"][0]["command"] == "agent-memory hook"
    servers = everyone.json(".config/Code/User/mcp.json")["servers"]
    # Programs with a window get the path of the link, which stays when the command is upgraded.
    assert servers["memory"] == {"type": "stdio", "command": link, "args": ["mcp"]}
    assert servers["x"] == {"url": "http://x"}
    cursor = everyone.json(".cursor/hooks.json")
    hooks = [{"command": f"{link} hook"}]
    assert cursor["hooks"] == dict.fromkeys(("sessionStart", "beforeSubmitPrompt"), hooks)
    assert not [file for file, text in everyone.files().items() if b"agent_id" in text]


def test_a_hook_of_vs_code_is_silent_in_copilot_which_has_it_from_the_plugin(
    everyone: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    link = everyone.bin / "agent-memory"
    link.unlink()
    link.write_text("#!/bin/sh\necho $1")
    link.chmod(0o755)
    invoke("setup", "vscode", "--yes")
    [group] = everyone.json(".copilot/hooks/agent-memory.json")["hooks"]["SessionStart"]
    command = group["hooks"][0]["command"]
    assert subprocess.run(["/bin/sh", "-c", command], stdout=-1).stdout == b"hook\n"
    monkeypatch.setenv("COPILOT_PROJECT_DIR", "/somewhere")
    assert subprocess.run(["/bin/sh", "-c", command], stdout=-1).stdout == b""


def test_undo_leaves_every_file_as_it_was(everyone: Machine) -> None:
    before = everyone.files()
    invoke("setup", "--yes")
    invoke("setup", "--yes")
    kept = {f"{file}.before-agent-memory": text.encode() for file, text in THEIRS.items()}
    assert kept.items() <= everyone.files().items()
    changed = {file for file in THEIRS if everyone.files()[file] != before[file]}
    assert changed == THEIRS.keys()
    everyone.calls()
    shown = invoke("setup", "--undo", "--yes").output
    everyone.calls()
    assert everyone.files() == before
    assert "The memories are untouched." in shown
    again = invoke("setup", "--undo", "--yes").output
    assert "There is nothing to do." in again


def test_undo_leaves_nothing_where_nothing_was(machine: Machine) -> None:
    for name in EVERYONE:
        machine.install(name)
    invoke("setup", "--yes")
    invoke("setup", "--yes")
    machine.calls()
    assert len(machine.files()) == 8
    invoke("setup", "--undo", "--yes")
    machine.calls()
    assert machine.files() == {}


def test_undo_takes_only_what_is_ours_where_other_things_changed_meanwhile(
    everyone: Machine,
) -> None:
    invoke("setup", "--yes")
    expected = {}
    for file in THEIRS:
        path = everyone.home / file
        old, new = THEIRS[file], path.read_text()
        if file.endswith(".toml"):
            path.write_text("approval = 1\n" + new)
            expected[file] = "approval = 1\n" + old
            continue
        path.write_text(json_edit.with_value(new, ["extra"], {"a": [False, {}]}))
        expected[file] = {**json_edit.load(old), "extra": {"a": [False, {}]}}
    invoke("setup", "--undo", "--yes")
    for file, wanted in expected.items():
        left = (everyone.home / file).read_text()
        if isinstance(wanted, str):
            assert left == wanted
            continue
        found = json_edit.load(left)
        for name in ("extraKnownMarketplaces", "enabledPlugins"):
            assert found.pop(name, {}) == {}  # Claude Code and Copilot CLI leave these
        assert found == wanted, file
    assert not [file for file in everyone.files() if "before-agent-memory" in file]
    comment = (everyone.home / ".gemini/settings.json").read_text()
    assert "// mine" in comment


def test_undo_keeps_a_comment_that_the_person_wrote_meanwhile(everyone: Machine) -> None:
    invoke("setup", "--yes")
    noted = {file: text for file, text in THEIRS.items() if file.endswith("toml")}
    assert noted
    for file in noted:
        path = everyone.home / file
        path.write_text(path.read_text() + "# why\n")
    invoke("setup", "--undo", "--yes")
    for file in noted:
        assert "# why" in (everyone.home / file).read_text()


def test_a_file_is_kept_though_the_person_has_set_up_another_by_hand(machine: Machine) -> None:
    machine.install("cursor")
    by_hand = json.dumps({"mcpServers": {"memory": {"command": "agent-memory", "args": ["mcp"]}}})
    machine.write(".cursor/mcp.json", by_hand)
    machine.write(".cursor/hooks.json", '{"version": 1, "hooks": {}}')
    invoke("setup", "--yes")
    assert (machine.home / ".cursor/hooks.json.before-agent-memory").exists()
    assert not (machine.home / ".cursor/mcp.json.before-agent-memory").exists()


def test_undo_without_anything_to_undo(everyone: Machine) -> None:
    before = everyone.files()
    assert "There is nothing to do." in invoke("setup", "--undo", "--yes").output
    assert everyone.files() == before and everyone.calls() == []


def test_dry_run_shows_all_and_changes_nothing(everyone: Machine) -> None:
    before = everyone.files()
    shown = invoke("setup", "--dry-run").output
    assert everyone.files() == before and everyone.calls() == []
    for title in ("Claude Code", "Codex", "Copilot CLI", "Gemini CLI", "VS Code", "Cursor"):
        assert f"{title} 1.2.3" in shown
    assert f"codex plugin add {PLUGIN}" in shown
    assert f"+++ {everyone.home}/.cursor/mcp.json" in shown and '+    "memory": {' in shown


def test_a_key_beside_what_is_added_is_not_shown(everyone: Machine) -> None:
    key = "sk-proj-" + "Ab1" * 16
    everyone.write(".cursor/mcp.json", json.dumps({"mcpServers": {"x": {"env": {"KEY": key}}}}))
    shown = invoke("setup", "cursor", "--yes").output
    assert key not in shown and "(masked" in shown
    assert key in (everyone.home / ".cursor/mcp.json").read_text()


@pytest.mark.parametrize(("answer", "code"), [("n\n", 0), ("", 1)])
def test_it_asks_first(everyone: Machine, answer: str, code: int) -> None:
    before = everyone.files()
    shown = invoke("setup", input=answer, code=code).output
    assert "Go on?" in shown and "Nothing was changed." in shown
    assert ("--yes" in shown) == bool(code)
    assert everyone.files() == before and everyone.calls() == []


def test_a_client_that_fails_keeps_no_other_from_being_set_up(everyone: Machine) -> None:
    everyone.write("broken", "claude")
    shown = invoke("setup", "--yes", code=1).output
    assert "✗ Claude Code" in shown and "the disk of claude is on fire" in shown
    assert "✓ Codex: set up" in shown and "✓ Cursor: set up" in shown
    (everyone.home / "broken").unlink()
    assert "✓ Claude Code: set up" in invoke("setup", "--yes").output


@pytest.mark.parametrize(
    "text",
    [
        '{"mcpServers": {"memory": {"command": "npx", "args": ["other"]}}}',
        '{"mcpServers": []}',
        "[]",
        "{",
        '{"a": 1',
        "\xff" + "[" * 100_000,
    ],
)
def test_what_cannot_be_changed_stays_and_the_person_is_told_what_to_add(
    everyone: Machine, text: str
) -> None:
    file = everyone.write(".cursor/mcp.json", text)
    shown = invoke("setup", "cursor", "--yes", code=1).output
    assert file.read_text() == text
    assert f"{file} stays as it is" in shown
    block = shown[shown.index("Add this to it yourself:\n") :].split("\n", 1)[1]
    assert json.JSONDecoder().raw_decode(block)[0]["mcpServers"]["memory"]["args"] == ["mcp"]
    assert "sessionStart" in everyone.json(".cursor/hooks.json")["hooks"]


def test_a_client_whose_file_cannot_be_read_stays_as_it_is(everyone: Machine) -> None:
    file = everyone.write(".codex/config.toml", "model = ")
    shown = invoke("setup", "codex", "cursor", "--yes", code=1).output
    assert "Codex stays as it is" in shown and "✓ Cursor: set up" in shown
    assert file.read_text() == "model = " and everyone.calls() == []
    assert "codex" not in doctor(everyone)


def test_a_file_that_another_program_changed_meanwhile_stays(
    everyone: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def change(*_: Any) -> None:
        everyone.write(".cursor/mcp.json", '{"new": 1}')

    monkeypatch.setattr("agent_memory.commands.setup.confirm", change)
    shown = invoke("setup", "cursor", code=1).output
    assert "was changed meanwhile" in shown
    assert everyone.json(".cursor/mcp.json") == {"new": 1}


def test_clients_are_named_in_the_help() -> None:
    shown = " ".join(invoke("setup", "--help").output.split())
    assert all(f"{client.name}," in shown.replace(".", ",") for client in clients.clients())
    assert invoke("setup", "emacs", code=2)


def test_a_client_that_is_not_here(machine: Machine) -> None:
    shown = invoke("setup", "codex", "--yes", code=1).output
    assert "Not on this machine: Codex. Nothing was changed." in shown
    assert "None of these programs is on this machine" in invoke("setup", "--yes").output


def test_without_the_command_on_the_path_nothing_is_set_up(everyone: Machine) -> None:
    (everyone.bin / "agent-memory").unlink()
    shown = invoke("setup", "--yes", code=1).output
    assert "uv tool update-shell" in shown and everyone.calls() == []


def test_a_link_stays_a_link_and_modes_stay(everyone: Machine) -> None:
    real = everyone.write("dotfiles/mcp.json", "{}")
    real.chmod(0o640)
    file = everyone.home / ".cursor/mcp.json"
    file.unlink()
    file.symlink_to(real)
    invoke("setup", "cursor", "--yes")
    assert file.is_symlink() and "memory" in real.read_text()
    assert real.stat().st_mode & 0o777 == 0o640
    invoke("setup", "cursor", "--undo", "--yes")
    assert file.is_symlink() and real.read_text() == "{}"


# Any JSON, laid out in any way.
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text() | st.floats(allow_nan=False),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)
objects = st.dictionaries(st.text() | st.sampled_from(["a", "b"]), values)
layouts = st.fixed_dictionaries(
    {
        "indent": st.none() | st.sampled_from([0, 1, 2, 4, "\t"]),
        "ensure_ascii": st.booleans(),
        "separators": st.sampled_from([None, (",", ":"), (" , ", " : ")]),
    }
)
paths = st.lists(st.sampled_from(["a", "b", "memory"]), min_size=1, max_size=3).flatmap(
    lambda keys: st.sampled_from([keys, [*keys, None]])
)
OURS = {"command": "agent-memory", "args": ["mcp"]}


def commented(text: str) -> str:
    """With comments, and with a comma after each last item."""
    pieces, last = list[str](), "{"
    for piece in re.findall(r'"(?:\\.|[^"\\])*"|\s+|.', text, re.DOTALL):
        if piece in "}]" and last not in "{[":
            pieces.append(",")
        pieces.append(f'{piece} /* , }} " */ // "{{\n' if piece in "{[," else piece)
        last = last if piece.isspace() else piece
    return "".join(pieces)


@given(objects, layouts, paths, st.sampled_from(["\n", "\r\n"]), st.booleans())
def test_a_value_is_added_and_taken_out_and_nothing_else_changes(
    data: dict[str, Any], layout: dict[str, Any], keys: list[str | None], newline: str, notes: bool
) -> None:
    text = json.dumps(data, **layout).replace("\n", newline) + newline
    text = commented(text) if notes else text
    assert json_edit.load(text) == data
    try:
        changed = json_edit.with_value(text, keys, OURS)
    except ValueError:
        there: Any = data  # something else is in the way
        while keys and isinstance(there, dict) and keys[0] in there:
            there, keys = there[keys[0]], keys[1:]
        assert not keys or not isinstance(there, list if keys[0] is None else dict)
        return
    left = json_edit.without(changed, keys, lambda value: value == OURS, data)
    assert json_edit.load(left) == data
    assert "".join(left.split()) == "".join(text.split())


@given(objects, layouts)
def test_undo_gives_back_any_file_to_the_byte(data: dict[str, Any], layout: dict[str, Any]) -> None:
    text = json.dumps(data, **layout)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "mcp.json"
        file.write_text(text)
        part = clients.Part(file, [(["mcpServers", "memory"], OURS)])
        client = clients.Files("cursor", "Cursor", "cursor", None, [part])
        plan = client.plan(undo=False)
        plan.apply()
        has = json_edit.at(json_edit.load(file.read_text()), "mcpServers", "memory") == OURS
        assert has != bool(plan.problems) and client.lacks() == ("" if has else None)
        client.plan(undo=True).apply()
        assert file.read_text() == text and [*Path(folder).iterdir()] == [file]


def doctor(machine: Machine) -> dict[str, dict[str, str]]:
    found = Command(machine.home / "memory").json("doctor")
    return {each["subject"]: each for each in found}


def test_the_doctor_says_what_each_client_has(everyone: Machine) -> None:
    assert not doctor(everyone).keys() & {
        "claude",
        "codex",
        "copilot",
        "gemini",
        "vscode",
        "cursor",
    }
    assert everyone.calls() == []  # nothing of what was never set up is started
    invoke("setup", "--yes")
    everyone.calls()
    found = doctor(everyone)
    states = {name: found[name]["state"] for name in ("claude", "codex", "copilot", "gemini")}
    assert states == {"claude": "ok", "codex": "warning", "copilot": "ok", "gemini": "ok"}
    assert (
        "does not trust" in found["codex"]["text"] and "Hooks need review" in found["codex"]["mend"]
    )
    assert everyone.calls() == ["codex app-server"]
    everyone.write("trust", "trusted")
    assert doctor(everyone)["codex"]["state"] == "ok"


def test_the_doctor_waits_for_codex_only_so_long(
    everyone: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clients, "_ANSWER_SECONDS", 1)
    invoke("setup", "codex", "--yes")
    everyone.write("trust", "silent")
    assert "does not say" in doctor(everyone)["codex"]["text"]


HALVES: list[tuple[str, str, Callable[[str], str]]] = [
    ("claude", ".claude/settings.json", lambda text: text.replace("true", "false")),
    ("copilot", ".copilot/settings.json", lambda text: text.replace(str(clients.PLUGINS), "/gone")),
    ("gemini", ".gemini/settings.json", lambda text: text.replace("BeforeAgent", "Other")),
    ("cursor", ".cursor/mcp.json", lambda text: "{}"),
]


@pytest.mark.parametrize(("name", "file", "change"), HALVES)
def test_the_doctor_finds_half_a_set_up_and_setup_mends_it(
    everyone: Machine, name: str, file: str, change: Callable[[str], str]
) -> None:
    invoke("setup", name, "--yes")
    path = everyone.home / file
    path.write_text(change(path.read_text()))
    found = doctor(everyone)[name]
    assert (found["state"], found["mend"]) == ("warning", f"agent-memory setup {name}")
    invoke(*found["mend"].split()[1:], "--yes")
    assert doctor(everyone)[name]["state"] == "ok"
