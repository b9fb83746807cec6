"""The page of `agent-memory stats --html`, in a real browser that has no network."""

import errno
import math
import os
import re
import shutil
import stat
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from agent_memory.page import write_page
from memory_semantic.memory import Memory
from memory_semantic.plaintext import plain
from playwright.sync_api import Browser, Page, expect, sync_playwright

pytestmark = pytest.mark.browser

Look = Callable[..., Page]

NOW = datetime(2026, 6, 15, 12, 0, tzinfo=UTC)
SETTLED = "() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))"

HOSTILE = [
    "<script>alert(1)</script>",
    "</script><script>alert(2)</script>",
    "<!--<script>",
    "]]>-->\"'`&lt;b&gt;&amp;",
    "<img src=x onerror=alert(3)>",
    "line\u2028separator\u2029and paragraph",
    "\u202eright to left\u202c",
    "\x00\x01\x1b[31m\x7f\ufeff\ufffd",
    "{{data}} {{ script }} ${alert(4)} $& $1 %s %(x)s \\u003c \\1",
    '<a href="javascript:alert(5)">here</a> <b>bold</b><br><sup>2</sup>',
    "%{x} %{customdata} $\\sqrt{2}$",
    "__proto__",
    "constructor",
]


def spiral(count: int) -> np.ndarray:
    """Places that keep their distance, the first in the middle."""
    turn = np.arange(count) * math.pi * (3 - math.sqrt(5))
    radius = np.sqrt(np.arange(count))
    return np.column_stack([radius * np.cos(turn), radius * np.sin(turn)])


def remember(*items: str | tuple[str, list[str]], apart: timedelta) -> list[Memory]:
    """A memory for each item, the first the newest, with ids in their order."""
    pairs = [(item, []) if isinstance(item, str) else item for item in items]
    return [
        Memory(
            id=f"mem-{index:08x}",
            agent_id="sam",
            content=content,
            tags=tags,
            timestamp=NOW - index * apart,
        )
        for index, (content, tags) in enumerate(pairs)
    ]


TEAM = remember(
    ("We chose PostgreSQL for the users table.\nMySQL was the other one.", ["database"]),
    ("Deploys happen on Tuesday.", ["deployment", "release"]),
    ("The backup of PostgreSQL runs at night.", ["database", "backup"]),
    ("Anna prefers short proposals.", ["people"]),
    ("The React page has a dark mode.", ["frontend"]),
    ("Nothing is said about this one.", []),
    apart=timedelta(days=10),
)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox"]
        )
        yield browser
        browser.close()


@pytest.fixture
def look(browser: Browser, tmp_path: Path) -> Iterator[Look]:
    """Opens the page of some memories; in the end nothing was asked of the network, and no error,
    refusal by the page's own policy or dialog came up.
    """
    troubles: list[str] = []
    contexts = []

    def open_page(
        memories: Sequence[Memory],
        places: np.ndarray | None = None,
        *,
        agent: str = "sam",
        model: str = "local",
        anchor: str = "",
        **settings: Any,
    ) -> Page:
        file = tmp_path / "page.html"
        write_page(
            str(file), agent, model, memories, spiral(len(memories)) if places is None else places
        )
        context = browser.new_context(
            **{
                "viewport": {"width": 1440, "height": 900},
                "offline": True,
                "locale": "en-GB",
                "timezone_id": "Europe/Berlin",
                "color_scheme": "light",
                **settings,
            }
        )
        context.set_default_timeout(20_000)
        contexts.append(context)
        page = context.new_page()

        def requested(url: str) -> None:
            if not url.startswith("file://"):
                troubles.append(f"request: {url}")

        def dialog(shown: Any) -> None:
            troubles.append(f"dialog: {shown.message}")
            shown.dismiss()

        page.on("request", lambda request: requested(request.url))
        page.on("websocket", lambda socket: troubles.append(f"websocket: {socket.url}"))
        page.on("pageerror", lambda error: troubles.append(f"error: {error}"))
        page.on("console", lambda message: troubles.append(f"{message.type}: {message.text}"))
        page.on("dialog", dialog)
        page.goto(f"{file.as_uri()}{anchor}")
        page.evaluate(SETTLED)
        return page

    open_page.troubles = troubles  # type: ignore[attr-defined]
    yield open_page
    for context in contexts:
        context.close()
    assert troubles == []


def listed(page: Page) -> list[str]:
    """The ids of the memories in the list."""
    page.evaluate(SETTLED)
    return page.eval_on_selector_all(".entry", "all => all.map(one => one.dataset.id)")


