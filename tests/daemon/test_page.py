"""The page for the person, in a real browser, from a real daemon."""

import hashlib
import json
import re
from collections.abc import Callable, Iterator
from typing import Any

import httpx2
import pytest
from memory_daemon.access import Access
from memory_daemon_process import Agent, DaemonProcess
from page_in_browser import observed
from playwright.sync_api import Browser, Page, expect

pytestmark = [pytest.mark.browser, pytest.mark.timeout(300)]

Visit = Callable[..., Page]
HOSTILE = [
    "<script>alert(1)</script>",
    "</pre></article><img src=x onerror=alert(2)>",
    '"><a href="javascript:alert(3)">here</a><style>*{display:none}</style>',
    "{{ 7 * 7 }} {% raw %} ${alert(4)} %s %(x)s",
    "\u202egnirts\u202c \x1b[31m \u2028 line",
]


def origin(agent: Agent) -> str:
    return agent.url.removesuffix("/mcp")


def record(agent: Agent, *events: dict[str, Any], **request: Any) -> list[dict[str, Any]]:
    """Record events of the team, and return the answers."""
    batch = [{"kind": "message", "channel": "team", **event} for event in events]
    asked = {"session_id": "s1", "agent_id": "sam", "events": batch, **request}
    params = {"name": "record_event", "arguments": asked}
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    head = {
        "Authorization": f"Bearer {agent.token}",
        "Accept": "application/json, text/event-stream",
    }
    answer = httpx2.post(agent.url, json=body, headers=head, timeout=60).json()["result"]
    assert not answer.get("isError"), answer
    return [json.loads(line) for line in answer["content"][0]["text"].splitlines()]


@pytest.fixture
def visit(browser: Browser, sam: Agent) -> Iterator[Visit]:
    """Signs in and opens a page. Afterwards, asserts that there was no error, no dialog and no
    request to elsewhere.
    """
    troubles: list[str] = []
    contexts = []

    def visited(
        path: str = "/", *, token: str = sam.token, agent: str = "", **settings: Any
    ) -> Page:
        context = browser.new_context(**settings)
        context.set_default_timeout(20_000)
        contexts.append(context)
        page = observed(context.new_page(), troubles, origin(sam), "data:")
        page.goto(origin(sam) + path)
        page.fill("[name=token]", token)
        page.fill("[name=agent]", agent)
        page.click("main button")
        page.wait_for_selector("header")
        page.goto(origin(sam) + path)
        return page

    yield visited
    for context in contexts:
        context.close()
    assert troubles == []


def texts(page: Page, selector: str) -> list[str]:
    return [each.strip() for each in page.locator(selector).all_text_contents()]


def test_shows_sessions_and_agents_in_time(sam: Agent, visit: Visit) -> None:
    record(sam, {"text": "Explain this repo", "actor_type": "human"}, {"text": "It is a shop."})
    record(sam, {"text": "And the tests?"}, session_id="tuesday", agent_id="eve")
    page = visit()
    assert texts(page, "article h2") == ["tuesday", "s1"]
    assert texts(page, ".gist") == ["And the tests?", "Explain this repo"]
    assert texts(page, ".agent bdi") == ["eve", "sam"]
    assert texts(page, ".agent > span") == ["1", "2"]
    page.click("text=s1")
    assert texts(page, "pre") == ["Explain this repo", "It is a shop."]


def test_shows_decisions_above_what_they_replaced(sam: Agent, visit: Visit) -> None:
    [first] = record(sam, {"kind": "decision", "text": "Use SQLite"})
    why = {"rationale": ["two writers"], "supersedes": first["event_id"]}
    [second] = record(sam, {"kind": "decision", "text": "Use PostgreSQL", "decision": why})
    why = {"supersedes": second["event_id"]}
    record(sam, {"kind": "decision", "text": "Use PostgreSQL 18", "decision": why})
    record(sam, {"kind": "decision", "text": "Deploy on Tuesdays"})
    page = visit("/decisions")
    assert texts(page, "main > article > pre") == ["Deploy on Tuesdays", "Use PostgreSQL 18"]
    chain = page.locator("main > article").nth(1)
    assert chain.locator("pre").all_text_contents() == [
        "Use PostgreSQL 18",
        "Use PostgreSQL",
        "Use SQLite",
    ]
    assert chain.locator("b").all_text_contents() == ["active", "superseded", "superseded"]
    expect(chain).to_contain_text("two writers")


