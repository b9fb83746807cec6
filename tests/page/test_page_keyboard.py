"""The whole page by keyboard, and what a screen reader is told."""

import re
from datetime import timedelta

import numpy as np
import pytest
from page_in_browser import (
    TEAM,
    Look,
    colour,
    ids,
    listed,
    opened,
    points,
    reached,
    remember,
    ringed,
    shows,
)
from playwright.sync_api import Page, expect

pytestmark = pytest.mark.browser

# The first in the middle, and one above, right, below, left of it; the last is far to the right
# and a little lower.
CROSS = np.array([[0, 0], [0, 1], [1, 0], [0, -1], [-1, 0], [3, -0.2]])
FOCUSED = """() => {
    const { id, className } = document.activeElement;
    return id || className;
}"""


def spoken(page: Page) -> str:
    return str(page.locator("#spoken").text_content())


def test_tab_reaches_each_part_once(look: Look) -> None:
    page = look(TEAM)
    stops = []
    for _ in range(8):
        page.keyboard.press("Tab")
        stops.append(page.evaluate(FOCUSED))
        style = page.evaluate("() => getComputedStyle(document.activeElement).outlineStyle")
        assert style == "solid", stops  # it is seen where the focus is
    zoom = ["zoom-in", "zoom-out", "zoom-all"]
    assert stops == ["words", "chip", *zoom, "map", "time", "entry"]


def test_the_parts_have_names(look: Look) -> None:
    page = look(TEAM)
    expect(page.locator("#words")).to_have_accessible_name("Search in texts and tags")
    expect(page.locator("#chips")).to_have_accessible_name("Filter by tag")
    expect(page.locator("#map")).to_have_accessible_name(re.compile("similar meaning"))
    expect(page.locator("#map")).to_have_accessible_description(re.compile("Arrow keys"))
    expect(page.locator("#time")).to_have_role("slider")
    expect(page.locator("#time")).to_have_accessible_name("Period to show")
    expect(page.locator("#time")).to_have_accessible_description(re.compile("arrow"))
    expect(page.locator("#list-card")).to_have_accessible_name("6 memories")
    expect(page.locator(".entry").nth(3)).to_have_accessible_name(re.compile("^Anna.*2026.*people"))


def test_search_and_tags_by_keyboard(look: Look) -> None:
    page = look(TEAM, anchor="#mem-000000000002")
    tag = page.locator("#tags .chip", has_text="backup")  # of the opened memory
    tag.focus()
    page.keyboard.press("Space")
    assert listed(page) == ids(2)
    expect(tag).to_have_attribute("aria-pressed", "true")
    expect(tag).to_be_focused()
    page.keyboard.press("Space")
    page.click("#close")
    page.keyboard.press("/")
    page.keyboard.type("anna/")
    expect(page.locator("#words")).to_have_value("anna/")
    page.keyboard.press("Escape")
    expect(page.locator("#words")).to_have_value("")
    assert len(listed(page)) == 6
    chips = page.locator("#chips .chip")
    chips.first.focus()
    page.keyboard.press("ArrowRight")
    expect(chips.nth(1)).to_be_focused()
    page.keyboard.press("Space")
    expect(chips.nth(1)).to_have_attribute("aria-pressed", "true")
    expect(chips.nth(1)).to_be_focused()
    assert len(listed(page)) == 1
    page.keyboard.press("Home")
    expect(chips.first).to_be_focused()


def test_the_map_goes_to_the_nearest_in_that_direction(look: Look) -> None:
    page = look(TEAM, CROSS)
    page.keyboard.press("Tab")
    page.focus("#map")
    assert reached(page) == ids(0)
    for key, at in [
        ("ArrowUp", 1),
        ("ArrowDown", 0),
        ("ArrowRight", 2),
        ("ArrowRight", 5),  # far, but there
        ("ArrowRight", 5),  # nothing is beyond it
        ("ArrowLeft", 2),
        ("ArrowDown", 3),
        ("ArrowLeft", 4),
        ("Home", 0),
        ("PageDown", 1),  # the one stored before it
        ("PageUp", 0),
        ("End", 5),
    ]:
        page.keyboard.press(key)
        assert reached(page) == ids(at), key
        assert TEAM[at].content in spoken(page) and f"{at + 1} of 6" in spoken(page)
        expect(page.locator("#tip .tip-text")).to_have_text(TEAM[at].content)
    expect(page.locator("#map")).to_be_focused()