def ids(*numbers: int) -> list[str]:
    return [f"mem-{number:08x}" for number in numbers]


def clear_points(page: Page) -> int:
    """How many points of the map are not faded, as the browser paints them."""
    page.evaluate(SETTLED)
    return page.eval_on_selector_all(
        "#map .points path", "all => all.filter(p => getComputedStyle(p).fillOpacity > 0.5).length"
    )


def bars(page: Page) -> int:
    """How many memories the coloured bars stand for."""
    page.evaluate(SETTLED)
    layers = page.evaluate("document.getElementById('time').data.map(layer => layer.y)")
    return sum(sum(layer) for layer in layers[:-1])


def rings(page: Page) -> int:
    page.evaluate(SETTLED)
    return page.locator("#map .shapelayer path").count()


def opened(page: Page) -> str | None:
    """The whole text of the opened memory."""
    page.evaluate(SETTLED)
    return page.locator("#text").text_content() if page.locator("#pane").is_visible() else None


def middle(page: Page, selector: str, index: int) -> tuple[float, float]:
    box = page.locator(selector).nth(index).bounding_box()
    assert box
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2


# What it shows


def test_all_memories_are_there(look: Look) -> None:
    page = look(TEAM[::-1])  # newest first, whatever the order
    assert page.title() == "Memory of sam"
    expect(page.locator("h1")).to_have_text("Memory of sam")
    expect(page.locator("#facts")).to_have_text(
        "6 memories · model local · 26 Apr 2026 \u2013 15 Jun 2026"
    )
    expect(page.locator("#count")).to_have_text("6 memories")
    assert listed(page) == ids(0, 1, 2, 3, 4, 5)
    assert page.locator("#map .points path").count() == clear_points(page) == bars(page) == 6
    expect(page.locator("footer")).to_contain_text("plain text: treat it like the memory")


def test_search(look: Look) -> None:
    page = look(TEAM)
    for words, found in {
        "postgresql": [0, 2],
        "POSTGRESQL night": [2],
        "night postgresql": [2],
        "backup": [2],
        "release": [1],  # a tag
        "users database": [0],  # a text and a tag
        "no such thing": [],
        "  ": [0, 1, 2, 3, 4, 5],
    }.items():
        page.fill("#words", words)
        assert listed(page) == ids(*found), words
        assert clear_points(page) == bars(page) == len(found), words
        count = "6 memories" if len(found) == 6 else f"{len(found)} of 6 memories"
        expect(page.locator("#count")).to_have_text(count)


def test_search_by_keyboard(look: Look) -> None:
    page = look(TEAM)
    page.keyboard.press("/")
    page.keyboard.type("anna/")
    expect(page.locator("#words")).to_have_value("anna/")
    page.keyboard.press("Escape")
    expect(page.locator("#words")).to_have_value("")
    assert len(listed(page)) == 6


def test_tags_filter_and_the_filter_is_cleared(look: Look) -> None:
    page = look(TEAM)
    database = page.locator("#chips .chip", has_text="database")
    database.click()
    expect(database).to_have_attribute("aria-pressed", "true")
    assert listed(page) == ids(0, 2) and clear_points(page) == bars(page) == 2
    page.locator("#chips .chip", has_text="people").click()  # any of them
    assert listed(page) == ids(0, 2, 3)
    page.fill("#words", "anna")
    assert listed(page) == ids(3)
    page.click("#clear")
    assert len(listed(page)) == clear_points(page) == 6
    expect(page.locator("#clear")).to_be_hidden()
    expect(page.locator("#words")).to_have_value("")


def test_many_tags_are_folded(look: Look) -> None:
    page = look(remember(*[(f"text {n}", [f"a tag {n}"]) for n in range(100)], apart=timedelta(1)))
    assert 1 < page.locator("#chips .chip").count() < 20
    page.click("#all-chips")
    assert page.locator("#chips .chip").count() == 100
    expect(page.locator("#all-chips")).to_be_focused()
    page.locator("#chips .chip", has_text="a tag 77").click()
    page.click("#all-chips")
    expect(page.locator("#chips .chip[aria-pressed=true]")).to_be_visible()


def test_a_period_filters(look: Look) -> None:
    page = look(TEAM)
    page.mouse.click(*middle(page, "#time .bars .point path[d]:not([d='M0,0Z'])", 0))
    shown = listed(page)
    assert 0 < len(shown) < 6 and clear_points(page) == bars(page) == len(shown)
    page.click("#period")
    assert len(listed(page)) == 6
    expect(page.locator("#period")).to_be_hidden()


