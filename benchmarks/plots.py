# pyright: reportMissingImports=false
"""The plots of the page, each for a light page and for a dark one."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("svg")
from matplotlib import pyplot as plt
from matplotlib.ticker import FuncFormatter, NullLocator
from results import OURS, all_stores, default_method, number, troubles, value_of

# Told apart with any kind of colour vision, by line or mark where not by colour; for a page in
# black on white, and one in white on black.
STYLES: dict[str, tuple[str, str, Any, str]] = {
    OURS: ("#cc4c00", "#ff8c42", "-", "o"),
    "agent-memory, endpoint": ("#cc4c00", "#ff8c42", "--", "o"),
    "agent-memory, built-in model": ("#cc4c00", "#ff8c42", ":", "o"),
    "agent-memory, kept open": ("#cc4c00", "#ff8c42", (0, (6, 2, 1, 2, 1, 2)), "."),
    "numpy float32": ("#6b7280", "#9ca3af", "-", "x"),
    "sqlite-vec": ("#0072b2", "#4aa8e8", "-", "s"),
    "Chroma": ("#008a64", "#2fc99a", "-", "^"),
    "LanceDB": ("#b0508c", "#e79bc6", "-", "v"),
    "Qdrant local": ("#3a96d0", "#7cc8f2", "--", "D"),
    "mcp-server-qdrant": ("#7a5cc0", "#b09cf0", "--", "P"),
    "mem0": ("#8f7000", "#e0bd3a", "-.", "X"),
}
HUES = ["mem0", "sqlite-vec", "LanceDB", "Chroma", "mcp-server-qdrant"]  # for what is no store
THEMES = {"light": ("#1f2328", "#d0d7de"), "dark": ("#e6edf3", "#3d444d")}  # text, and lines


class Theme:
    """The colours of a page, and the settings of matplotlib for it."""

    def __init__(self, name: str) -> None:
        self.dark = name == "dark"
        self.ink, self.faint = THEMES[name]
        self.settings: dict[str, Any] = {
            "svg.hashsalt": OURS,  # the same figures give the same file
            "svg.fonttype": "none",
            # The widest first, so that labels have room with whatever the reader has.
            "font.family": "sans-serif",
            "font.sans-serif": ["DejaVu Sans", "Verdana", "Arial", "sans-serif"],
            "font.size": 9,
            "axes.spines.top": False,
            "axes.spines.right": False,
            "axes.edgecolor": self.faint,
            "axes.grid": True,
            "axes.axisbelow": True,
            "axes.titlesize": 10,
            "axes.titlelocation": "left",
            "grid.color": self.faint,
            "grid.linewidth": 0.5,
            "legend.frameon": False,
            "xtick.color": self.ink,
            "ytick.color": self.ink,
            "axes.labelcolor": self.ink,
            "text.color": self.ink,
        }

    def style(self, name: str) -> tuple[str, Any, str]:
        """The colour, line and mark of a store."""
        light, dark, line, mark = STYLES.get(name, (self.ink, self.ink, "-", "."))
        return (dark if self.dark else light), line, mark

    def shade(self, step: int) -> str:
        """A colour for one of several methods, none of them ours."""
        light = ["#56606b", "#9ecae1", "#3182bd", "#9e9ac8", "#a8ddb5", "#43a2ca", "#238b45"]
        dark = ["#8b949e", "#2f6690", "#6cb6ff", "#8a7fd0", "#2f7d4f", "#58b5c9", "#7ee2a8"]
        shades = dark if self.dark else light
        return shades[step % len(shades)]


class Plots:
    """Draws each plot for both themes, and says how a page shows the right one."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def add(self, name: str, draw: Callable[[Theme], Any], alt: str) -> str:
        for theme in THEMES:
            chosen = Theme(theme)
            with plt.rc_context(chosen.settings):
                figure = draw(chosen)
                # Without a date and a version, which would make every file a new one.
                figure.savefig(
                    self._folder / f"{name}-{theme}.svg",
                    transparent=True,
                    metadata={"Date": None, "Creator": None},
                )
                plt.close(figure)
        source = f"benchmarks/{name}-dark.svg"
        return (
            f'<picture><source media="(prefers-color-scheme: dark)" srcset="{source}">'
            f'<img alt="{alt}" src="benchmarks/{name}-light.svg"></picture>'
        )