def test_enter_opens_a_point_and_escape_closes_it(look: Look) -> None:
    page = look(TEAM, CROSS)
    page.focus("#map")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    assert opened(page) == TEAM[2].content and ringed(page) == ids(2)
    assert "Opened" in spoken(page) and "Tags: database, backup" in spoken(page)
    page.keyboard.press("ArrowLeft")  # the next can be looked for at once
    assert reached(page) == ids(0) and opened(page) == TEAM[2].content
    page.keyboard.press("Escape")
    assert opened(page) is None
    expect(page.locator("#map")).to_be_focused()
    page.locator(".entry").nth(4).focus()
    page.keyboard.press("Enter")
    page.focus("#map")
    assert reached(page) == ids(4)  # it goes on from what was opened elsewhere
    page.keyboard.press("Escape")
    page.fill("#words", "postgresql")  # the others are skipped
    page.focus("#map")
    page.keyboard.press("Home")
    for key, at in [("ArrowUp", 0), ("ArrowRight", 2), ("ArrowRight", 2), ("ArrowLeft", 0)]:
        page.keyboard.press(key)
        assert reached(page) == ids(at)
    page.fill("#words", "no such thing")
    page.focus("#map")
    for key in ("ArrowUp", "PageDown", "Home", "Enter"):
        page.keyboard.press(key)
    assert opened(page) is None


def test_the_point_that_the_keys_reach_is_in_sight(look: Look) -> None:
    page = look(TEAM, CROSS)
    page.focus("#map")
    for _ in range(4):
        page.keyboard.press("+")
    box = page.locator("#map").bounding_box()
    assert box and not points(page)[5].x < box["x"] + box["width"]
    page.keyboard.press("End")
    point = points(page)[5]
    assert box["x"] < point.x < box["x"] + box["width"]
    assert shows(point.keyboard_ring, colour(page, "--accent"))
    page.keyboard.press("0")
    assert all(box["x"] < point.x < box["x"] + box["width"] for point in points(page))


def test_the_list_by_keyboard(look: Look) -> None:
    page = look(remember(*[f"text {n}" for n in range(150)], apart=timedelta(hours=1)))
    entries = page.locator(".entry")
    entries.nth(2).focus()
    page.keyboard.press("Enter")
    page.focus("#near a")
    page.keyboard.press("Enter")  # a neighbour, in place of it
    expect(page.locator("#pane")).to_be_focused()
    assert opened(page) != "text 2"
    page.keyboard.press("Escape")
    assert opened(page) is None
    expect(entries.nth(2)).to_be_focused()  # the focus returns
    for key, at in [("ArrowUp", 1), ("ArrowDown", 2), ("ArrowUp", 1), ("End", 99)]:
        page.keyboard.press(key)
        expect(entries.nth(at)).to_be_focused()
    page.keyboard.press("ArrowDown")  # past the end: more of them
    expect(entries.nth(100)).to_be_focused()
    page.keyboard.press("Enter")
    assert opened(page) == "text 100"
    assert len(listed(page)) == 150
    expect(page.locator("#more")).to_be_hidden()


def test_a_period_by_keyboard(look: Look) -> None:
    page = look(TEAM)
    page.focus("#time")
    page.keyboard.press("ArrowRight")
    assert listed(page) == ids(5)  # the first week
    expect(page.locator("#time")).to_have_attribute(
        "aria-valuetext", re.compile("20 Apr 2026.*: 1 memory")
    )
    page.keyboard.press("ArrowRight")  # over a week with none
    assert listed(page) == ids(4)
    page.keyboard.press("Shift+ArrowRight")
    page.keyboard.press("Shift+ArrowLeft")
    assert listed(page) == ids(3, 4, 5)
    page.keyboard.press("Enter")
    assert opened(page) == TEAM[3].content
    page.keyboard.press("Escape")
    assert opened(page) is None and len(listed(page)) == 3
    page.keyboard.press("Escape")
    assert len(listed(page)) == 6
    page.keyboard.press("End")
    assert listed(page) == ids(0)
    expect(page.locator("#time")).to_be_focused()
