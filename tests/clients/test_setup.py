"""`setup`: every client on this machine gets the memory, nothing else changes, and all of it can be
taken back.

The clients are stand-ins, which note how they were called.
"""

import json
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import pytest
from agent_memory import clients
from command import invoke
from hypothesis import given, settings
from hypothesis import strategies as st

STAND_IN = """#!/bin/sh
echo {name} "$@" >> "$HOME/calls"
[ ! -e "$HOME/broken-{name}" ] || {{ echo "the disk of {name} is on fire" >&2; exit 1; }}
"""
PLUGIN = "agent-memory@agent-memory"


class Machine:
    """A home with a PATH of its own."""

    def __init__(self, home: Path, bin: Path) -> None:
        self.home, self.bin = home, bin

    def install(self, name: str) -> None:
        """Put a client on the PATH."""
        program = self.bin / name
        program.write_text(STAND_IN.format(name=name))
        program.chmod(0o755)

    def write(self, file: str, text: str) -> Path:
        path = self.home / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode())
        return path

    def note(self, name: str, kind: str, place: object) -> None:
        """Let a client note that it has our plugin from this place."""
        if name == "codex":
            market = f'[marketplaces.agent-memory]\nsource = "{place}"\n'
            plugin = f'[plugins."{PLUGIN}"]\nenabled = true\n'
            self.write(".codex/config.toml", market + plugin)
        else:
            market = {"agent-memory": {"source": {kind: str(place)}}}
            notes = {"extraKnownMarketplaces": market, "enabledPlugins": {PLUGIN: True}}
            self.write(f".{name}/settings.json", json.dumps(notes))

    def calls(self) -> list[str]:
        """What was run since the last look."""
        file = self.home / "calls"
        lines = file.read_text().splitlines() if file.exists() else []
        file.unlink(missing_ok=True)
        return lines

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
    (made.bin / "agent-memory").symlink_to("/bin/true")
    monkeypatch.setenv("PATH", str(made.bin))
    for name in ("CLAUDE_CONFIG_DIR", "CODEX_HOME", "COPILOT_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(clients, "PLUGINS", tmp_path / "plugins")
    (tmp_path / "plugins").mkdir()
    return made


EVERYONE = ("claude", "codex", "copilot", "gemini", "code", "cursor")
# As people and programs have them: indents, line ends, somebody else's servers.
THEIRS = {
    ".gemini/settings.json": '{\n\t"hooks": {\n\t\t"SessionStart": [\n\t\t\t1\n\t\t]\n\t}\n}\n',
    ".config/Code/User/mcp.json": (
        '{\n  "servers": {\n    "x": {\n      "url": "http://x"\n    }\n  }\n}\n'
    ),
    ".cursor/mcp.json": '{\r\n  "theirs": 1\r\n}\r\n',
    ".cursor/hooks.json": '{\n  "version": 1,\n  "x": "한"\n}\n',
}


@pytest.fixture
def everyone(machine: Machine) -> Machine:
    """With every client, and files of its own for each."""
    for name in EVERYONE:
        machine.install(name)
    for file, text in THEIRS.items():
        machine.write(file, text)
    return machine


# How a client with plugins installs one and removes it, and what we call the client.
STEPS = {
    "claude": ("install", "uninstall", "Claude Code"),
    "codex": ("add", "remove", "Codex"),
    "copilot": ("install", "uninstall", "Copilot CLI"),
}


@pytest.mark.parametrize("name", STEPS)
def test_a_client_with_plugins_takes_ours_by_its_own_commands(machine: Machine, name: str) -> None:
    install, uninstall, title = STEPS[name]
    machine.install(name)
    shown = invoke("setup", "--yes").output
    add, remove = (
        f"{name} plugin marketplace {step}"
        for step in (f"add {clients.PLUGINS}", "remove agent-memory")
    )
    installs = f"{name} plugin {install} {PLUGIN}"
    assert machine.calls() == [add, installs] and add in shown and installs in shown
    assert f"✓ {title}: set up" in shown
    assert ('at "Hooks need review" choose 2' in shown) == (name == "codex")
    for place in (("path", "/another/installation"), ("repo", "someone/agent-memory")):
        machine.note(name, *place)
        invoke("setup", "--yes")
        assert machine.calls() == [remove, add, installs]
    machine.note(name, "path", clients.PLUGINS)
    invoke("setup", "--yes")  # again, after an update
    updates = [f"claude plugin update {PLUGIN}"] if name == "claude" else []
    assert machine.calls() == [installs, *updates]
    invoke("setup", "--undo", "--yes")
    assert machine.calls() == [f"{name} plugin {uninstall} {PLUGIN}", remove]


def test_what_clients_without_plugins_get(everyone: Machine) -> None:
    before = everyone.files()
    invoke("setup", "gemini", "vscode", "cursor", "--yes")
    link = str(everyone.bin / "agent-memory")
    gemini = everyone.json(".gemini/settings.json")
    server = {"command": "agent-memory", "args": ["mcp"], "trust": True}
    hook = {"type": "command", "command": "agent-memory hook", "timeout": 5000}
    assert gemini["mcpServers"] == {"memory": server}
    assert gemini["hooks"] == {
        "SessionStart": [{"hooks": [hook]}, 1],
        "BeforeAgent": [{"hooks": [hook]}],
    }
    # Programs with a window get the path of the link, which stays when the command is upgraded.
    code = everyone.json(".config/Code/User/mcp.json")["servers"]
    memory = {"command": link, "args": ["mcp"]}
    assert code == {"memory": {"type": "stdio", **memory}, "x": {"url": "http://x"}}
    assert everyone.json(".cursor/mcp.json") == {"theirs": 1, "mcpServers": {"memory": memory}}
    hooks = {each: [{"command": f"{link} hook"}] for each in ("sessionStart", "beforeSubmitPrompt")}
    assert everyone.json(".cursor/hooks.json") == {"version": 1, "x": "한", "hooks": hooks}
    assert b'\r\n  "mcpServers"' in everyone.files()[".cursor/mcp.json"]  # laid out as it was
    assert not [file for file, text in everyone.files().items() if b"agent_id" in text]
    everyone.calls()
    there = everyone.files()
    assert "There is nothing to do." in invoke("setup", "gemini", "vscode", "cursor").output
    assert everyone.files() == there
    invoke("setup", "--undo", "--yes")
    assert everyone.files() == before


def test_a_hook_of_vs_code_is_silent_in_copilot_which_has_it_from_the_plugin(
    everyone: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    link = everyone.bin / "agent-memory"
    link.unlink()
    link.write_text("#!/bin/sh\necho $1")
    link.chmod(0o755)
    invoke("setup", "vscode", "--yes")
    [group, *_] = everyone.json(".copilot/hooks/agent-memory.json")["hooks"]["SessionStart"]
    command = ["/bin/sh", "-c", group["hooks"][0]["command"]]
    assert subprocess.run(command, stdout=-1).stdout == b"hook\n"
    monkeypatch.setenv("COPILOT_PROJECT_DIR", "/somewhere")
    assert subprocess.run(command, stdout=-1).stdout == b""


def test_undo_takes_back_all_and_nothing_else(everyone: Machine) -> None:
    before = everyone.files()
    assert "There is nothing to do." in invoke("setup", "--undo", "--yes").output
    assert everyone.files() == before and everyone.calls() == []
    invoke("setup", "--yes")
    everyone.calls()
    mine = everyone.json(".cursor/mcp.json") | {"meanwhile": [False, {}]}
    everyone.write(".cursor/mcp.json", json.dumps(mine))
    shown = invoke("setup", "--undo", "--yes").output
    assert "The memories are untouched." in shown
    left = everyone.files()
    assert json.loads(left.pop(".cursor/mcp.json")) == {"theirs": 1, "meanwhile": [False, {}]}
    assert left.items() <= before.items()
    everyone.write(".copilot/settings.json", json.dumps({"enabledPlugins": {PLUGIN: False}}))
    everyone.write(".gemini/settings.json", "{} // mine")
    assert "There is nothing to do." in invoke("setup", "--undo", "--yes").output
    assert everyone.calls() == []


def test_undo_leaves_no_file_where_none_was(machine: Machine) -> None:
    for name in ("gemini", "code", "cursor"):
        machine.install(name)
    invoke("setup", "--yes")
    assert len(machine.files()) == 5
    invoke("setup", "--undo", "--yes")
    assert machine.files() == {}


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
    memory = everyone.json(".cursor/mcp.json")["mcpServers"]["memory"]
    assert memory["command"] == f"{newer}/agent-memory"
    [hook] = everyone.json(".cursor/hooks.json")["hooks"]["sessionStart"]
    assert hook == {"command": f"'{newer}/agent-memory' hook"}


def test_undo_says_what_it_leaves(everyone: Machine) -> None:
    """A hook of ours in one group with the person's, and what a client that was removed has."""
    invoke("setup", "gemini", "--yes")
    file = everyone.home / ".gemini/settings.json"
    [group, *_] = everyone.json(".gemini/settings.json")["hooks"]["SessionStart"]
    both = json.dumps(group | {"hooks": [*group["hooks"], {"command": "mine"}]})
    file.write_text(json.dumps({"hooks": {"SessionStart": [json.loads(both)]}}))
    shown = invoke("setup", "gemini", "--undo", "--yes", code=1).output
    assert f"{file} still names agent-memory, beside what is yours." in shown
    everyone.note("claude", "path", clients.PLUGINS)
    (everyone.bin / "claude").unlink()
    shown = invoke("setup", "claude", "--undo", "--yes", code=1).output
    assert "claude is not on this machine, so what" in shown and "✗" not in shown


def test_dry_run_shows_all_and_a_no_or_nobody_changes_nothing(everyone: Machine) -> None:
    before = everyone.files()
    for words, answer, code in ((["--dry-run"], None, 0), ([], "n\n", 0), ([], "", 1)):
        shown = invoke("setup", *words, input=answer, code=code).output
        for title in ("Claude Code", "Codex", "Copilot CLI", "Gemini CLI", "VS Code", "Cursor"):
            assert f"{title}\n" in shown
        assert f"codex plugin add {PLUGIN}" in shown
        assert f"+++ {everyone.home}/.cursor/mcp.json" in shown and '+    "memory": {' in shown
        assert ("Go on?" in shown and "Nothing was changed." in shown) == (answer is not None)
        assert ("--yes" in shown) == bool(code)
        assert everyone.files() == before and everyone.calls() == []


def test_a_key_beside_what_is_added_is_not_shown(everyone: Machine) -> None:
    key = "sk-proj-" + "Ab1" * 16
    everyone.write(".cursor/mcp.json", json.dumps({"mcpServers": {"x": {"env": {"KEY": key}}}}))
    shown = invoke("setup", "cursor", "--yes").output
    assert key not in shown and "(masked" in shown
    assert key in (everyone.home / ".cursor/mcp.json").read_text()


def test_a_client_that_fails_keeps_no_other_from_being_set_up(everyone: Machine) -> None:
    broken = everyone.write("broken-claude", "")
    everyone.write(".codex/config.toml", "model = ")
    shown = invoke("setup", "--yes", code=1).output
    everyone.write(".copilot/settings.json", "\xff").write_bytes(b"\xff")
    where = f"{everyone.home}/.copilot/settings.json is not UTF-8 text"
    assert where in invoke("setup", "copilot", "--yes", code=1).output
    assert "✗ Claude Code" in shown and "the disk of claude is on fire" in shown
    assert "Codex stays as it is" in shown and "✓ Cursor: set up" in shown
    assert (everyone.home / ".codex/config.toml").read_text() == "model = "
    broken.unlink()
    assert "✓ Claude Code: set up" in invoke("setup", "claude", "--yes").output


BY_HAND = '{"mcpServers": {"memory": {"command": "agent-memory", "args": ["mcp"]}} // mine\n}'
ANOTHER = '{"mcpServers": {"memory": {"command": "npx", "x": {"command": "agent-memory"}}}}'


@pytest.mark.parametrize(
    "text", [BY_HAND, ANOTHER, '{"mcpServers": []}', "[]", "{", '{"a": 1,}', "\xff" + "[" * 100_000]
)
def test_what_cannot_be_changed_stays_and_the_person_is_told_what_to_add(
    everyone: Machine, text: str
) -> None:
    file = everyone.write(".cursor/mcp.json", text)
    shown = invoke("setup", "cursor", "--yes", code=1).output
    assert file.read_text() == text and f"{file} stays as it is" in shown
    assert "✓ Cursor: set up, but for what is left to you above" in shown
    assert "nothing to do" not in invoke("setup", "cursor", "--yes", code=1).output
    block = shown[shown.index("Add this to it yourself:\n") :].split("\n", 1)[1]
    wanted, _ = json.JSONDecoder().raw_decode(block)
    assert wanted["mcpServers"]["memory"]["args"] == ["mcp"]
    everyone.write(".cursor/mcp.json", f"// mine\n{json.dumps(wanted)}")
    assert "stays as it is" not in invoke("setup", "cursor", "--yes").output
    assert "sessionStart" in everyone.json(".cursor/hooks.json")["hooks"]


def test_a_file_that_another_program_changed_meanwhile_stays(
    everyone: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def change(*_: Any) -> None:
        everyone.write(".cursor/mcp.json", '{"new": 1}')

    monkeypatch.setattr("agent_memory.commands.setup.confirm", change)
    assert "was changed meanwhile" in invoke("setup", "cursor", code=1).output
    assert everyone.json(".cursor/mcp.json") == {"new": 1}


def test_what_is_not_here_is_said(machine: Machine) -> None:
    shown = " ".join(invoke("setup", "--help").output.split()).replace(".", ",")
    assert all(f"{client.name}," in shown for client in clients.clients())
    invoke("setup", "emacs", code=2)
    shown = invoke("setup", "codex", "--yes", code=1).output
    assert "Not on this machine: Codex. Nothing was changed." in shown
    told = "None of claude, codex, gemini, copilot, vscode, cursor is on this machine"
    assert told in invoke("setup", "--yes").output
    machine.install("claude")
    (machine.bin / "agent-memory").unlink()
    assert "uv tool update-shell" in invoke("setup", "--yes", code=1).output
    assert machine.calls() == []


def test_a_link_stays_a_link_and_modes_stay(everyone: Machine) -> None:
    real = everyone.write("dotfiles/mcp.json", '{\n  "a": 1\n}\n')
    real.chmod(0o640)
    file = everyone.home / ".cursor/mcp.json"
    file.unlink()
    file.symlink_to(real)
    invoke("setup", "cursor", "--yes")
    assert file.is_symlink() and "memory" in real.read_text()
    assert real.stat().st_mode & 0o777 == 0o640
    invoke("setup", "cursor", "--undo", "--yes")
    assert file.is_symlink() and real.read_text() == '{\n  "a": 1\n}\n'


# Any JSON, laid out as programs do, or otherwise.
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text() | st.floats(allow_nan=False),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)
objects = st.dictionaries(st.text() | st.sampled_from(["mcpServers", "hooks"]), values)


@settings(deadline=None)  # it writes files
@given(objects, st.sampled_from([None, 1, 2, 4, "\t"]), st.sampled_from(["\n", "\r\n"]))
def test_undo_gives_back_any_file(data: dict[str, Any], indent: Any, newline: str) -> None:
    text = (json.dumps(data, indent=indent, ensure_ascii=False) + "\n").replace("\n", newline)
    ours = {"command": "agent-memory", "args": ["mcp"]}
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "mcp.json"
        file.write_bytes(text.encode("utf-8", "surrogatepass"))
        part = clients.Part(
            file, [(("mcpServers", "memory"), ours), (("hooks", "sessionStart", None), ours)]
        )
        client = clients.Files("cursor", "Cursor", "cursor", None, [part])
        assert not client.plan(undo=True).edits
        plan = client.plan(undo=False)
        plan.apply()
        if plan.problems:
            assert file.read_bytes() == text.encode() and not plan.edits
            return
        added = json.loads(file.read_bytes())
        assert added["mcpServers"]["memory"] == ours == added["hooks"]["sessionStart"][0]
        client.plan(undo=True).apply()
        left = json.loads(file.read_bytes()) if file.exists() else {}
        assert left == {key: data[key] for key in left}
        assert all(data[key] in ({}, {"sessionStart": []}) for key in data.keys() - left.keys())
        if indent is not None and left == data != {}:
            assert file.read_bytes() == text.encode()
