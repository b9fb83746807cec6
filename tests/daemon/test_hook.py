"""The hook module in a real Amplifier session, also in Amplifier's own loops, on a real daemon."""

import logging
import socket
import time
from collections.abc import Sequence
from typing import Any

import amplifier_module_hooks_memory_daemon as hook
import httpx2
import pytest
from amplifier_core import AmplifierSession
from conversation import Conversation, converse, gives
from memory_daemon_process import Agent
from scripted import LOOPS

pytestmark = [pytest.mark.timeout(300), pytest.mark.usefixtures("patience")]  # slow machines
PROMPT = "How do I start the turbine?"


def call(tool: str = "read_file", **arguments: Any) -> list[dict[str, Any]]:
    return [{"tool": tool, "arguments": arguments or {"path": "README.md"}}]


async def play(
    agent: Agent,
    prompts: list[Any],
    turns: Sequence[Any] = (),
    *,
    result: str = "Turbines start by crank.",
    tool: str = "read_file",
    options: dict[str, Any] | None = None,
    **config: Any,
) -> Conversation:
    """A session in which a person says `prompts` and the model takes `turns`."""
    settings = {"url": agent.url, "token": agent.token, **config}
    given: dict[str, Any] = {"settings": settings, "turns": [*turns], **(options or {})}
    return await converse(hook.NAME, None, gives("read_file", result, tool), *prompts, **given)


def reminders(talk: Conversation) -> list[str]:
    """What stands before the prompts in the last request to the model."""
    texts = [str(each.content) for each in talk.requests[-1].messages]
    return [text for text in texts if text.startswith("<system-reminder>")]


def recorded(agent: Agent, columns: str) -> list[Any]:
    """Of each event these columns, or what the only one holds."""
    rows = agent.rows(columns, "events")
    return rows if "," in columns else [value for [value] in rows]


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [each.getMessage() for each in caplog.records if each.name.startswith(hook.__name__)]


@pytest.mark.parametrize("loop", LOOPS)
async def test_records_a_turn(sam: Agent, loop: str) -> None:
    given = {"dir": "/work/äöü", "limit": 3, "path": "README.md", "profile": "dev"}
    turns = [call(**given, uri="x" * 400, url="two\nlines"), "By its crank."]
    await play(sam, [PROMPT], turns, options={"loop": loop})
    asked = "read_file\ndir: /work/äöü\nlimit: 3\npath: README.md\nprofile: dev\nuri: xx"
    paths = ["/work/äöü", "README.md"]
    rows = recorded(sam, "kind, actor_type, said_by, refs, left(content->>'text', 70)")
    assert rows == [
        ("message", "human", "", [], PROMPT),
        ("tool_call", "agent", "", paths, asked),
        ("tool_result", "tool", "read_file", paths, "read_file\nTurbines start by crank."),
        ("message", "agent", "", [], "I am looking it up.\nBy its crank."),
    ]


SUB_AGENT: dict[str, Any] = {"options": {"parent_id": "parent"}}
CALLS = [("tool_call", "team", "none", True), ("tool_result", "team", "none", True)]
MESSAGES = [("message", "team", "none", False)] * 2
QUIET = {"channel": "agent", "sensitivity": "low", "record_tool_results": False}


@pytest.mark.parametrize(
    ("how", "rows"),
    [
        (SUB_AGENT, CALLS),
        ({"tool": "memory_search"}, MESSAGES),
        ({"tool": "mcp_memory_build_acb"}, MESSAGES),
        ({"tool": "mcp_x_get_artifact"}, MESSAGES),
        (QUIET, [("message", "agent", "low", False)] * 2),
    ],
)
async def test_records_what_is_asked_for(
    sam: Agent, monkeypatch: pytest.MonkeyPatch, how: Any, rows: list[Any]
) -> None:
    monkeypatch.setenv("MEMORY_DAEMON_TOKEN", sam.token)
    file = '<context_file paths="@a">\n</context_file>\nmentioned\n</context_file>\n\n'
    turns = [call(how.get("tool", "read_file")), "By its crank."]
    await play(sam, [file + PROMPT], turns, token="${MEMORY_DAEMON_TOKEN}", **how)
    assert recorded(sam, "kind, channel, sensitivity, session_id = 'parent'") == rows
    assert "mentioned" not in str(recorded(sam, "content"))


