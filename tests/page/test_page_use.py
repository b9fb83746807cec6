"""What the page shows, how it is filtered, how a memory is opened; the same by keyboard, and what a
screen reader is told.
"""

import re
from datetime import timedelta
from itertools import pairwise

import numpy as np
import page_in_browser as seen
import pytest
from memory_semantic import Search
from page_in_browser import Look
from playwright.sync_api import Page, expect

pytestmark = pytest.mark.browser


def test_all_memories_are_there(look: Look) -> None:
    page = look(seen.TEAM[::-1])  # newest first, whatever the order
    assert page.title() == "Memory of sam"
    expect(page.locator("h1")).to_have_text("Memory of sam")
    expect(page.locator("#facts")).to_have_text(
        "6 memories · model local · 26 Apr 2026 \u2013 15 Jun 2026"
    )
    assert seen.listed(page) == seen.ids(0, 1, 2, 3, 4, 5)
    expect(page.locator("footer")).to_contain_text("plain text: keep it private")


def test_search(look: Look) -> None:
    page = look(seen.TEAM)
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
        assert seen.listed(page) == seen.ids(*found), words
        assert seen.clear_points(page) == seen.bars(page) == len(found), words
        count = "6 memories" if len(found) == 6 else f"{len(found)} of 6 memories"
        expect(page.locator("#count")).to_have_text(count)


def test_tags_filter_and_the_filter_is_cleared(look: Look) -> None:
    page = look(seen.TEAM)
    database = page.locator("#chips .chip", has_text="database")
    database.click()
    expect(database).to_have_attribute("aria-pressed", "true")
    assert seen.listed(page) == seen.ids(0, 2) and seen.clear_points(page) == seen.bars(page) == 2
    page.locator("#chips .chip", has_text="people").click()  # any of them
    assert seen.listed(page) == seen.ids(0, 2, 3)
    page.fill("#words", "anna")
    assert seen.listed(page) == seen.ids(3)
    page.click("#clear")
    assert len(seen.listed(page)) == seen.clear_points(page) == 6
    expect(page.locator("#clear")).to_be_hidden()
    expect(page.locator("#words")).to_have_value("")


def test_a_period_filters(look: Look) -> None:
    page = look(seen.TEAM)
    page.mouse.click(*seen.middle(page, "#time .bar"))
    shown = seen.listed(page)
    assert 0 < len(shown) < 6 and seen.clear_points(page) == seen.bars(page) == len(shown)
    page.click("#period")
    assert len(seen.listed(page)) == 6
    expect(page.locator("#period")).to_be_hidden()
    box = page.locator("#time").bounding_box()  # it may also be drawn
    assert box
    y = box["y"] + box["height"] / 2
    page.mouse.move(box["x"] + box["width"] / 2, y)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.7, y, steps=4)
    page.mouse.move(box["x"] + box["width"] - 1, y, steps=4)
    expect(page.locator("#time .dragged")).to_be_visible()
    page.mouse.up()
    expect(page.locator("#count")).to_have_text("3 of 6 memories")
    assert seen.listed(page) == seen.ids(0, 1, 2)  # the later half
    assert page.locator("#time .dragged").count() == 0


@pytest.mark.parametrize(
    ("count", "days", "unit"),
    [(20, 1.25, "day"), (40, 9, "week"), (25, 30, "month"), (40, 60, "month"), (40, 500, "year")],
)
def test_bins_follow_the_span_and_their_labels_do_not_touch(
    look: Look, count: int, days: float, unit: str
) -> None:
    page = look(seen.remember(*[f"text {n}" for n in range(count)], apart=timedelta(days=days)))
    expect(page.locator("#bins")).to_have_text(f"by {unit}")
    assert seen.bars(page) == count
    for width in (320, 1440):
        page.set_viewport_size({"width": width, "height": 900})
        page.evaluate(seen.SETTLED)
        boxes = [label.bounding_box() for label in page.locator("#time text").all()]
        spans = sorted((box["x"], box["x"] + box["width"]) for box in boxes if box)
        assert spans and spans[0][0] >= 0 and spans[-1][1] <= width
        assert all(a[1] + 4 < b[0] for a, b in pairwise(spans)), width