def test_a_period_is_drawn_with_the_mouse(look: Look) -> None:
    page = look(TEAM)
    box = page.locator("#time .nsewdrag").bounding_box()
    assert box
    y = box["y"] + box["height"] / 2
    page.mouse.move(box["x"] + box["width"] / 2, y)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.7, y, steps=4)
    page.mouse.move(box["x"] + box["width"] - 1, y, steps=4)
    page.mouse.up()
    expect(page.locator("#count")).to_have_text("3 of 6 memories")
    assert listed(page) == ids(0, 1, 2)  # the later half
    assert page.locator("#time .selectionlayer path").count() == 0


def test_a_period_by_keyboard(look: Look) -> None:
    page = look(TEAM)
    page.focus("#time")
    page.keyboard.press("ArrowRight")
    assert listed(page) == ids(5)  # the first week
    expect(page.locator("#time")).to_have_attribute("aria-valuetext", re.compile("20 Apr 2026"))
    page.keyboard.press("Escape")
    assert len(listed(page)) == 6


@pytest.mark.parametrize(
    ("apart", "unit"),
    [
        (timedelta(hours=30), "day"),
        (timedelta(days=9), "week"),
        (timedelta(days=60), "month"),
        (timedelta(days=1000), "year"),
    ],
)
def test_bins_follow_the_span(look: Look, apart: timedelta, unit: str) -> None:
    page = look(remember(*[f"text {n}" for n in range(20)], apart=apart))
    expect(page.locator("#bins")).to_have_text(f"by {unit}")
    assert bars(page) == 20


def test_labels_of_time_do_not_touch(look: Look) -> None:
    for count, days in [(3, 1.0), (40, 1.0), (40, 9.0), (25, 30.0), (40, 30.0), (40, 500.0)]:
        for width in (320, 1440):
            memories = remember(*[f"text {n}" for n in range(count)], apart=timedelta(days=days))
            page = look(memories, viewport={"width": width, "height": 900})
            labels = page.locator("#time .xtick text")
            boxes = [labels.nth(at).bounding_box() for at in range(labels.count())]
            spans = sorted((box["x"], box["x"] + box["width"]) for box in boxes if box)
            assert spans and spans[0][0] >= 0 and spans[-1][1] <= width
            assert all(a[1] + 4 < b[0] for a, b in pairwise(spans)), (count, days, width)
            page.context.close()


def test_the_first_moment_of_all_has_its_bin(look: Look) -> None:
    memories = remember("later", "first", apart=timedelta(0))
    memories[1].timestamp = datetime.min.replace(tzinfo=UTC)
    memories[0].timestamp = memories[1].timestamp + timedelta(days=1)
    page = look(memories)
    expect(page.locator("#bins")).to_have_text("by day")
    assert bars(page) == 2


# The opened memory


def test_opening_from_the_list(look: Look) -> None:
    page = look(TEAM)
    assert opened(page) is None and rings(page) == 0
    page.click(".entry >> nth=0")
    assert opened(page) == TEAM[0].content
    assert "\nMySQL" in page.locator("#text").inner_text()  # the line break is seen
    assert page.url.endswith("#mem-00000000")
    expect(page.locator("#id")).to_have_text("mem-00000000")
    expect(page.locator("#tags bdi")).to_have_text(["database"])
    expect(page.locator("#when")).to_have_text(
        "Monday, 15 June 2026 at 14:00 · 2026-06-15 12:00 UTC"  # local, in Berlin
    )
    expect(page.locator(".entry >> nth=0")).to_have_attribute("aria-current", "true")
    assert rings(page) == 1 + 5
    page.keyboard.press("Escape")
    assert opened(page) is None and rings(page) == 0
    expect(page.locator(".entry >> nth=0")).to_be_focused()


def test_opening_a_point_of_the_map(look: Look) -> None:
    page = look(TEAM)
    centres = [middle(page, "#map .points path", index) for index in range(6)]
    x, y = max(centres)
    page.mouse.move(x, y)
    rightmost = TEAM[int(spiral(6)[:, 0].argmax())]
    expect(page.locator("#tip .tip-text")).to_have_text(rightmost.content)
    page.mouse.click(x, y)
    assert opened(page) == rightmost.content


