# pyright: reportMissingImports=false
"""Two graphs beside the page: what is found against its tokens, and time against memories."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from page import OURS, Row
from speed import ALONE

Lines = Mapping[str, Sequence[tuple[float, float]]]


def write(parts: Row, folder: Path) -> None:
    """Draw what there are results of."""
    if recall := parts.get("recall"):
        found: Lines = {name: [*map(tuple, each)] for name, each in recall["limits"].items()}
        _draw(folder / "found.svg", found, "tokens of the results", "% of the answers found")
    for measure in ALONE if "speed" in parts else ():
        lines: dict[str, list[tuple[float, float]]] = {}
        for size, rows in parts["speed"]["stores"].items():
            for name, row in rows.items():
                if (value := measure.of(row)) is not None:
                    lines.setdefault(name, []).append((int(size), value))
        file = folder / f"{measure.key.removesuffix('_ms')}.svg"
        _draw(file, lines, "memories", f"{measure.name}, ms", logarithmic=True)


def _draw(file: Path, lines: Lines, across: str, up: str, logarithmic: bool = False) -> None:
    import matplotlib

    matplotlib.use("svg")
    from matplotlib import pyplot

    matplotlib.rcParams |= {"svg.fonttype": "none", "svg.hashsalt": file.name}
    figure, axes = pyplot.subplots(figsize=(7, 4), layout="constrained")
    for name, points in lines.items():
        width = 2.5 if name.startswith((OURS, "local: and times")) else 1
        axes.plot(*zip(*points, strict=True), marker="o", markersize=3, label=name, linewidth=width)
    axes.set(xlabel=across, ylabel=up)
    if logarithmic:
        axes.set(xscale="log", yscale="log")
    axes.grid(alpha=0.3)
    axes.legend(fontsize="small", frameon=False)
    file.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(file, metadata={"Date": None})
    pyplot.close(figure)