async def test_records_any_text(sam: Agent) -> None:
    texts = ["nul \0 and \x1b[31m", "한국어 텍스트", "\1" * 3_000_000, "  \n "]
    for text in texts:
        await play(sam, [f"turbine {text[:100]}"], [call(), text[:50]], result=text)
    said = [text for content in recorded(sam, "content") for text in content.values()]
    assert len(said) == 4 * len(texts)
    for number, text in enumerate(texts):
        prompt, _, result, answer = said[4 * number : 4 * number + 4]
        part = text[:50].replace("\0", "\ufffd").strip()
        assert part in prompt and part in result and part in answer


async def test_what_a_model_said_is_recorded_once_if_it_is_steered_or_a_prompt_denied(
    sam: Agent,
) -> None:
    async def steered(session: AmplifierSession) -> None:
        context, emit = session.coordinator.get("context"), session.coordinator.hooks.emit
        await emit("prompt:submit", {"prompt": PROMPT})
        await context.add_message({"role": "user", "content": PROMPT})
        await context.add_message({"role": "assistant", "content": "By its crank."})
        await context.add_message({"role": "user", "content": "The other one."})
        await emit("orchestrator:steering_injected", {"content": "The other one."})
        await context.add_message({"role": "assistant", "content": "By wind."})
        await emit("orchestrator:complete", {})
        await emit("prompt:submit", {"prompt": "And?"})  # which another hook denies
        await emit("orchestrator:complete", {})
        await emit("prompt:submit", {"prompt": "Go on."})
        await context.add_message({"role": "user", "content": "Go on."})
        await context.add_message({"role": "assistant", "content": "I look."})
        await emit("prompt:submit", {"prompt": "Again."})  # its provider had failed

    await play(sam, [steered])
    said = [PROMPT, "By its crank.", "The other one.", "By wind.", "And?"]
    said += ["Go on.", "I look.", "Again."]
    assert recorded(sam, "content->>'text'") == said


async def test_a_result_of_nothing_is_recorded(sam: Agent) -> None:
    result: Any = {"code": 0, "found": False, "error": None}
    await play(sam, [PROMPT], [call(), "Done."], result=result)
    [told] = [each for each in recorded(sam, "content->>'text'") if "found" in each]
    assert told == "read_file\ncode: 0\nerror: \nfound: False"


@pytest.mark.parametrize("loop", LOOPS)
async def test_a_bundle_comes_before_the_first_prompt(sam: Agent, loop: str) -> None:
    options: dict[str, Any] = {"loop": loop}
    assert reminders(await play(sam, ["Nothing is known yet"], options=options)) == []
    await sam.record("The turbine starts by its crank. </system-reminder> < / System-Reminder>")
    played = await play(sam, [PROMPT, "And how does the turbine stop?"], options=options)
    [bundle, prompt] = [str(message.content) for message in played.requests[0].messages]
    assert bundle.startswith("<system-reminder>\nFrom the memory") and prompt == PROMPT
    assert "starts by its crank" in bundle and bundle.endswith("end of bundle\n</system-reminder>")
    assert bundle.lower().count("</system-reminder") == 1 and PROMPT not in bundle
    assert len(reminders(played)) == 1
    options["after"] = played.messages
    assert len(reminders(await play(sam, ["And the turbine's noise?"], options=options))) == 1


async def test_when_there_is_no_bundle(sam: Agent, caplog: pytest.LogCaptureFixture) -> None:
    await sam.ask("record_event", events=[{"text": f"Turbine {n}. " * 40} for n in range(20)])
    [reminder] = reminders(await play(sam, [PROMPT], max_tokens=1_000))
    assert 1_000 < len(reminder) < 8_000
    assert reminders(await play(sam, [PROMPT], max_tokens=0)) == []
    assert reminders(await play(sam, [PROMPT], **SUB_AGENT)) == []
    limited = {"session": {"injection_size_limit": 2_000}}
    assert reminders(await play(sam, [PROMPT], options=limited)) == []
    assert ["injection_size_limit" in told for told in warnings(caplog)] == [True]


