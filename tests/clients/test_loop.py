"""The server answers every line that a client may send, in either protocol, and at once."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from command import Command
from mcp_client import CHOSEN, Raw
from processes import loaded

KEY = "io.modelcontextprotocol/"
VERSION = f"{KEY}protocolVersion"
MODERN = {VERSION: "2026-07-28", f"{KEY}clientCapabilities": {}}
DEEP = '{"a":' * 3_000 + "1" + "}" * 3_000
pytestmark = pytest.mark.timeout(180)


# What is wrong with a line, the id that is answered, and the code.
WRONG = [
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
]
SILENT = (
    '{"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": [1]}}',
    '{"jsonrpc": "2.0", "id": 99, "result": {}}',
    '{"jsonrpc": "2.0", "id": null, "error": {"code": 1, "message": ""}}',
)


def test_a_line_that_is_wrong_is_answered_with_an_error_and_what_asks_nothing_is_not(
    root: Path,
) -> None:
    with Raw(root) as server:
        for line, key, code in WRONG:
            server.write(line)
            answer = server.read()
            assert (answer["id"], answer["error"]["code"]) == (key, code), line
            assert answer["error"]["message"].endswith("."), line
        for line in SILENT:
            server.write(line)
            server.send("ping")
            assert server.read()["result"] == {}, line
        answer = server.call("memory_store", content="half \ud83d")
        assert answer["isError"] and "half an emoji" in answer["content"][0]["text"]
    assert not root.exists()


def test_without_a_handshake_each_call_says_the_version_and_what_it_does_not_say_is_named(
    root: Path,
) -> None:
    with Raw(root, shakes=False) as server:
        about = server.say("server/discover", _meta=MODERN)
        assert about["supportedVersions"] == ["2026-07-28"] and about["instructions"]
        tools = server.say("tools/list", _meta=MODERN)
        assert len(tools["tools"]) == 2 and tools["resultType"] == "complete"
        assert tools["_meta"][f"{KEY}serverInfo"]["name"] == "agent-memory"
        stored = server.call("memory_store", content=CHOSEN, _meta=MODERN)
        assert not stored["isError"] and stored["resultType"] == "complete"
        another = MODERN | {VERSION: "2027-01-01"}
        for meta, code in (({VERSION: "2026-07-28"}, -32602), (another, -32022)):
            server.send("tools/list", _meta=meta)
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


def test_what_cannot_be_loaded_is_told_by_each_call_and_what_a_library_prints_spoils_no_answer(
    tmp_path: Path,
) -> None:
    there, pipe = tmp_path / "there", subprocess.PIPE
    command = [sys.executable, "-c", SERVER % f"os.remove({str(there)!r}); return self.answer"]
    lists, loads = {"result": {"tools": []}}, {"result": {"called": {"a": 1}}}
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True) as server:
        assert server.stdin and server.stdout
        for method, expected in (
            ("tools/list", lists),
            *[("tools/call", "FileNotFoundError")] * 2,
            *[("tools/call", loads)] * 2,  # once it can be
        ):
            if expected == loads:
                there.touch()
            call = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {"a": 1}}
            server.stdin.write(f"{json.dumps(call)}\n")
            server.stdin.flush()
            answer = json.loads(server.stdout.readline())
            if isinstance(expected, str):
                message = answer["error"]["message"]
                assert expected in message and str(there) not in message
            else:
                assert answer == {"jsonrpc": "2.0", "id": 1, **expected}
        assert server.communicate()[1].count("noise") == 4


def test_the_first_answers_need_nothing_that_takes_long() -> None:
    script = """
import memory_mcp.loop
from memory_mcp.handlers import Handlers
Handlers({"agent_identity": "sam"}, "", "")
"""
    assert loaded(script) == ("", [])
