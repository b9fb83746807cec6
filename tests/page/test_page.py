"""A memory is never more than text; any number of memories; the file; and how the page looks."""

import errno
import os
import re
import stat
from datetime import timedelta
from pathlib import Path

import numpy as np
import page_in_browser as seen
import pytest
from agent_memory.page import write_page
from memory_semantic.plaintext import plain
from page_in_browser import Look
from playwright.sync_api import expect

pytestmark = pytest.mark.browser


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


def test_hostile_text_stays_text(look: Look) -> None:
    shown = list(map(plain, HOSTILE))
    memories = seen.remember(*[(text, [text]) for text in HOSTILE], apart=timedelta(days=1))
    line = np.column_stack([np.arange(len(HOSTILE)), np.zeros(len(HOSTILE))])
    name = "".join(text for text in HOSTILE if "\x00" not in text)
    page = look(memories, line, agent=name, model=name)
    assert page.eval_on_selector("#agent", "one => one.textContent") == name
    assert f"model {name} ·" in str(page.locator("#facts").text_content())
    assert page.eval_on_selector("title", "one => one.textContent") == f"Memory of {name}"
    page.click("#all-chips")
    every = "all => all.map(one => one.textContent)"
    assert page.eval_on_selector_all(".gist", every) == shown
    assert page.eval_on_selector_all(".meta bdi", every) == shown
    assert sorted(page.eval_on_selector_all("#chips bdi", every)) == sorted(shown)

    at = seen.points(page)
    for number, text in enumerate(shown):
        page.mouse.move(at[number].x, at[number].y)
        is_there = "text => document.querySelector('#tip .tip-text').textContent === text"
        page.wait_for_function(is_there, arg=text)
        assert page.eval_on_selector("#tip .tip-tags", "one => one.textContent") == text
        page.evaluate("id => { location.hash = id }", memories[number].id)
        assert seen.opened(page) == text
        assert page.eval_on_selector_all("#tags bdi", every) == [text]
        assert text in str(page.locator("#spoken").text_content())
        page.fill("#words", text)
        if text.strip("\x00"):
            assert memories[number].id in seen.listed(page)
        page.fill("#words", "")

    assert page.locator(":is(img, iframe, b, sub, sup, br, a:not([href^='#mem-']))").count() == 0
    assert page.locator("script").count() == 2
    drawn = page.locator("#time text").all_text_contents()
    assert drawn and all(re.fullmatch(r"\d+ \w+", label) for label in drawn)


def test_the_policy_forbids_everything_else(look: Look) -> None:
    page = look(seen.TEAM)
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
    memories = seen.remember(("יום העבודה מתחיל.", ["עברית"]), "English.", apart=timedelta(1))
    page = look(memories, anchor="#mem-000000000000")
    directions = "all => all.map(one => getComputedStyle(one).direction)"
    for part in ("#text", "#chips bdi"):
        assert page.eval_on_selector_all(part, directions) == ["rtl"]
    assert page.eval_on_selector_all(".gist", directions) == ["rtl", "ltr"]
    assert page.eval_on_selector_all("html", directions) == ["ltr"]


# Few memories, and many


def test_no_memories_and_one_and_several_on_one_spot(look: Look) -> None:
    page = look([])
    expect(page.locator("#facts")).to_have_text("0 memories · model local")
    expect(page.locator("#empty")).to_be_visible()
    for part in ("#search", "#chips", "main"):
        expect(page.locator(part)).to_be_hidden()

    page = look(seen.TEAM[5:])
    expect(page.locator("#facts")).to_have_text("1 memory · model local · 26 Apr 2026")
    assert seen.listed(page) == seen.ids(5) and seen.clear_points(page) == seen.bars(page) == 1
    [point] = seen.points(page)
    page.mouse.click(point.x, point.y)
    assert seen.opened(page) == seen.TEAM[5].content
    expect(page.locator("#near")).to_be_hidden()

    page = look(seen.TEAM, np.zeros((6, 2)))
    assert seen.clear_points(page) == 6
    page.mouse.click(seen.points(page)[0].x, seen.points(page)[0].y)
    assert seen.opened(page)


