"""The server answers every line that a client may send, in either protocol, and at once."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from command import Command
from mcp_client import CHOSEN, Raw

KEY = "io.modelcontextprotocol/"
MODERN = {f"{KEY}protocolVersion": "2026-07-28", f"{KEY}clientCapabilities": {}}
DEEP = '{"a":' * 3_000 + "1" + "}" * 3_000
pytestmark = pytest.mark.timeout(180)


@pytest.mark.parametrize(
    ("line", "key", "code"),
    [
        ("{nope", None, -32700),
        ('{"jsonrpc": "2.0", "id": 7, "method": "ping", "params": ' + DEEP + "}", None, -32700),
        ('{"jsonrpc": "2.0", "id": 7, "method": "ping", "x": "\udcff"}', None, -32700),
        ("42", None, -32600),
        ('[{"jsonrpc": "2.0", "id": 7, "method": "ping"}]', None, -32600),
        ('{"id": 7, "method": "ping"}', 7, -32600),
        ('{"jsonrpc": "2.0", "id": null, "method": "ping"}', None, -32600),
        ('{"jsonrpc": "2.0", "id": 1.5, "method": "ping"}', None, -32600),
        ('{"jsonrpc": "2.0", "id": true, "method": "ping"}', None, -32600),
        ('{"jsonrpc": "2.0", "id": 7, "method": "ping", "params": [1]}', 7, -32600),
        ('{"jsonrpc": "2.0", "id": 7, "method": 5}', 7, -32600),
        ('{"jsonrpc": "2.0", "id": "a", "method": "no/such"}', "a", -32601),
        ('{"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {"name": "x"}}', 7, -32602),
        ('{"jsonrpc": "2.0", "id": 7, "method": "prompts/get", "params": {}}', 7, -32602),
    ],
    ids=lambda value: str(value)[:40],
)
def test_a_line_that_is_wrong_is_answered_with_an_error(
    root: Path, line: str, key: object, code: int
) -> None:
    with Raw(root) as server:
        server.write(line)
        answer = server.read()
        assert (answer["id"], answer["error"]["code"]) == (key, code)
        assert answer["error"]["message"].endswith(".")
        assert server.say("ping") == {}


@pytest.mark.parametrize(
    "line",
    [
        '{"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": [1]}}',
        '{"jsonrpc": "2.0", "id": 99, "result": {}}',
        '{"jsonrpc": "2.0", "id": null, "error": {"code": 1, "message": ""}}',
    ],
)
def test_what_asks_nothing_is_not_answered(root: Path, line: str) -> None:
    with Raw(root) as server:
        server.write(line)
        server.send("ping")
        assert server.read()["result"] == {}


def test_half_an_emoji_is_refused_in_words_and_nothing_is_stored(
    root: Path, command: Command
) -> None:
    with Raw(root) as server:
        for tool, argument in (("memory_store", "content"), ("memory_search", "query")):
            answer = server.call(tool, **{argument: "half \ud83d"})
            assert answer["isError"] and "half an emoji" in answer["content"][0]["text"]
    assert not root.exists()


class TestWithoutAHandshake:
    def test_each_call_says_the_version_and_what_the_client_can(self, root: Path) -> None:
        with Raw(root, shakes=False) as server:
            about = server.say("server/discover", _meta=MODERN)
            assert about["supportedVersions"] == ["2026-07-28"] and about["instructions"]
            tools = server.say("tools/list", _meta=MODERN)
            assert len(tools["tools"]) == 2 and tools["resultType"] == "complete"
            assert tools["_meta"][f"{KEY}serverInfo"]["name"] == "agent-memory"
            stored = server.call("memory_store", content=CHOSEN, _meta=MODERN)
            assert not stored["isError"] and stored["resultType"] == "complete"

    @pytest.mark.parametrize(
        ("method", "meta", "code"),
        [
            ("tools/list", {f"{KEY}protocolVersion": "2026-07-28"}, -32602),
            ("tools/list", MODERN | {f"{KEY}protocolVersion": "2027-01-01"}, -32022),
        ],
    )
    def test_what_it_does_not_say_is_named(
        self, root: Path, method: str, meta: dict[str, Any], code: int
    ) -> None:
        with Raw(root, shakes=False) as server:
            server.say("server/discover", _meta=MODERN)
            server.send(method, _meta=meta)
            assert server.read()["error"]["code"] == code
            shaken = server.say("initialize", protocolVersion="2025-11-25", capabilities={})
            assert shaken["protocolVersion"] == "2025-11-25"


def test_all_that_was_called_is_answered_before_it_ends(root: Path, command: Command) -> None:
    with Raw(root) as server:
        for n in range(20):
            arguments = {"content": f"Shelf {n} holds box {n * 7}."}
            server.send("tools/call", name="memory_store", arguments=arguments)
        server.input.close()
        answers = [json.loads(line) for line in server.output]
        assert len(answers) == 20 and not any(each["result"]["isError"] for each in answers)
        assert server.process.wait(60) == 0
    assert len(command.json("list", "--limit", "50")) == 20


def test_calls_run_side_by_side(root: Path) -> None:
    """One that waits for its person keeps none back."""
    with Raw(root, can={"elicitation": {}}, CLAUDE_CODE_ENTRYPOINT="cli") as server:
        arguments = {"content": CHOSEN, "pin": True}
        server.send("tools/call", name="memory_store", arguments=arguments)
        asked = server.read()
        assert asked["method"] == "elicitation/create"
        assert not server.call("memory_search", query=CHOSEN)["isError"]
        server.input.close()  # nobody will answer
        assert "Nothing was stored" in server.read()["result"]["content"][0]["text"]
        assert server.process.wait(60) == 0


SERVER = """
import os
from memory_mcp.loop import serve
class Server:
    info, about, lists = {}, {}, {"tools/list": {"tools": []}}
    def load(self):
        %s
    def answer(self, call):
        print("noise")
        os.system("echo more noise")
        return {"called": call.params}
serve(Server())
"""


def test_what_a_library_prints_spoils_no_answer() -> None:
    script = SERVER.replace("%s", "return self.answer")
    line = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"a": 1}})
    done = subprocess.run(
        [sys.executable, "-c", script], input=line + "\n", capture_output=True, text=True
    )
    assert json.loads(done.stdout)["result"] == {"called": {"a": 1}}
    assert done.stderr.count("noise") == 2


def test_what_cannot_be_loaded_is_told_by_each_call() -> None:
    script = SERVER.replace("%s", "raise ImportError('secret text')")
    lines = [
        json.dumps({"jsonrpc": "2.0", "id": n, "method": method})
        for n, method in enumerate(("tools/list", "tools/call", "tools/call"))
    ]
    done = subprocess.run(
        [sys.executable, "-c", script], input="\n".join(lines), capture_output=True, text=True
    )
    listed, *called = (json.loads(each) for each in done.stdout.splitlines())
    assert listed["result"] == {"tools": []}
    for each in called:
        assert "ImportError" in each["error"]["message"]
        assert "secret text" not in each["error"]["message"]


def test_the_first_answers_need_nothing_that_takes_long() -> None:
    script = """
import sys
import memory_mcp.loop
from memory_mcp.handlers import Handlers
Handlers({"agent_identity": "sam"}, "", "")
slow = {"asyncio", "numpy", "openai", "pydantic", "qdrant_edge", "tokenizers", "yaml"}
print(*slow & set(sys.modules))
"""
    assert subprocess.check_output([sys.executable, "-c", script], text=True).strip() == ""