def draw_sizes(growth: dict[str, Any], theme: Theme) -> Any:
    lines = {}
    for name in all_stores(growth):
        points = [
            (int(size), value)
            for size in growth["stores"]
            if (value := value_of(growth, size, name, "search_ms", "median")) is not None
        ]
        if points:
            lines[name] = points
    figure, axes = plt.subplots(figsize=(7.5, 4.4))
    figure.subplots_adjust(left=0.09, right=0.71, bottom=0.12, top=0.92)
    axes.set(xscale="log", yscale="log", xlabel="memories", title="Search, milliseconds (median)")
    _lines(axes, lines, theme)
    axes.set_xticks([int(size) for size in growth["stores"]])
    return figure


def draw_processes(several: dict[str, Any], theme: Theme) -> Any:
    lines: dict[str, list[tuple[int, float]]] = {}
    troubled: dict[str, list[tuple[int, float]]] = {}
    for processes, rows in several["processes"].items():
        for name, row in rows.items():
            if rate := row.get("calls_per_second"):
                lines.setdefault(name, []).append((int(processes), rate))
                if troubles(row):
                    troubled.setdefault(name, []).append((int(processes), rate))
    figure, axes = plt.subplots(figsize=(7.5, 4.4))
    figure.subplots_adjust(left=0.09, right=0.71, bottom=0.12, top=0.92)
    title = "Calls a second, of all processes (ringed: with errors or losses)"
    axes.set(xscale="log", yscale="log", xlabel="processes on one store", title=title)
    _lines(axes, lines, theme)
    for name, points in troubled.items():
        axes.plot(*zip(*points, strict=True), "o", ms=11, mfc="none", mec=theme.style(name)[0])
    axes.set_xticks([int(processes) for processes in several["processes"]])
    return figure


def _lines(axes: Any, lines: dict[str, list[tuple[int, float]]], theme: Theme) -> None:
    """A line for each store, with its name beside its end."""
    plain = FuncFormatter(lambda value, _: f"{value:,.0f}" if value >= 1 else f"{value:g}")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(plain)
        axis.set_minor_locator(NullLocator())
    for name, points in lines.items():
        colour, line, mark = theme.style(name)
        ours = name == OURS
        axes.plot(
            *zip(*points, strict=True),
            linestyle=line,
            color=colour,
            marker=mark,
            ms=6 if ours else 4,
            lw=3 if ours else 1.4,
            zorder=4 if ours else 3,
        )
    axes.margins(y=0.12)
    axes.figure.canvas.draw()  # so that the places below are those of the plot
    to_axes = axes.transData + axes.transAxes.inverted()
    last = max(points[-1][0] for points in lines.values())
    ends, wanted = {}, []
    for name, points in lines.items():
        before, end = (to_axes.transform(point) for point in (points[-2:] * 2)[:2])
        ends[name] = end
        slope = (end[1] - before[1]) / (end[0] - before[0]) if end[0] > before[0] else 0.0
        # A line that ends early is led on as it went, so that it meets its name.
        wanted.append(float(end[1] + slope * (to_axes.transform((last, 1))[0] - end[0])))
    for (name, end), place in zip(ends.items(), _apart(wanted, 0.062), strict=True):
        colour = theme.style(name)[0]
        axes.annotate(
            name,
            xy=(float(end[0]) + 0.012, float(end[1])),
            xytext=(1.06, place),
            xycoords="axes fraction",
            textcoords="axes fraction",
            color=colour,
            fontweight="bold" if name == OURS else "normal",
            va="center",
            arrowprops={"arrowstyle": "-", "color": colour, "lw": 0.6, "relpos": (0, 0.5)}
            | {"shrinkA": 2, "shrinkB": 0, "ls": ":"},
        )


def _apart(places: list[float], gap: float, low: float = 0.0, high: float = 1.0) -> list[float]:
    """Places in the same order, between low and high, with this gap between them."""
    order = sorted(range(len(places)), key=places.__getitem__)
    moved = [min(max(places[index], low), high) for index in order]
    for _ in range(500):  # each time a little better
        for i in range(len(moved) - 1):
            if (lack := gap - (moved[i + 1] - moved[i])) > 0:
                moved[i] = max(moved[i] - lack / 2, low)
                moved[i + 1] = min(moved[i + 1] + lack / 2, high)
    result = list(places)
    for index, place in zip(order, moved, strict=True):
        result[index] = place
    return result


