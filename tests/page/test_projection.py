"""The map by meaning: any number of memories, the same map for the same ones, nothing printed."""

from pathlib import Path

import numpy as np
import pytest
from agent_memory.page import projection
from agent_memory.page.projection import project
from command import Command


def vectors(count: int, kinds: int = 5) -> np.ndarray:
    """Unit vectors around `kinds` directions, in turn."""
    random = np.random.default_rng(7)
    rows = random.normal(size=(kinds, 64))[np.arange(count) % kinds]
    rows = rows + 0.3 * random.normal(size=(count, 64))
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


@pytest.mark.parametrize("count", [0, 1, 2, 3, 7, 8, 9, 200])
@pytest.mark.parametrize("alike", [False, True])
def test_each_memory_has_its_own_place(
    count: int, alike: bool, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    rows = np.repeat(vectors(1), count, axis=0) if alike else vectors(count)
    told: list[float] = []
    places = project(rows, told.append)

    assert places.shape == (count, 2) and places.dtype == np.float32
    assert np.isfinite(places).all()
    assert len(np.unique(places, axis=0)) == count
    assert told == sorted(told) and told[0] == 0 and told[-1] == 1
    assert capfd.readouterr() == ("", "") and not caplog.records


def test_similar_memories_are_close_together_and_the_same_give_the_same_map() -> None:
    kind, told = np.arange(300) % 5, list[float]()
    places = project(vectors(300), told.append)
    distances = np.linalg.norm(places[:, None] - places[None], axis=2)
    np.fill_diagonal(distances, np.inf)
    assert (kind[distances.argmin(axis=1)] == kind).mean() > 0.95
    assert np.array_equal(project(vectors(300), lambda _: None), places)
    assert max(np.diff(told)) < 0.1


def test_the_page_is_written_without_a_map_if_it_is_not_installed(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command.run("store", "We chose PostgreSQL.")
    file = tmp_path / "page.html"
    command.run("stats", "--html", str(file))
    assert '"x":' in file.read_text()
    monkeypatch.setattr(projection, "installed", lambda: False)
    monkeypatch.setattr(projection, "project", None)
    command.run("stats", "--html", str(file))
    assert "We chose PostgreSQL." in file.read_text() and '"x":' not in file.read_text()