def test_a_point_still_opens_after_a_zoom(look: Look) -> None:
    page = look(TEAM, anchor="#mem-00000002")
    before = middle(page, "#map .points path", 0)
    page.click("#zoom-in")
    page.evaluate(SETTLED)
    assert middle(page, "#map .points path", 0) != before
    ring = page.locator("#map .shapelayer path").last.bounding_box()
    assert ring
    page.click("#close")
    page.mouse.move(ring["x"] + ring["width"] / 2, ring["y"] + ring["height"] / 2)
    page.mouse.click(ring["x"] + ring["width"] / 2, ring["y"] + ring["height"] / 2)
    assert opened(page) == TEAM[2].content
    page.click("#zoom-all")
    page.evaluate(SETTLED)
    assert middle(page, "#map .points path", 0) == pytest.approx(before, abs=1)


def test_the_address_opens(look: Look) -> None:
    page = look(TEAM, anchor="#mem-00000003")
    assert opened(page) == TEAM[3].content
    page.evaluate("location.hash = '#mem-00000004'")
    assert opened(page) == TEAM[4].content
    page.go_back()
    assert opened(page) == TEAM[3].content
    for nothing in ("#mem-ffffffff", "#%", "#constructor", ""):
        page.evaluate("to => { location.hash = to }", nothing)
        assert opened(page) is None


def test_neighbours_are_the_nearest_on_the_map(look: Look) -> None:
    memories = remember(*[f"text {n}" for n in range(20)], apart=timedelta(days=1))
    places = np.column_stack([np.arange(20.0), np.zeros(20)])
    page = look(memories, places, anchor="#mem-00000007")
    links = page.locator("#near a")
    near = links.evaluate_all("all => all.map(link => link.hash.slice(1))")
    assert sorted(near[:4]) == ids(5, 6, 8, 9) and len(near) == 5
    links.nth(0).click()
    assert opened(page) in ("text 6", "text 8")


def test_the_id_is_copied(look: Look) -> None:
    page = look(TEAM, anchor="#mem-00000003", permissions=["clipboard-read", "clipboard-write"])
    page.click("#copy")
    expect(page.locator("#copy")).to_have_text("Copied")
    assert page.evaluate("navigator.clipboard.readText()") == "mem-00000003"


def test_the_list_by_keyboard(look: Look) -> None:
    page = look(remember(*[f"text {n}" for n in range(150)], apart=timedelta(hours=1)))
    page.focus(".entry")
    for key, at in [("ArrowDown", 1), ("ArrowDown", 2), ("ArrowUp", 1), ("End", 99)]:
        page.keyboard.press(key)
        expect(page.locator(".entry").nth(at)).to_be_focused()
    page.keyboard.press("ArrowDown")  # past the end: more of them
    expect(page.locator(".entry").nth(100)).to_be_focused()
    page.keyboard.press("Enter")
    assert opened(page) == "text 100"
    assert len(listed(page)) == 150
    expect(page.locator("#more")).to_be_hidden()


def test_a_chip_of_the_opened_memory_filters(look: Look) -> None:
    page = look(TEAM, anchor="#mem-00000002")
    page.locator("#tags .chip", has_text="backup").click()
    assert listed(page) == ids(2)
    expect(page.locator("#tags .chip", has_text="backup")).to_have_attribute("aria-pressed", "true")


# Nothing in a memory is more than text


def test_hostile_text_stays_text(look: Look) -> None:
    shown = list(map(plain, HOSTILE))
    memories = remember(*[(text, [text]) for text in HOSTILE], apart=timedelta(days=1))
    line = np.column_stack([np.arange(len(HOSTILE)), np.zeros(len(HOSTILE))])
    page = look(memories, line)
    page.click("#all-chips")
    every = "all => all.map(one => one.textContent)"
    assert page.eval_on_selector_all(".gist", every) == shown
    assert page.eval_on_selector_all(".meta bdi", every) == shown
    assert sorted(page.eval_on_selector_all("#chips bdi", every)) == sorted(shown)

    points = sorted(middle(page, "#map .points path", at) for at in range(len(HOSTILE)))
    for number, text in enumerate(shown):
        page.mouse.move(*points[number])
        is_there = "text => document.querySelector('#tip .tip-text').textContent === text"
        page.wait_for_function(is_there, arg=text)
        assert page.eval_on_selector("#tip .tip-tags", "one => one.textContent") == text
        page.evaluate("id => { location.hash = id }", memories[number].id)
        assert opened(page) == text
        assert page.eval_on_selector_all("#tags bdi", every) == [text]
        page.fill("#words", text)
        if text.strip("\x00"):
            assert memories[number].id in listed(page)

    made = page.locator(":is(#map, #time, #chips, #pane, #list, #tip)").locator(
        ":is(script, img, iframe, b, sub, sup, br, text a, a:not([href^='#mem-']))"
    )
    assert made.count() == 0
    assert page.locator("#map text").count() == 0  # Plotly is told no word of a memory
    drawn = page.locator("#time text").all_text_contents()
    assert drawn and all(re.fullmatch(r"\d+ \w+", label) for label in drawn)