def test_shows_tasks_and_artifacts(sam: Agent, visit: Visit) -> None:
    for name, status in ("migrate", "done"), ("measure", "doing"):
        task = {"task_id": name, "status": status, "title": f"{name} it"}
        record(sam, {"kind": "task_update", "text": f"about {name}", "task": task})
    log = "".join(f"line {n} of the log\n" for n in range(3_000))
    record(sam, {"kind": "tool_result", "text": log})
    page = visit("/tasks")
    assert texts(page, "h2") == ["measure it", "migrate it"]
    page.click("text=Artifacts")
    page.click("td a")
    assert page.locator("pre").text_content() == log[:20_000]
    page.click("text=Next page")
    assert page.locator("pre").text_content() == log[20_000:40_000]


def test_says_why_a_bundle_holds_what_it_holds(sam: Agent, visit: Visit) -> None:
    record(sam, {"kind": "decision", "text": "Start the turbine by its crank"})
    record(sam, *({"text": f"turbine {n}: " + "crank it " * 150} for n in range(30)))
    page = visit("/search")
    page.fill("[name=query_text]", "How does the turbine start?")
    page.fill("[name=max_tokens]", "1500")
    page.click("main button")
    expect(page.locator("main > h2", has_text="Decisions")).to_be_visible()
    outcomes = set(texts(page, "article p:first-child > b"))
    assert {"shown", "no room"} <= outcomes
    found = page.locator("article", has=page.locator(".parts")).all()
    assert found
    for article in found:
        [total] = article.locator(".parts b").all_text_contents()
        parts = article.locator(".parts span").all_text_contents()
        assert parts and sum(float(part.split()[-1]) for part in parts) == pytest.approx(
            float(total), abs=0.003
        )
    bundle = page.locator("details pre").text_content() or ""
    for article in page.locator("article", has_text=re.compile(r"^\s*shown")).all():
        assert (article.locator("pre").text_content() or "") in bundle


def test_recorded_text_stays_text(sam: Agent, visit: Visit) -> None:
    for text in HOSTILE:
        why = {"rationale": [text], "supersedes": None}
        task = {"task_id": str(HOSTILE.index(text))}
        record(
            sam,
            {"text": text, "refs": [re.sub(r"[^ -~]", "", text)[:300]]},
            {"kind": "decision", "text": text, "decision": why},
            {"kind": "task_update", "text": text, "task": task},
        )
    page = visit()
    for path in ("/", "/session?id=s1", "/decisions", "/tasks", "/search?query_text=alert"):
        page.goto(origin(sam) + path)
        assert page.locator("main :is(script, img, style, iframe, [onerror])").count() == 0, path
        assert page.locator("a[href^=javascript]").count() == 0
        assert page.locator("main h1").is_visible()
        assert "alert(1)" in page.locator("main").inner_text(), path
    page.goto(f"{origin(sam)}/session?id=%3Cscript%3Ealert(9)%3C/script%3E")
    expect(page.locator("h1")).to_contain_text("<script>alert(9)</script>")