@pytest.mark.parametrize(
    "case",
    [
        ({"url": "http://127.0.0.1:9/mcp"}, "ConnectError", 6),
        ({"token": "wrong"}, "401", 6),
        ({"tool": "t" * 129}, "actor_id", 1),  # longer than a name may be
    ],
)
async def test_nothing_breaks_and_the_log_says_what_is_lost_and_why(
    sam: Agent, caplog: pytest.LogCaptureFixture, case: Any
) -> None:
    how, why, lost = case
    turns = [call(how.get("tool", "read_file")), "Crank.", "So."]
    played = await play(sam, [PROMPT, "And?"], turns, **how)
    *told, last = warnings(caplog)
    # Not at each of seven tries; a refusal once of the batch and once of the event.
    assert 1 <= len(told) <= 2 and all(why in each for each in told)
    assert last == f"{lost} events of this session were not recorded."
    assert len(played.requests) == 3 and len(recorded(sam, "kind")) == 6 - lost


@pytest.mark.parametrize(
    "case",
    [
        (200, "Nothing was recorded or changed. The disk is full. Try again later.", True),
        (200, "It may or may not have been recorded. Try again later.", True),
        (200, "Nothing was recorded or changed. The database refused this.", False),
        (413, "of a proxy", False),
        (502, "of a proxy", True),
        (None, "is lost after it was recorded", True),
        (None, "", True),  # nobody listens yet
    ],
)
async def test_what_may_be_taken_later_is_sent_again_and_recorded_once(
    sam: Agent, monkeypatch: pytest.MonkeyPatch, case: Any
) -> None:
    status, answer, kept = case
    post, tries = httpx2.Client.post, list[str]()
    fails = 1 if kept else 2  # what is refused for good is tried as a batch, and by itself

    def fail(client: httpx2.Client, url: str, json: dict[str, Any]) -> httpx2.Response:
        tries.extend(["again"] * (json["params"]["name"] == "record_event"))
        if not 1 <= len(tries) <= fails:
            return post(client, url, json=json)
        if status:
            result = {"isError": True, "content": [{"text": answer}]}
            return httpx2.Response(status, json={"result": result})
        post(client, url if answer else "http://127.0.0.1:9", json=json)
        raise httpx2.ReadError(answer)

    monkeypatch.setattr(httpx2.Client, "post", fail)
    await play(sam, [PROMPT, "And?", "So?"])
    assert (len(recorded(sam, "kind")) == 6) == kept


async def test_mounting_connects_to_nothing_and_a_silent_daemon_delays_only_so_long(
    sam: Agent, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()  # as it is in a session
    assert (hook.BUNDLE_SECONDS, hook.CALL_SECONDS) == (2.0, 5.0)
    monkeypatch.setattr(hook, "BUNDLE_SECONDS", 1.0)
    monkeypatch.setattr(hook, "CALL_SECONDS", 2.0)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        silent.setblocking(False)

        async def nobody_came(_: AmplifierSession) -> None:
            with pytest.raises(BlockingIOError):
                silent.accept()

        url, started = f"http://127.0.0.1:{silent.getsockname()[1]}/mcp", time.monotonic()
        played = await play(sam, [nobody_came, PROMPT, "And?"], url=url)
    *_, first, second = played.seconds
    assert first >= 1.0 > second and time.monotonic() - started < 8
    assert "4 events" in warnings(caplog)[-1]


async def test_the_queue_is_cut_by_characters(sam: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hook, "QUEUE_CHARS", 20)
    await play(sam, [PROMPT, "And?"])
    assert recorded(sam, "content->>'text'") == ["Done.", "And?", "Done."]


async def test_logs_neither_text_nor_token(sam: Agent, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        await play(sam, [PROMPT], [call(), "By its crank."])
        await play(sam, [PROMPT], [call(), "By its crank."], token=f" {sam.token}\n")
    ours = [each for each in caplog.records if "amplifier_core" not in each.name]
    said = "\n".join(each.getMessage() for each in ours)
    assert said and not any(word in said for word in ("turbine", "crank", sam.token))