def draw_space(growth: dict[str, Any], size: str, theme: Theme) -> Any:
    names = [
        name for name in growth["stores"][size] if "disk_bytes" in growth["stores"][size][name]
    ]
    figure, panels = plt.subplots(1, 2, figsize=(7.5, 0.9 + 0.28 * len(names)), sharey=True)
    figure.subplots_adjust(left=0.29, right=0.96, bottom=0.03, top=0.9, wspace=0.15)
    titles = (f"Disk for a memory, kB, at {int(size):,}", f"Memory, MB, at {int(size):,}")
    for axes, title, key, part in zip(
        panels, titles, ("disk_bytes", "memory_mb"), (None, "rss"), strict=True
    ):
        values = [value_of(growth, size, name, key, part) or 0 for name in names]
        bars = axes.barh(names, values, color=[theme.style(name)[0] for name in names])
        for bar, name in zip(bars, names, strict=True):
            bar.set_alpha(1 if name == OURS else 0.6)
        axes.bar_label(bars, [number(value) for value in values], padding=3, color=theme.ink)
        axes.set(title=title, xticks=[])
        axes.margins(x=0.15)
        axes.grid(False)
        axes.tick_params(length=0)
        axes.spines["bottom"].set_visible(False)
    panels[0].invert_yaxis()
    for label in panels[0].get_yticklabels():
        label.set_fontweight("bold" if label.get_text() == OURS else "normal")
    return figure


def draw_recall(recall: dict[str, Any], theme: Theme) -> Any:
    methods = recall["methods"]
    kinds = list(recall["scores"][default_method(recall)])
    figure, axes = plt.subplots(figsize=(7.5, 4.2))
    rows = (len(methods) + 1) // 2
    figure.subplots_adjust(left=0.07, right=0.99, bottom=0.08, top=0.9 - 0.05 * rows)
    width = 0.84 / len(methods)
    for step, method in enumerate(methods):
        estimates = [recall["scores"][method][kind]["recall@5"] for kind in kinds]
        places = [i + (step - (len(methods) - 1) / 2) * width for i in range(len(kinds))]
        means = [each[0] for each in estimates]
        below = [max(each[0] - each[1], 0) for each in estimates]
        above = [max(each[2] - each[0], 0) for each in estimates]
        colour = theme.style(OURS)[0] if method == default_method(recall) else theme.shade(step)
        axes.bar(places, means, width * 0.92, color=colour, label=method)
        axes.errorbar(places, means, [below, above], fmt="none", ecolor=theme.ink, lw=0.9)
    axes.set_xticks(range(len(kinds)), kinds)
    axes.set(ylim=(0, 100))
    axes.tick_params(axis="x", length=0)
    axes.grid(False, axis="x")
    figure.suptitle("recall@5, %, by kind of question", x=0.07, y=0.98, ha="left", fontsize=10)
    figure.legend(loc="upper left", bbox_to_anchor=(0.06, 0.95), ncols=2, columnspacing=1.5)
    return figure


def draw_tuning(recall: dict[str, Any], theme: Theme) -> Any:
    curve = recall["tuning"]
    kinds = [key for key in curve[0] if key not in ("weight", "recall@5")]
    figure, axes = plt.subplots(figsize=(7.5, 3.6))
    figure.subplots_adjust(left=0.07, right=0.8, bottom=0.14, top=0.9)
    axes.set(title="recall@5, %, on the questions to tune on", xlabel="weight of shared words")
    weights = [point["weight"] for point in curve]
    ends, names = [], ["recall@5", *kinds]
    for step, name in enumerate(names):
        values = [point[name] for point in curve]
        ours = name == "recall@5"
        colour = theme.style(OURS if ours else HUES[step % len(HUES)])[0]
        axes.plot(weights, values, "o-", color=colour, lw=3 if ours else 1.3, ms=6 if ours else 3.5)
        ends.append((values[-1], "all" if ours else name, colour))
    low, high = axes.get_ylim()
    places = _apart([end[0] for end in ends], (high - low) * 0.075, low, high)
    for (_, name, colour), place in zip(ends, places, strict=True):
        weight = "bold" if name == "all" else "normal"
        axes.annotate(
            name,
            (weights[-1], place),
            (8, 0),
            textcoords="offset points",
            color=colour,
            va="center",
            fontweight=weight,
            annotation_clip=False,
        )
    if (default := recall.get("weight")) is not None:
        axes.axvline(default, color=theme.ink, lw=0.8, ls=":", zorder=1)
        axes.annotate(
            "default",
            (default, low),
            (4, 4),
            textcoords="offset points",
            color=theme.ink,
            fontsize=8,
        )
    axes.set_ylim(low, high)
    return figure