def test_opening_from_the_list(look: Look) -> None:
    change = {"metadata": {"from": "alice"}, "replaced_by": seen.TEAM[1].key}
    copy = seen.TEAM[2].model_copy(update=change)
    allowed = ["clipboard-read", "clipboard-write"]
    page = look([*seen.TEAM[:2], copy, *seen.TEAM[3:]], permissions=allowed)
    assert seen.opened(page) is None and seen.ringed(page) == []
    page.click(".entry >> nth=0")
    assert seen.opened(page) == seen.TEAM[0].content
    assert "\nMySQL" in page.locator("#text").inner_text()  # the line break is seen
    assert page.url.endswith("#mem-000000000000")
    expect(page.locator("#id")).to_have_text("mem-000000000000")
    expect(page.locator("#tags bdi")).to_have_text(["database"])
    local = "Monday, 15 June 2026 at 14:00 · 2026-06-15 12:00 UTC"  # in Berlin
    expect(page.locator("#when")).to_have_text(local)
    expect(page.locator(".entry >> nth=0")).to_have_attribute("aria-current", "true")
    assert seen.ringed(page) == seen.ids(0)
    page.click("#copy")
    expect(page.locator("#copy")).to_have_text("Copied")
    assert page.evaluate("navigator.clipboard.readText()") == "mem-000000000000"
    seen.press(page, "Escape")
    assert seen.opened(page) is None and seen.ringed(page) == []
    expect(page.locator(".entry >> nth=0")).to_be_focused()
    page.click(".entry >> nth=2")
    expect(page.locator("#when")).to_contain_text(
        f"UTC · from alice · replaced by {seen.TEAM[1].id}"
    )


def test_a_point_of_the_map_is_opened_and_the_map_zoomed_and_moved(look: Look) -> None:
    page = look(seen.TEAM)
    at = int(seen.spiral(6)[:, 0].argmax())
    rightmost, before = seen.TEAM[at], seen.points(page)
    page.mouse.move(before[at].x, before[at].y)
    expect(page.locator("#tip .tip-text")).to_have_text(rightmost.content)
    page.mouse.click(before[at].x, before[at].y)
    assert seen.opened(page) == rightmost.content
    page.click("#zoom-in")  # to what is opened
    after = seen.points(page)
    assert (after[at].x, after[at].y) == pytest.approx((before[at].x, before[at].y), abs=1)
    assert (after[0].x, after[0].y) != pytest.approx((before[0].x, before[0].y), abs=20)
    page.click("#close")
    page.mouse.click(after[0].x, after[0].y)
    assert seen.opened(page) == seen.TEAM[0].content
    page.click("#close")
    page.click("#zoom-all")
    before = seen.points(page)
    page.mouse.move(before[3].x, before[3].y)
    page.mouse.wheel(0, -300)
    zoomed = seen.points(page)
    assert (zoomed[3].x, zoomed[3].y) == pytest.approx((before[3].x, before[3].y), abs=1)
    assert abs(zoomed[4].x - zoomed[3].x) > 1.5 * abs(before[4].x - before[3].x)
    page.mouse.down()
    page.mouse.move(zoomed[3].x + 30, zoomed[3].y - 20, steps=3)
    page.mouse.up()
    assert seen.opened(page) is None  # it was no click
    moved = seen.points(page)
    assert (moved[3].x, moved[3].y) == pytest.approx((zoomed[3].x + 30, zoomed[3].y - 20), abs=1)


def test_the_address_opens(look: Look) -> None:
    page = look(seen.TEAM, anchor="#mem-000000000003")
    assert seen.opened(page) == seen.TEAM[3].content
    page.evaluate("location.hash = '#mem-000000000004'")
    assert seen.opened(page) == seen.TEAM[4].content
    page.go_back()
    assert seen.opened(page) == seen.TEAM[3].content
    for nothing in ("#mem-ffffffffffff", "#%", "#constructor", ""):
        page.evaluate("to => { location.hash = to }", nothing)
        assert seen.opened(page) is None


