"""The hooks of a program ask the running server: before a prompt it tells what is remembered and
hears what the human types, so that a quote counts; at the end of a turn it tells what was stored.
"""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from command import Command
from mcp_client import CHOSEN, Raw, connected, started, told
from mcp_types import ElicitRequestParams, ElicitResult, ListRootsResult, Root
from memory_mcp.hidden import MAX_PROMPTS
from memory_mcp.sessions import ClientSession
from memory_semantic import MemoryStorage

RULE = "From now on, never deploy on a Friday."
IN_CODEX = {"turn_trigger": "user", "thread_source": "user"}
pytestmark = pytest.mark.timeout(180)


@pytest.fixture(autouse=True)
def attended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLAUDE_CODE_ENTRYPOINT", "cli")


class TestBeforeAPrompt:
    def test_all_that_holds_is_told_once_and_what_is_new_later(
        self, root: Path, command: Command
    ) -> None:
        command.json("store", CHOSEN)
        with Raw(root) as server:
            before = server.hook("before_prompt", prompt="Hello?", session="a", cwd=str(root))
            told = before["hookSpecificOutput"]
            assert told.keys() == {"hookEventName", "additionalContext"}
            assert told["hookEventName"] == "UserPromptSubmit"
            assert CHOSEN in told["additionalContext"] and "<" not in told["additionalContext"]
            assert server.hook("before_prompt", prompt="Hello?", session="a") == {}
            command.json("store", RULE, "--pin")
            later = str(server.hook("before_prompt", prompt="Hello?", session="a"))
            assert RULE in later and CHOSEN not in later
            assert CHOSEN in str(server.hook("before_prompt", prompt="Hello?", session="b"))

    def test_what_the_session_has_seen_stored_or_found_is_not_told_again(
        self, root: Path, command: Command
    ) -> None:
        session = ClientSession({"storage_root": str(root)}, "sam", "a")
        session.show([command.json("store", CHOSEN)["memory_id"]])  # as its start has
        session.save()
        with Raw(root) as server:
            assert server.hook("before_prompt", prompt="Hello?", session="a") == {}
            server.call("memory_store", content=RULE)
            assert server.hook("before_prompt", prompt="Hello?", session="a") == {}
            assert RULE in str(server.hook("before_prompt", prompt="Hello?", session="b"))

    def test_all_that_holds_is_told_even_if_the_model_stored_or_searched_before(
        self, root: Path, command: Command
    ) -> None:
        with Raw(root) as server:
            assert server.hook("before_prompt", prompt="Hello?", session="a") == {}
            server.call("memory_search", query="databases")
            server.call("memory_store", content=RULE)
            command.run("store", CHOSEN)
            assert CHOSEN in str(server.hook("before_prompt", prompt="Hello?", session="a"))

    def test_a_statement_brings_the_reminder_and_no_question_or_task_does(self, root: Path) -> None:
        task = f"<task-notification><result>{RULE}</result></task-notification>"
        skill = "/agent-memory:memory the state of the tests"
        with Raw(root) as server:
            for prompt in (RULE, "Why is that so?", task, skill):
                told = str(server.hook("before_prompt", prompt=prompt, session="a"))
                assert ("memory_store with `quote`" in told) is (prompt == RULE)

    async def test_what_a_page_said_is_not_told(self, root: Path) -> None:
        storage = MemoryStorage("sam", {"storage_root": str(root)})
        await storage.upsert([RULE], said_by="tool")
        with Raw(root) as server:
            assert server.hook("before_prompt", prompt="When do we deploy?", session="a") == {}
            assert RULE in server.call("memory_search", query="deploy")["content"][0]["text"]

    def test_whatever_it_is_given_the_prompt_goes_on(self, root: Path) -> None:
        with Raw(root) as server:
            for given in ({}, {"prompt": 5, "session": None, "cwd": ["x"]}):
                assert server.hook("before_prompt", **given) == {}


