"""One memory in Claude Code, Codex, Gemini CLI and Copilot CLI, set up by one command: the
real programs, with scripted models.
"""

import json
import os
from pathlib import Path

import pytest
from memory_semantic.tools import MemorySearchTool, MemoryStoreTool
from real_clients import VARIABLE, Clients
from scripted_models import Call, Request

pytestmark = [pytest.mark.clients, pytest.mark.timeout(600)]  # programs start slowly when busy

PEAR = "Our staging database is called pear."
QUINCE = "Our staging database is called quince now."
TABS = "We indent with tabs."
RULE = "From now on, always write commit messages in German."
HIDDEN = ("before_prompt", "receipt")
# What an endpoint calls a tool's schema.
SCHEMAS = ("input_schema", "parameters", "parametersJsonSchema")
# As whose words the text of a start stands in a request.
ROLES = {"claude": "system", "codex": "developer", "gemini": "user", "copilot": "user"}


@pytest.fixture(params=ROLES)
def client(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def home(request: pytest.FixtureRequest) -> Clients:
    """A fresh home with all clients, or with the one that is tested."""
    one = "client" in request.fixturenames
    names = [request.getfixturevalue("client")] if one else [*ROLES]
    return Clients(Path.home(), Path(os.environ[VARIABLE]), names)


@pytest.fixture
def clients(home: Clients) -> Clients:
    """Set up by the one command."""
    home.run("agent-memory", "setup", "--yes")
    return home


def stores(content: str) -> Call:
    return Call("memory_store", {"content": content})


def test_the_first_request_holds_both_tools_and_what_is_remembered(
    clients: Clients, client: str
) -> None:
    clients.run("agent-memory", "store", PEAR)
    session = clients.talk(client, "Good morning.")
    first = session.first()
    session.expects(first.roles(PEAR) == {ROLES[client]}, f"a start's text as {ROLES[client]}")
    for ours in (MemoryStoreTool, MemorySearchTool):
        offered = [tool for name, (tool, _) in first.tools.items() if name.endswith(ours.name)]
        session.expects(offered, f"{ours.name} in the first request, with its schema")
        [schema] = [offered[0][name] for name in SCHEMAS if name in offered[0]]
        session.expects(
            schema["properties"].keys() >= ours.input_schema["properties"].keys(),
            f"the arguments of {ours.name}",
        )
        assert ours.description in offered[0]["description"]
    assert not [name for name in first.tools if name.endswith(HIDDEN)]


def test_a_model_cannot_call_a_tool_that_is_not_listed(clients: Clients, client: str) -> None:
    session = clients.talk(client, "Good morning.", stores(PEAR), Call("receipt"), "Bye.")
    last = session.requests[-1].said
    session.expects(len(session.requests) == 3, "after a call of an unknown tool, it goes on")
    session.expects("Remembered mem-" not in last, "a model cannot call a tool that is not listed")
    assert '"memory_id"' in last  # what it could call was answered


def test_codex_runs_no_hook_that_the_person_does_not_trust(clients: Clients) -> None:
    clients.run("agent-memory", "store", PEAR)
    session = clients.talk("codex", "Good morning.", trusted=False)
    session.expects(PEAR not in session.first().said, "it runs no hook before the person trusts it")
    session.expects(any("memory_store" in each for each in session.first().tools), "the tools")


def test_told_in_one_corrected_in_the_other_and_gone_in_the_next(clients: Clients) -> None:
    def corrects(request: Request) -> Call:
        return Call("memory_store", {"content": QUINCE, "replaces": request.id_of(PEAR)})

    clients.talk("claude", f"{PEAR} Remember that.", stores(PEAR))
    told = clients.talk("codex", QUINCE, corrects)
    told.expects(PEAR in told.first().said, "what Claude Code stored, in the first request")
    assert '"replaced"' in told.requests[-1].said
    for client in ROLES:
        session = clients.talk(client, "Good morning.")
        session.expects(QUINCE in session.first().said, "what holds now, in the first request")
        assert PEAR not in session.first().said


def test_what_a_person_types_is_the_persons_and_a_rule_is_agreed_to(clients: Clients) -> None:
    pinned = Call("memory_store", {"content": RULE, "pin": True})
    with clients.screen(stores(PEAR), "Noted.", pinned, "Noted.") as screen:
        screen.waits_for("shift+tab")
        screen.type(PEAR)
        screen.waits_for(f'"{PEAR}" (said by you; undo: agent-memory forget mem-')
        screen.type(RULE)
        screen.waits_for("Make this a rule for every session in this project?")
        screen.waits_for(f'"{RULE}" (said by you', pressing=b"\r")
    [rule] = json.loads(clients.run("agent-memory", "list", "--pinned", "--json"))
    assert rule["content"] == RULE
    clients.talk("claude", TABS, stores(TABS))
    [last] = json.loads(clients.run("agent-memory", "list", "--limit", "1", "--json"))
    assert last["content"] == TABS and last["said_by"] == "agent"  # a script's


def test_what_is_stored_elsewhere_meanwhile_comes_before_the_next_prompt_and_once(
    clients: Clients, client: str
) -> None:
    clients.talk(client, "Good morning.")
    clients.run("agent-memory", "store", PEAR)
    for _ in range(2):
        asked = "What is the staging database called?"
        session = clients.talk(client, asked, again=True)
        session.expects(session.first().said.count(PEAR) == 1, "what is new, before a prompt, once")


def test_undo_takes_all_of_it_back(home: Clients) -> None:
    mine = {
        ".claude/settings.json": '"model": "opus"',
        ".codex/config.toml": 'model = "gpt"  # mine',
    }
    for file, text in mine.items():
        (home.home / file).parent.mkdir()
        (home.home / file).write_text(f"{{{text}}}" if file.endswith("json") else text)
    home.run("agent-memory", "setup", "--yes")
    assert "agent-memory" in (home.home / ".claude/settings.json").read_text()
    home.run("agent-memory", "setup", "--undo", "--yes")
    for file, text in mine.items():
        assert text in (home.home / file).read_text()
    # Copilot CLI notes that the plugin is off. Claude Code notes which plugins it knew, and removes
    # its marked copy some days later.
    copilot = home.home / ".copilot/settings.json"
    noted = json.loads(copilot.read_text())
    assert noted["enabledPlugins"] == {"agent-memory@agent-memory": False}
    own = (".claude.json", ".claude/plugins/cache", ".copilot/settings.json")
    for file in home.home.rglob("*"):
        if file.is_file() and not file.is_symlink() and b"agent-memory" in file.read_bytes():
            assert str(file.relative_to(home.home)).startswith(own)