def test_thousands_of_memories(look: Look) -> None:
    memories = seen.remember(
        *[(f"text-{n}- " + "of some length " * 10, [f"tag {n % 50}"]) for n in range(2_000)],
        apart=timedelta(minutes=97),
    )
    page = look(memories)
    expect(page.locator("#count")).to_have_text("2,000 memories")
    assert len(seen.points(page)) == seen.bars(page) == 2_000
    assert len(seen.listed(page)) == 100
    page.click("#more")
    assert len(seen.listed(page)) == 200
    page.fill("#words", "text-77-")
    expect(page.locator("#count")).to_have_text("1 of 2,000 memories")
    assert seen.clear_points(page) == seen.bars(page) == 1
    page.click("#clear")
    assert seen.clear_points(page) == 2_000


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
            write_page(str(file), "sam", "local", seen.TEAM, seen.spiral(6))
    assert file.read_text() == "before"
    write_page(str(file), "sam", "local", seen.TEAM, seen.spiral(6))
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert file.read_text().rstrip().endswith("</html>")
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == ["page.html"]


def luminance(colour: list[int]) -> float:
    parts = [each / 255 for each in colour]
    red, green, blue = [
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    ]
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def test_text_can_be_read_and_dark_mode_changes_the_colours_at_once(look: Look) -> None:
    page = look(seen.TEAM, anchor="#mem-000000000000")
    grounds = {
        "--ink": ("--card", "--ground", "--hover", "--mark"),
        "--soft": ("--card", "--ground"),
    }
    shown = []
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        for text in grounds:
            for ground in grounds[text]:
                darker, lighter = sorted(
                    luminance(seen.colour(page, each)) for each in (text, ground)
                )
                assert (lighter + 0.05) / (darker + 0.05) >= 4.5, (text, ground)  # WCAG AA
        bar = page.eval_on_selector("#time .bar", "one => getComputedStyle(one).fill")
        shown.append((bar, seen.points(page)[0].colour, seen.points(page)[0].opened_ring))
    assert [a for a, b in zip(*shown, strict=True) if a == b] == []


@pytest.mark.parametrize("with_map", [True, False])
def test_nothing_is_wider_than_the_window(look: Look, with_map: bool) -> None:
    long = "x" * 400
    memories = seen.remember(
        (f"{long} {long}", [long[:50], "<b>" * 16, "tag"]),
        *[(f"text {n} " * 30, [f"a longer tag {n}"]) for n in range(30)],
        apart=timedelta(days=5),
    )
    names = {"agent": "a" * 64, "model": long}
    page = look(memories, with_map=with_map, anchor="#mem-000000000000", **names)
    page.click("#all-chips")
    page.focus("#time")
    seen.press(page, "ArrowRight")
    for width in (320, 390, 768, 1000, 1440, 2560):
        page.set_viewport_size({"width": width, "height": 844})
        page.evaluate(seen.SETTLED)
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        parts = ("#map" if with_map else "#no-map", "#time", "#pane", "#list-card", "#words")
        for part in parts:
            box = page.locator(part).bounding_box()
            assert box and box["x"] >= 0 and box["x"] + box["width"] <= width, part
            assert box["height"] > (200 if part == "#map" else 15), part
    page.set_viewport_size({"width": 390, "height": 844})
    page.click(".entry >> nth=0")
    expect(page.locator("#text")).to_be_in_viewport()  # a narrow window shows what is opened


def test_all_but_the_map_is_there(look: Look) -> None:
    expect(look(seen.TEAM).locator("#no-map")).to_be_hidden()
    page = look(seen.TEAM, with_map=False)
    expect(page.locator("#map-card")).to_be_hidden()
    expect(page.locator("#no-map")).to_contain_text("install the command with [cli,map]")
    assert seen.listed(page) == seen.ids(0, 1, 2, 3, 4, 5) and seen.bars(page) == 6
    page.click(".entry >> nth=2")
    assert seen.opened(page) == seen.TEAM[2].content
    expect(page.locator("#near")).to_be_hidden()
