"""The page of `agent-memory stats --html` in a real browser without a network, for tests/page."""

import math
import shutil
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from agent_memory.page import write_page
from memory_semantic import Memory, Search
from playwright.sync_api import Browser, Page, sync_playwright

Look = Callable[..., Page]

NOW = datetime(2026, 6, 15, 12, 0, tzinfo=UTC)
SETTLED = """() => new Promise((done) => {
    requestAnimationFrame(() => requestAnimationFrame(() => requestAnimationFrame(done)));
})"""
# Where each point of the map is in the window, and the pixel there; and the pixels where the ring
# of an opened memory would be, and the keyboard's.
POINTS = """() => {
    const canvas = document.getElementById("map");
    const { left, top } = canvas.getBoundingClientRect();
    const copy = document.createElement("canvas"); // reading the page's own would make it slow
    Object.assign(copy, { width: canvas.width, height: canvas.height });
    const pen = copy.getContext("2d", { willReadFrequently: true });
    pen.drawImage(canvas, 0, 0);
    const { width, data } = pen.getImageData(0, 0, copy.width, copy.height);
    const spot = projection();
    const pixel = (x, y) => {
        const [column, row] = [x, y].map((value) => Math.round(value * devicePixelRatio));
        const at = 4 * (row * width + column);
        return [...data.slice(at, at + 4)];
    };
    const ring = (x, y, away) => [-1, 0, 1].map(
        (more) => pixel(x, y - pointSize / 2 - away - more));
    return memories.map((memory) => {
        const [x, y] = spot(memory);
        return [memory.id, left + x, top + y, pixel(x, y), ring(x, y, 5), ring(x, y, 9)];
    });
}"""


class Point(NamedTuple):
    """A point of the map; colours are red, green, blue and opacity, from 0 to 255. The rings are
    some pixels where a ring would be.
    """

    id: str
    x: float
    y: float
    colour: list[int]
    opened_ring: list[list[int]]
    keyboard_ring: list[list[int]]


def spiral(count: int) -> np.ndarray:
    """Positions at a distance from each other, the first in the middle."""
    turn = np.arange(count) * math.pi * (3 - math.sqrt(5))
    radius = np.sqrt(np.arange(count))
    return np.column_stack([radius * np.cos(turn), radius * np.sin(turn)])


def remember(*items: str | tuple[str, list[str]], apart: timedelta) -> list[Memory]:
    """A memory for each item, newest first, with ids in that order."""
    pairs = [(item, []) if isinstance(item, str) else item for item in items]
    return [
        Memory(
            id=f"mem-{index:012x}",
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
    """Opens the page of some memories. Afterwards, asserts that it requested nothing from the
    network, and that there was no error, dialog or refusal by its own policy.
    """
    troubles: list[str] = []
    contexts = []

    def requested(url: str) -> None:
        if not url.startswith("file://"):
            troubles.append(f"request: {url}")

    def dialog(shown: Any) -> None:
        troubles.append(f"dialog: {shown.message}")
        shown.dismiss()

    def open_page(
        memories: Sequence[Memory],
        places: np.ndarray | None = None,
        *,
        with_map: bool = True,
        agent: str = "sam",
        model: str = "local",
        anchor: str = "",
        searches: Sequence[Search] = (),
        **settings: Any,
    ) -> Page:
        file = tmp_path / "page.html"
        if with_map and places is None:
            places = spiral(len(memories))
        write_page(str(file), agent, model, memories, places, searches)
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


def press(page: Page, *keys: str) -> None:
    for key in keys:
        page.keyboard.press(key)


def listed(page: Page) -> list[str]:
    """The ids of the memories in the list."""
    page.evaluate(SETTLED)
    return page.eval_on_selector_all(".entry", "all => all.map(one => one.dataset.id)")


def ids(*numbers: int) -> list[str]:
    return [f"mem-{number:012x}" for number in numbers]


def points(page: Page) -> list[Point]:
    """The points of the map as the browser painted them, the newest memory's first."""
    page.evaluate(SETTLED)
    return [Point(*each) for each in page.evaluate(POINTS)]


def clear_points(page: Page) -> int:
    """How many points of the map are not faded."""
    return sum(point.colour[3] > 128 for point in points(page))


def ringed(page: Page) -> list[str]:
    """The memories with the ring of an opened one."""
    ink = colour(page, "--ink")
    return [point.id for point in points(page) if shows(point.opened_ring, ink)]


def reached(page: Page) -> list[str]:
    """The memories with the ring that shows where the keyboard is."""
    accent = colour(page, "--accent")
    return [point.id for point in points(page) if shows(point.keyboard_ring, accent)]


def colour(page: Page, variable: str) -> list[int]:
    """Red, green and blue of a colour of the page."""
    text = page.evaluate("style", variable)
    return [int(text[at : at + 2], 16) for at in (1, 3, 5)]


def shows(painted: list[list[int]], wanted: list[int]) -> bool:
    """Whether a pixel has this colour, apart from a softened edge."""
    return any(
        pixel[3] > 200 and all(abs(a - b) < 24 for a, b in zip(pixel[:3], wanted, strict=True))
        for pixel in painted
    )


def bars(page: Page) -> int:
    """How many memories the coloured bars stand for."""
    page.evaluate(SETTLED)
    counts = page.eval_on_selector_all(
        "#time .bar:not(.rest)", "all => all.map(bar => Number(bar.dataset.count))"
    )
    return sum(counts)


def opened(page: Page) -> str | None:
    """The whole text of the opened memory."""
    page.evaluate(SETTLED)
    return page.locator("#text").text_content() if page.locator("#pane").is_visible() else None


def middle(page: Page, selector: str) -> tuple[float, float]:
    box = page.locator(selector).first.bounding_box()
    assert box
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
