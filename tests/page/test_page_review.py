"""What may be looked through, on the page: it shows, and a command in the terminal does."""

from datetime import timedelta

import pytest
from agent_memory.cases import Case
from page_in_browser import Look, ids, opened, remember
from playwright.sync_api import expect

pytestmark = pytest.mark.browser

TEAM = remember(
    "Deploys happen on Tuesday.",
    "<b>Deploys</b> happen on Thursday.",
    "Anna prefers short proposals.",
    apart=timedelta(days=1),
)
CASES = [Case("disagree", TEAM[:2], 0.71), Case("unsaid", TEAM[2:])]


def test_each_case_has_its_memories_and_the_command(look: Look) -> None:
    page = look(TEAM, cases=CASES)
    expect(page.locator("#review summary")).to_have_text("To look through: 2")
    expect(page.locator("#cases")).to_be_hidden()
    page.click("#review summary")
    expect(page.locator("#cases h3")).to_have_text(
        ["These two may disagree", "You did not say this"]
    )
    expect(page.locator("#cases a")).to_have_text([memory.content for memory in TEAM])
    expect(page.locator("#cases code")).to_have_text(
        [f"agent-memory review {' '.join(ids(0, 1))}", f"agent-memory review {ids(2)[0]}"]
    )
    page.click("#cases a >> nth=1")
    assert opened(page) == TEAM[1].content


def test_a_command_is_copied(look: Look) -> None:
    page = look(TEAM, cases=CASES, permissions=["clipboard-read", "clipboard-write"])
    page.click("#review summary")
    page.click("#cases button >> nth=0")
    expect(page.locator("#cases button >> nth=0")).to_have_text("Copied")
    command = page.evaluate("navigator.clipboard.readText()")
    assert command == f"agent-memory review {' '.join(ids(0, 1))}"


def test_where_it_may_not_be_copied_it_is_selected(look: Look) -> None:
    page = look(TEAM, cases=CASES)
    page.evaluate("() => { navigator.clipboard.writeText = () => Promise.reject(); }")
    page.click("#review summary")
    page.click("#cases button >> nth=1")
    expect(page.locator("#cases button >> nth=1")).to_have_text("Selected")
    assert page.evaluate("getSelection().toString()") == f"agent-memory review {ids(2)[0]}"


@pytest.mark.parametrize("width", [1440, 400])
def test_it_leaves_room_for_the_rest(look: Look, width: int) -> None:
    page = look(TEAM, cases=CASES * 40, viewport={"width": width, "height": 900})
    page.click("#review summary")
    box = page.locator("#review").bounding_box()
    assert box and box["height"] <= 0.46 * 900
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    expect(page.locator("#list-card")).to_be_visible()


def test_without_cases_there_is_nothing_of_it(look: Look) -> None:
    expect(look(TEAM).locator("#review")).to_be_hidden()