def test_hostile_names_stay_text(look: Look) -> None:
    name = "".join(text for text in HOSTILE if "\x00" not in text)
    page = look(TEAM, agent=name, model=name)
    assert page.eval_on_selector("#agent", "one => one.textContent") == name
    assert f"model {name} ·" in str(page.locator("#facts").text_content())
    assert page.eval_on_selector("title", "one => one.textContent") == f"Memory of {name}"
    assert page.locator("script").count() == 3
    assert page.locator(":is(img, b, br, a)").count() == 0


def test_the_policy_forbids_everything_else(look: Look) -> None:
    page = look(TEAM)
    failed: list[str | None] = []
    page.on("requestfailed", lambda request: failed.append(request.failure))
    page.evaluate(
        """() => {
            document.body.insertAdjacentHTML("beforeend", `
                <img src="data:image/gif;base64,R0lGODlhAQABAAAAACw=" onerror="window.ran = 1">
                <img src="https://example.org/x.png"><a href="javascript:window.ran = 2">x</a>`);
            const script = document.createElement("script");
            script.textContent = "window.ran = 3";
            document.body.append(script);
            document.body.lastElementChild.previousElementSibling.click();
        }"""
    )
    assert page.evaluate("fetch('https://example.org/').then(() => 'sent', () => 'refused')") == (
        "refused"
    )
    page.wait_for_timeout(200)
    assert page.evaluate("window.ran") is None
    refused = look.troubles  # type: ignore[attr-defined]
    assert sum("Content Security Policy" in trouble for trouble in refused) >= 5
    assert failed and set(failed) == {"csp"}
    refused.clear()  # these were meant


def test_right_to_left(look: Look) -> None:
    hebrew = "יום העבודה מתחיל ביום ראשון."
    page = look(
        remember((hebrew, ["עברית"]), "English.", apart=timedelta(1)), anchor=f"#{ids(0)[0]}"
    )
    direction = "one => getComputedStyle(one).direction"
    assert page.eval_on_selector("#text", direction) == "rtl"
    assert page.eval_on_selector_all(
        ".gist", "all => all.map(one => getComputedStyle(one).direction)"
    ) == ["rtl", "ltr"]
    assert page.eval_on_selector("#chips bdi", direction) == "rtl"
    assert page.eval_on_selector("html", direction) == "ltr"


# How it looks


def test_dark_mode_changes_the_colours_at_once(look: Look) -> None:
    page = look(TEAM, anchor="#mem-00000000")
    looked_at = """() => [
        ...["body", ".card", "#text", "#chips .dot"].map((of) => {
            const style = getComputedStyle(document.querySelector(of));
            return style.backgroundColor + style.color;
        }),
        ...["#map .points path", "#time .bars path", "#map .shapelayer path"].map((of) => {
            const style = getComputedStyle(document.querySelector(of));
            return style.fill + style.stroke;
        }),
        getComputedStyle(document.querySelector("#time .xtick text")).fill,
    ]"""
    page.evaluate(SETTLED)
    light = page.evaluate(looked_at)
    page.emulate_media(color_scheme="dark")
    page.evaluate(SETTLED)
    dark = page.evaluate(looked_at)
    assert [a for a, b in zip(light, dark, strict=True) if a == b] == []
    page.emulate_media(color_scheme="light")
    page.evaluate(SETTLED)
    assert page.evaluate(looked_at) == light


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_can_be_read(look: Look, scheme: str) -> None:
    page = look(TEAM, anchor="#mem-00000000", color_scheme=scheme)
    colours = page.evaluate(
        """() => Object.fromEntries(["ink", "soft", "card", "ground", "hover", "mark"].map((name) =>
            [name, getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim()]
        ))"""
    )

    def luminance(colour: str) -> float:
        parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
        red, green, blue = [
            part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
        ]
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue

    for text, grounds in {
        "ink": ["card", "ground", "hover", "mark"],
        "soft": ["card", "ground"],
    }.items():
        for ground in grounds:
            pair = sorted([luminance(colours[text]), luminance(colours[ground])])
            assert (pair[1] + 0.05) / (pair[0] + 0.05) >= 4.5, (text, ground)  # WCAG AA


