"""The page without the extra `map`: everything but the map."""

import pytest
from page_in_browser import TEAM, Look, bars, ids, listed, middle, opened
from playwright.sync_api import expect

pytestmark = pytest.mark.browser


def test_all_but_the_map_is_there(look: Look) -> None:
    expect(look(TEAM).locator("#no-map")).to_be_hidden()
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
