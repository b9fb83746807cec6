"""The page without the extra `map`: everything but the map."""

import pytest
from page_in_browser import TEAM, Look, bars, ids, listed, middle, opened
from playwright.sync_api import expect

pytestmark = pytest.mark.browser


def test_all_but_the_map_is_there(look: Look) -> None:
    page = look(TEAM, with_map=False)
    expect(page.locator("#map-card")).to_be_hidden()
    expect(page.locator("#no-map")).to_contain_text("install the command with [cli,map]")
    assert listed(page) == ids(0, 1, 2, 3, 4, 5) and bars(page) == 6
    page.mouse.click(*middle(page, "#time .bar"))
    assert listed(page) == ids(5)
    page.click("#period")
    page.locator("#chips .chip", has_text="database").click()
    page.fill("#words", "backup")
    assert listed(page) == ids(2) and bars(page) == 1
    page.click(".entry")
    assert opened(page) == TEAM[2].content
    expect(page.locator("#near")).to_be_hidden()
    page.keyboard.press("Escape")
    assert opened(page) is None


def test_the_hint_is_only_for_those_without_a_map(look: Look) -> None:
    expect(look(TEAM).locator("#no-map")).to_be_hidden()


@pytest.mark.parametrize("width", [320, 1000, 1440])
def test_it_is_not_wider_than_the_window(look: Look, width: int) -> None:
    page = look(
        TEAM,
        with_map=False,
        anchor="#mem-000000000000",
        viewport={"width": width, "height": 844},
    )
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    for part in ("#time", "#pane", "#list-card", "#no-map"):
        box = page.locator(part).bounding_box()
        assert box and box["x"] >= 0 and box["x"] + box["width"] <= width, part
        assert box["height"] > 15, part