def test_shows_no_other_tenant_and_no_wider_channel(
    daemon: DaemonProcess, sam: Agent, visit: Visit
) -> None:
    for channel, sensitivity in (
        ("private", "none"),
        ("team", "low"),
        ("team", "high"),
        ("public", "none"),
        ("public", "secret"),
    ):
        text = f"turbine {channel}-{sensitivity}"
        kept = {"channel": channel, "sensitivity": sensitivity}
        log = {"kind": "tool_result", "text": text + " x" * 3_000}
        task = {"kind": "task_update", "text": text, "task": {"task_id": f"{channel}{sensitivity}"}}
        events = ({"text": text}, {"kind": "decision", "text": text}, log, task)
        record(sam, *({**event, **kept} for event in events))
    team = daemon.tokens.make(Access(sam.tenant, "team"))
    other = daemon.tokens.make(Access(f"{sam.tenant}-other"))
    every = {"private-none", "team-low", "team-high", "public-none", "public-secret"}
    paths = ("/", "/session?id=s1", "/decisions", "/tasks", "/search?query_text=turbine")
    for token, agent, seen in (
        (team, "sam", {"team-low", "public-none"}),
        (sam.token, "sam", every - {"public-secret"}),
        (sam.token, "eve", every - {"public-secret", "private-none"}),
        (other, "sam", set[str]()),
    ):
        page = visit(token=token, agent=agent)
        shown = {}
        for path in paths:
            page.goto(origin(sam) + path)
            shown[path] = {each for each in every if each in page.locator("main").inner_text()}
        assert {path: found for path, found in shown.items() if path != "/"} == dict.fromkeys(
            paths[1:], seen
        )
        page.goto(origin(sam) + "/artifacts")
        assert page.locator("tbody tr").count() == len(seen)


def test_the_cookie_is_for_this_page_alone_and_ends_with_the_token(
    daemon: DaemonProcess, tenant: str, visit: Visit
) -> None:
    token = daemon.tokens.make(Access(tenant))
    page = visit("/decisions", token=token)
    cookie: dict[str, Any] = {**page.context.cookies()[0]}
    assert cookie["httpOnly"] and cookie["sameSite"] == "Strict" and cookie["expires"] > 0
    assert token not in cookie["value"] and token not in page.content() and token not in page.url
    assert page.evaluate("document.cookie") == ""
    daemon.tokens.revoke(hashlib.sha256(token.encode()).hexdigest())
    page.reload()
    expect(page.locator("[name=token]")).to_be_visible()
    page = visit()
    page.click("text=Sign out")
    expect(page.locator("[name=token]")).to_be_visible()
    assert page.context.cookies() == []


def test_shows_nothing_without_a_token(sam: Agent) -> None:
    record(sam, {"text": "turbine"})
    for path in ("/", "/session?id=s1", "/decisions", "/artifact?artifact_id=x"):
        for cookie in ("", "memory_daemon=x", "memory_daemon=eyJhbGciOiJub25lIn0.eyJzdWIiOiJ4In0."):
            answer = httpx2.get(origin(sam) + path, headers={"cookie": cookie})
            assert answer.status_code == 303 and answer.headers["location"] == "/sign-in", path
    wrong = httpx2.post(origin(sam) + "/sign-in", content=b"token=mem_wrong")
    assert wrong.status_code == 401 and "set-cookie" not in wrong.headers


def test_answers_only_browsers_on_this_machine_and_forbids_scripts_and_framing(sam: Agent) -> None:
    for path in ("/", "/sign-in", "/page.css"):
        for headers, status in (
            ({"Host": "evil.example"}, 421),
            ({"Origin": "https://evil.example"}, 403),
            ({"X-Forwarded-For": "192.0.2.1"}, 404),  # through a proxy, from another machine
        ):
            assert httpx2.get(origin(sam) + path, headers=headers).status_code == status, path
        answer = httpx2.get(origin(sam) + path)
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy and "script-src" not in policy
        assert "frame-ancestors 'none'" in policy and answer.headers["cache-control"] == "no-store"


def test_a_wrong_address_is_refused_in_a_sentence(sam: Agent, visit: Visit) -> None:
    ask = visit().context.request.get
    missing = ask(origin(sam) + "/artifact?artifact_id=none")
    assert "There is no artifact none" in missing.text() and missing.status == 404
    invalid = ask(origin(sam) + "/search?query_text=x&max_tokens=many")
    assert "max_tokens" in invalid.text() and invalid.status == 400
    assert ask(origin(sam) + "/session?id=%00&offset=-1").status < 500
    assert ask(origin(sam) + "/?before=yesterday").status == 200