TASK = "<task-notification><result>x</result></task-notification>"
CALLED = ("claudecode/toolUseId", "callId", "x-codex-turn-metadata")
# What a program gives before a prompt, with its metadata, and whether the words are the human's.
PROMPTS: list[tuple[dict[str, Any], bool]] = [
    ({"prompt": RULE}, True),
    ({"prompt": RULE, "source": "user"}, True),
    ({"prompt": f"$5 says this holds. {RULE}"}, True),
    *(({"prompt": f"/{name} {RULE}"}, True) for name in ("remember", "agent-memory:remember")),
    ({"prompt": RULE, "source": "schedule_wakeup"}, False),
    ({"prompt": f"{TASK}\n\n{RULE}"}, False),
    ({"prompt": f'See: <channel source="x">y</channel> {RULE}'}, False),
    *(({"prompt": RULE, "_meta": {mark: {}}}, False) for mark in CALLED),  # the model calls it
]


class TestAQuote:
    def stored(self, server: Raw, _meta: Any = None, **more: Any) -> dict[str, Any]:
        content = "Nobody deploys on a Friday."
        given = {"content": content, "quote": "never deploy on a Friday", "pin": True, **more}
        return json.loads(server.call("memory_store", _meta, **given)["content"][0]["text"])

    @pytest.mark.parametrize(("given", "counts"), PROMPTS)
    def test_of_what_the_human_typed_counts_and_stays_in_the_process(
        self, root: Path, command: Command, given: dict[str, Any], counts: bool
    ) -> None:
        with Raw(root) as server:
            server.call("before_prompt", **given, session="a")
            stored = self.stored(server)
        assert (stored.get("said_by") == "user") is counts
        assert ("Pinned, and shown at the start of each" in stored["status"]) is counts
        shown = command.json("show", stored["memory_id"])
        heard = (shown["said_by"], shown.get("quote"), shown.get("pinned"))
        assert heard == (("user", RULE, True) if counts else ("agent", None, None))
        sessions = (root / ".hooks").rglob("*.json")
        assert not any(RULE in each.read_text() for each in sessions)

    @pytest.mark.parametrize("entry", ["sdk-cli", "mcp", ""])
    def test_of_a_program_does_not_and_the_command_that_pins_is_named(
        self, root: Path, monkeypatch: pytest.MonkeyPatch, entry: str
    ) -> None:
        monkeypatch.setenv("CLAUDE_CODE_ENTRYPOINT", entry)
        with Raw(root) as server:
            server.hook("before_prompt", prompt=RULE, session="a")
            stored = self.stored(server)
        assert "said_by" not in stored and stored["status"].startswith(
            "stored. Not pinned by this. If "
        )
        assert f"agent-memory pin {stored['memory_id']} --agent sam" in stored["status"]

    def test_in_codex_its_turn_says_whose_it_is(
        self, root: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.delenv("CLAUDE_CODE_ENTRYPOINT")
        of_user = {"x-codex-turn-metadata": IN_CODEX}
        with Raw(root) as server:  # what the parent of a sub-agent told it
            server.call("before_prompt", {"threadId": "child"}, prompt=RULE, session="parent")
            assert "said_by" not in self.stored(server, _meta=of_user)
            server.call("before_prompt", {"threadId": "a"}, prompt=RULE, session="a")
            for turn in ({"turn_trigger": "exec"}, {"thread_source": "subagent"}):
                meta = {"x-codex-turn-metadata": IN_CODEX | turn}
                assert "said_by" not in self.stored(server, _meta=meta)
            assert self.stored(server, _meta=of_user)["said_by"] == "user"

    def test_the_last_prompts_count(self, root: Path) -> None:
        with Raw(root) as server:
            server.hook("before_prompt", prompt=RULE, session="a")
            for n in range(MAX_PROMPTS - 1):
                server.hook("before_prompt", prompt=f"Go on with {n}.", session="a")
            assert self.stored(server)["said_by"] == "user"
            server.hook("before_prompt", prompt="And on.", session="a")
            assert "said_by" not in self.stored(server, content="Friday has no deploy.")

    def test_what_was_typed_before_a_clear_counts_no_more(self, root: Path) -> None:
        with Raw(root) as server:
            for prompt, session in ((RULE, "a"), ("Hello?", "b")):
                server.hook("before_prompt", prompt=prompt, session=session)
            assert "said_by" not in self.stored(server)


class TestAReceipt:
    def test_tells_what_was_stored_and_how_to_undo_it_once(self, root: Path) -> None:
        with Raw(root) as server:
            assert server.hook("receipt", session="a") == {}
            server.hook("before_prompt", prompt=RULE, session="a")
            given = {"content": RULE, "quote": RULE}
            server.call("memory_store", **given)
            line = server.hook("receipt", session="a")["systemMessage"]
            assert line.startswith("Remembered mem-") and f'"{RULE}" (said by you' in line
            assert re.search(
                rf"undo: agent-memory forget mem-\w+ --agent sam --root {root}\)$", line
            )
            server.call("memory_store", **given)  # known already
            assert server.hook("receipt", session="a") == {}
            server.hook("before_prompt", prompt=f"/remember {CHOSEN}", session="a")
            server.call("memory_store", content=CHOSEN)
            assert server.hook("receipt", session="a") == {}  # the skill has told it
            server.hook("before_prompt", prompt="Go on.", session="a")
            server.call("memory_store", content="Tabs.")
            assert "Tabs." in server.hook("receipt", session="a")["systemMessage"]


class TestAPin:
    """Where a program can ask, its person decides about a rule."""

    # With a handshake, and without.
    @pytest.mark.parametrize("mode", ["legacy", "auto"])
    @pytest.mark.parametrize("action", ["accept", "decline", "cancel"])
    async def test_asks_the_person(
        self, root: Path, command: Command, action: Any, mode: str
    ) -> None:
        asked, agreed = list[str](), action == "accept"

        async def answer(_: object, question: ElicitRequestParams) -> ElicitResult:
            asked.append(question.message)
            return ElicitResult(action=action, content={"rule": True} if agreed else None)

        async with connected(started(root), elicitation_callback=answer, mode=mode) as memory:
            stored = await memory.ask("memory_store", content=RULE, pin=True)
            await memory.ask("memory_store", content=CHOSEN)
            await memory.ask("memory_store", content="Tabs.", pin="true", everywhere=True)
        assert asked == [
            f'Make this a rule for every session in this project? "{RULE}"',
            'Make this a rule for every session, in every project? "Tabs."',
        ]
        assert ("Not pinned: the user did not agree" in stored["status"]) is not agreed
        assert (". Pinned" in stored["status"]) is agreed
        shown = await told(command, "show", stored["memory_id"])
        assert shown["said_by"] == ("user" if agreed else "agent")
        assert len(await told(command, "list", "--pinned")) == (2 if agreed else 0)

    @pytest.mark.parametrize("mode", ["legacy", "auto"])
    async def test_shows_the_whole_text_or_asks_nobody(
        self, root: Path, mode: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        asked: list[str] = []

        async def answer(_: object, question: ElicitRequestParams) -> ElicitResult:
            asked.append(question.message)
            return ElicitResult(action="accept", content={"rule": len(asked) == 1})

        async def roots(_: object) -> ListRootsResult:
            return ListRootsResult(roots=[Root(uri=root.as_uri())])  # pyright: ignore

        both = {"elicitation_callback": answer, "list_roots_callback": roots, "mode": mode}
        by_command = "agent-memory pin mem-"
        async with connected(started(root), **both) as memory:
            old = (await memory.ask("memory_store", content=CHOSEN))["memory_id"]
            for given, status in (
                ({"content": RULE + " x" * 270}, ". Pinned"),
                ({"content": "a"}, "Not pinned"),
                ({"content": "Users are in MySQL.", "replaces": old}, by_command),
                ({"content": RULE + " y" * 300}, by_command),
            ):
                assert status in (await memory.ask("memory_store", **given, pin=True))["status"]
            assert "empty" in await memory.refused("memory_store", content=" ", pin=True)
        assert len(asked) == 2 and asked[0].endswith(' x x"')
        monkeypatch.setenv("CLAUDE_CODE_ENTRYPOINT", "sdk-cli")  # nobody is there
        async with connected(started(root), **both) as memory:
            await memory.ask("memory_store", content="More.", pin=True)
        assert len(asked) == 2

    def test_that_nobody_answers_stores_nothing(self, root: Path, command: Command) -> None:
        with Raw(root, can={"elicitation": {}}) as server:
            call = {"name": "memory_store", "arguments": {"content": CHOSEN, "pin": True}}
            server.send("tools/call", **call)
            asked = server.read()
            server.write(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "error": {"code": 1}}))
            told = server.read()["result"]
            assert told["isError"] and "Nothing was stored" in told["content"][0]["text"]
        assert not root.exists()