def test_neighbours_are_the_nearest_on_the_map(look: Look) -> None:
    memories = seen.remember(*[f"text {n}" for n in range(20)], apart=timedelta(days=1))
    places = np.column_stack([np.arange(20.0), np.zeros(20)])
    page = look(memories, places, anchor="#mem-000000000007")
    links = page.locator("#near a")
    near = links.evaluate_all("all => all.map(link => link.hash.slice(1))")
    assert sorted(near[:4]) == seen.ids(5, 6, 8, 9) and len(near) == 5
    links.nth(0).click()
    assert seen.opened(page) in ("text 6", "text 8")


def test_says_how_often_a_memory_was_recalled_if_that_is_recorded(look: Look) -> None:
    searches = [Search(time=seen.NOW - timedelta(days=40), ms=1, ids=seen.ids(0) * 1199)]
    searches.append(Search(time=seen.NOW, ms=1, ids=seen.ids(0, 1)))
    page = look(seen.TEAM, anchor="#mem-000000000000", searches=searches)
    line = page.locator("#recalled")
    expect(line).to_have_text("Recalled 1,200 times, last on Monday, 15 June 2026 at 14:00")
    page.evaluate("location.hash = '#mem-000000000001'")
    expect(line).to_have_text("Recalled once, last on Monday, 15 June 2026 at 14:00")
    page.evaluate("location.hash = '#mem-000000000002'")
    expect(line).to_have_text("Not recalled since 6 May 2026")
    assert "Not recalled since 6 May 2026" in str(page.locator("#spoken").text_content())
    page = look(seen.TEAM, anchor="#mem-000000000000")
    assert seen.opened(page) == seen.TEAM[0].content
    expect(page.locator("#recalled")).to_be_hidden()
    assert "ecalled" not in str(page.locator("#spoken").text_content())


# The first in the middle, and one above, right, below, left of it; the last is far to the right
# and a little lower.
CROSS = np.array([[0, 0], [0, 1], [1, 0], [0, -1], [-1, 0], [3, -0.2]])
FOCUSED = """() => {
    const { id, className } = document.activeElement;
    return id || className;
}"""


def spoken(page: Page) -> str:
    return str(page.locator("#spoken").text_content())


def test_tab_reaches_each_part_once_and_each_has_a_name(look: Look) -> None:
    page = look(seen.TEAM)
    stops = []
    for _ in range(8):
        seen.press(page, "Tab")
        stops.append(page.evaluate(FOCUSED))
        style = page.evaluate("() => getComputedStyle(document.activeElement).outlineStyle")
        assert style == "solid", stops  # it is seen where the focus is
    zoom = ["zoom-in", "zoom-out", "zoom-all"]
    assert stops == ["words", "chip", *zoom, "map", "time", "entry"]
    for part, name in {
        "#words": "Search in texts and tags",
        "#chips": "Filter by tag",
        "#map": "similar meaning",
        "#time": "Period to show",
        "#list-card": "6 memories",
        ".entry >> nth=3": "^Anna.*2026.*people",
    }.items():
        expect(page.locator(part)).to_have_accessible_name(re.compile(name))
    expect(page.locator("#map")).to_have_accessible_description(re.compile("Arrow keys"))
    expect(page.locator("#time")).to_have_accessible_description(re.compile("arrow"))
    expect(page.locator("#time")).to_have_role("slider")


