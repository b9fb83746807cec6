"""What the page shows, and how words, tags and periods filter it."""

from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from page_in_browser import (
    SETTLED,
    TEAM,
    Look,
    bars,
    clear_points,
    ids,
    listed,
    middle,
    points,
    remember,
)
from playwright.sync_api import expect

pytestmark = pytest.mark.browser


def test_all_memories_are_there(look: Look) -> None:
    page = look(TEAM[::-1])  # newest first, whatever the order
    assert page.title() == "Memory of sam"
    expect(page.locator("h1")).to_have_text("Memory of sam")
    expect(page.locator("#facts")).to_have_text(
        "6 memories · model local · 26 Apr 2026 \u2013 15 Jun 2026"
    )
    expect(page.locator("#count")).to_have_text("6 memories")
    assert listed(page) == ids(0, 1, 2, 3, 4, 5)
    assert len(points(page)) == clear_points(page) == bars(page) == 6
    expect(page.locator("footer")).to_contain_text("plain text: keep it private")


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
    page.mouse.click(*middle(page, "#time .bar"))
    shown = listed(page)
    assert 0 < len(shown) < 6 and clear_points(page) == bars(page) == len(shown)
    page.click("#period")
    assert len(listed(page)) == 6
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
    assert listed(page) == ids(0, 1, 2)  # the later half
    assert page.locator("#time .dragged").count() == 0


def test_bins_follow_the_span(look: Look) -> None:
    for apart, unit in (
        (timedelta(hours=30), "day"),
        (timedelta(days=9), "week"),
        (timedelta(days=60), "month"),
        (timedelta(days=1000), "year"),
    ):
        page = look(remember(*[f"text {n}" for n in range(20)], apart=apart))
        expect(page.locator("#bins")).to_have_text(f"by {unit}")
        assert bars(page) == 20
        page.context.close()
    memories = remember("later", "first", apart=timedelta(0))
    memories[1].timestamp = datetime.min.replace(tzinfo=UTC)  # the earliest that is possible
    memories[0].timestamp = memories[1].timestamp + timedelta(days=1)
    page = look(memories)
    expect(page.locator("#bins")).to_have_text("by day")
    assert bars(page) == 2


def test_labels_of_time_do_not_touch(look: Look) -> None:
    for count, days in [(3, 1.0), (40, 1.0), (40, 9.0), (25, 30.0), (40, 30.0), (40, 500.0)]:
        memories = remember(*[f"text {n}" for n in range(count)], apart=timedelta(days=days))
        page = look(memories)
        for width in (320, 1440):
            page.set_viewport_size({"width": width, "height": 900})
            page.evaluate(SETTLED)
            boxes = [label.bounding_box() for label in page.locator("#time text").all()]
            spans = sorted((box["x"], box["x"] + box["width"]) for box in boxes if box)
            assert spans and spans[0][0] >= 0 and spans[-1][1] <= width
            assert all(a[1] + 4 < b[0] for a, b in pairwise(spans)), (count, days, width)
        page.context.close()