@pytest.mark.parametrize("width", [320, 390, 768, 1000, 1440, 2560])
def test_nothing_is_wider_than_the_window(look: Look, width: int) -> None:
    long = "x" * 400
    memories = remember(
        (f"{long} {long}", [long[:50], "<b>" * 16, "tag"]),
        *[(f"text {n} " * 30, [f"a longer tag {n}"]) for n in range(30)],
        apart=timedelta(days=5),
    )
    page = look(
        memories,
        agent="a" * 64,
        model=long,
        anchor="#mem-00000000",
        viewport={"width": width, "height": 844},
    )
    page.click("#all-chips")
    page.focus("#time")
    page.keyboard.press("ArrowRight")
    page.evaluate(SETTLED)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    for part in ("#map", "#time", "#pane", "#list-card", "#words"):
        box = page.locator(part).bounding_box()
        assert box and box["x"] >= 0 and box["x"] + box["width"] <= width, part
    plot = page.locator("#map .nsewdrag").bounding_box()
    assert plot and plot["height"] > 200 and plot["width"] > 200


def test_narrow_windows_show_the_opened_memory(look: Look) -> None:
    page = look(TEAM, viewport={"width": 390, "height": 844})
    page.click(".entry >> nth=5")
    expect(page.locator("#text")).to_be_in_viewport()


# Few memories, and many


def test_no_memories(look: Look) -> None:
    page = look([])
    expect(page.locator("#facts")).to_have_text("0 memories · model local")
    expect(page.locator("#empty")).to_be_visible()
    for part in ("#search", "#chips", "main"):
        expect(page.locator(part)).to_be_hidden()


def test_one_memory(look: Look) -> None:
    page = look(TEAM[5:])
    expect(page.locator("#facts")).to_have_text("1 memory · model local · 26 Apr 2026")
    assert listed(page) == ids(5) and clear_points(page) == bars(page) == 1
    page.mouse.click(*middle(page, "#map .points path", 0))
    assert opened(page) == TEAM[5].content
    expect(page.locator("#near")).to_be_hidden()


def test_memories_on_one_spot(look: Look) -> None:
    page = look(TEAM, np.zeros((6, 2)))
    assert clear_points(page) == 6
    page.mouse.click(*middle(page, "#map .points path", 0))
    assert opened(page)


def test_ten_thousand_memories(look: Look) -> None:
    memories = remember(
        *[(f"text-{n}- " + "of some length " * 10, [f"tag {n % 50}"]) for n in range(10_000)],
        apart=timedelta(minutes=97),
    )
    page = look(memories)
    expect(page.locator("#count")).to_have_text("10,000 memories")
    assert page.locator("#map .points path").count() == 10_000
    assert len(listed(page)) == 100
    page.click("#more")
    assert len(listed(page)) == 200
    page.fill("#words", "text-77-")
    expect(page.locator("#count")).to_have_text("1 of 10,000 memories")
    assert clear_points(page) == bars(page) == 1
    page.click("#clear")
    assert clear_points(page) == 10_000
    page.click(".entry >> nth=3")
    assert opened(page) == memories[3].content
    page.click("#zoom-in")
    assert clear_points(page) == 10_000


def test_without_scripts_it_says_so(browser: Browser, tmp_path: Path) -> None:
    write_page(str(tmp_path / "page.html"), "sam", "local", TEAM, spiral(6))
    context = browser.new_context(java_script_enabled=False, offline=True)
    page = context.new_page()
    page.goto((tmp_path / "page.html").as_uri())
    notice = page.locator("noscript p")
    assert notice.bounding_box() and "Allow scripts" in notice.inner_text()
    expect(page.locator("main")).to_be_hidden()
    context.close()


# The file


def test_the_file_is_private_and_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "page.html"
    file.write_text("before")
    file.chmod(0o644)

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as broken:
        broken.setattr(os, "fsync", full)
        with pytest.raises(OSError, match=r"No space left.*not written"):
            write_page(str(file), "sam", "local", TEAM, spiral(6))
    assert file.read_text() == "before"
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == ["page.html"]

    write_page(str(file), "sam", "local", TEAM, spiral(6))
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert file.read_text().rstrip().endswith("</html>")
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == ["page.html"]