def test_the_map_goes_to_the_nearest_in_that_direction(look: Look) -> None:
    page = look(seen.TEAM, CROSS)
    seen.press(page, "Tab")
    page.focus("#map")
    assert seen.reached(page) == seen.ids(0)
    across = [("ArrowUp", 1), ("ArrowDown", 0), ("ArrowRight", 2)]
    far = [("ArrowRight", 5), ("ArrowRight", 5), ("ArrowLeft", 2)]  # nothing is beyond it
    round_it = [("ArrowDown", 3), ("ArrowLeft", 4)]
    by_time = [("Home", 0), ("PageDown", 1), ("PageUp", 0), ("End", 5)]
    for key, at in [*across, *far, *round_it, *by_time]:
        seen.press(page, key)
        assert seen.reached(page) == seen.ids(at), key
        assert seen.TEAM[at].content in spoken(page) and f"{at + 1} of 6" in spoken(page)
        expect(page.locator("#tip .tip-text")).to_have_text(seen.TEAM[at].content)
    expect(page.locator("#map")).to_be_focused()
    box = page.locator("#map").bounding_box()
    seen.press(page, *"++++")
    assert box and seen.points(page)[0].x < box["x"]
    seen.press(page, "Home")  # what the keys reach is in sight
    assert box["x"] < seen.points(page)[0].x < box["x"] + box["width"]
    seen.press(page, "0")
    assert all(box["x"] < point.x < box["x"] + box["width"] for point in seen.points(page))


def test_enter_opens_a_point_and_escape_closes_it(look: Look) -> None:
    page = look(seen.TEAM, CROSS)
    page.focus("#map")
    seen.press(page, "ArrowRight", "Enter")
    assert seen.opened(page) == seen.TEAM[2].content and seen.ringed(page) == seen.ids(2)
    assert "Opened" in spoken(page) and "Tags: database, backup" in spoken(page)
    seen.press(page, "ArrowLeft")  # the next can be looked for at once
    assert seen.reached(page) == seen.ids(0) and seen.opened(page) == seen.TEAM[2].content
    seen.press(page, "Escape")
    assert seen.opened(page) is None
    expect(page.locator("#map")).to_be_focused()
    page.fill("#words", "postgresql")  # the others are skipped
    page.focus("#map")
    seen.press(page, "Home", "ArrowUp", "ArrowRight", "ArrowRight")
    assert seen.reached(page) == seen.ids(2)
    page.fill("#words", "no such thing")
    page.focus("#map")
    seen.press(page, "ArrowUp", "PageDown", "Home", "Enter")
    assert seen.opened(page) is None


def test_search_tags_list_and_period_by_keyboard(look: Look) -> None:
    page = look(seen.TEAM)
    seen.press(page, "/")
    page.keyboard.type("anna/")
    expect(page.locator("#words")).to_have_value("anna/")
    seen.press(page, "Escape")
    expect(page.locator("#words")).to_have_value("")
    chips = page.locator("#chips .chip")
    chips.first.focus()
    seen.press(page, "ArrowRight", "Space")
    expect(chips.nth(1)).to_have_attribute("aria-pressed", "true")
    expect(chips.nth(1)).to_be_focused()
    assert len(seen.listed(page)) == 1
    seen.press(page, "Space")
    entries = page.locator(".entry")
    entries.nth(2).focus()
    seen.press(page, "ArrowUp", "Enter")
    assert seen.opened(page) == seen.TEAM[1].content
    seen.press(page, "Escape")
    assert seen.opened(page) is None and len(seen.listed(page)) == 6
    expect(entries.nth(1)).to_be_focused()  # the focus returns
    page.focus("#time")
    seen.press(page, "ArrowRight")
    assert seen.listed(page) == seen.ids(5)  # the first week
    told = re.compile("20 Apr 2026.*: 1 memory")
    expect(page.locator("#time")).to_have_attribute("aria-valuetext", told)
    seen.press(page, "ArrowRight")  # over a week with none
    assert seen.listed(page) == seen.ids(4)
    seen.press(page, "Shift+ArrowRight", "Shift+ArrowLeft")
    assert seen.listed(page) == seen.ids(3, 4, 5)
    seen.press(page, "Enter")
    assert seen.opened(page) == seen.TEAM[3].content
    seen.press(page, "Escape")
    assert seen.opened(page) is None and len(seen.listed(page)) == 3
    seen.press(page, "Escape")
    assert len(seen.listed(page)) == 6
