"""How the page looks: in the light and the dark, in narrow windows and wide ones, without a map."""

from datetime import timedelta

import pytest
from page_in_browser import SETTLED, TEAM, Look, bars, ids, listed, middle, opened, points, remember
from playwright.sync_api import expect

pytestmark = pytest.mark.browser


def test_dark_mode_changes_the_colours_at_once(look: Look) -> None:
    page = look(TEAM, anchor="#mem-000000000000")
    looked_at = """() => [
        ...["body", ".card", "#text", "#chips .dot"].map((of) => {
            const style = getComputedStyle(document.querySelector(of));
            return style.backgroundColor + style.color;
        }),
        getComputedStyle(document.querySelector("#time .bar")).fill,
        getComputedStyle(document.querySelector("#time text")).fill,
    ]"""

    def colours() -> list[object]:
        point = points(page)[0]
        return [*page.evaluate(looked_at), point.colour, point.opened_ring]

    light = colours()
    page.emulate_media(color_scheme="dark")
    assert [a for a, b in zip(light, colours(), strict=True) if a == b] == []
    page.emulate_media(color_scheme="light")
    assert colours() == light


def test_nothing_moves_for_those_who_prefer_less_motion(look: Look) -> None:
    page = look(TEAM)
    for wanted in ("reduce", "no-preference"):
        page.emulate_media(reduced_motion=wanted)
        seconds = page.eval_on_selector(".entry", "one => getComputedStyle(one).transitionDuration")
        assert (seconds == "0s") == (wanted == "reduce")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_can_be_read(look: Look, scheme: str) -> None:
    page = look(TEAM, anchor="#mem-000000000000", color_scheme=scheme)
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

    grounds = {"ink": ["card", "ground", "hover", "mark"], "soft": ["card", "ground"]}
    for text in grounds:
        for ground in grounds[text]:
            pair = sorted([luminance(colours[text]), luminance(colours[ground])])
            assert (pair[1] + 0.05) / (pair[0] + 0.05) >= 4.5, (text, ground)  # WCAG AA


@pytest.mark.parametrize("with_map", [True, False])
def test_nothing_is_wider_than_the_window(look: Look, with_map: bool) -> None:
    long = "x" * 400
    memories = remember(
        (f"{long} {long}", [long[:50], "<b>" * 16, "tag"]),
        *[(f"text {n} " * 30, [f"a longer tag {n}"]) for n in range(30)],
        apart=timedelta(days=5),
    )
    names = {"agent": "a" * 64, "model": long}
    page = look(memories, with_map=with_map, anchor="#mem-000000000000", **names)
    page.click("#all-chips")
    page.focus("#time")
    page.keyboard.press("ArrowRight")
    for width in (320, 390, 768, 1000, 1440, 2560):
        page.set_viewport_size({"width": width, "height": 844})
        page.evaluate(SETTLED)
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
