# pyright: reportMissingImports=false
"""The pictures of the page: lines and bars, each for a light page and for a dark one."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("svg")
from matplotlib import pyplot as plt
from matplotlib.ticker import FuncFormatter, NullLocator
from tables import OURS, dollars, number

# Told apart with any kind of colour vision, by line or mark where not by colour: for a page in
# black on white, and one in white on black.
STYLES: dict[str, tuple[str, str, str, str]] = {
    OURS: ("#cc4c00", "#ff8c42", "-", "o"),
    "agent-memory, endpoint": ("#cc4c00", "#ff8c42", "--", "o"),
    "agent-memory, built-in model": ("#cc4c00", "#ff8c42", ":", "o"),
    "numpy float32": ("#6b7280", "#9ca3af", "-", "x"),
    "sqlite-vec": ("#0072b2", "#4aa8e8", "-", "s"),
    "Chroma": ("#008a64", "#2fc99a", "-", "^"),
    "LanceDB": ("#b0508c", "#e79bc6", "-", "v"),
    "Qdrant local": ("#3a96d0", "#7cc8f2", "--", "D"),
    "mcp-server-qdrant": ("#7a5cc0", "#b09cf0", "--", "P"),
    "mcp-memory-service": ("#0f766e", "#5eead4", "-.", "h"),
    "mem0": ("#8f7000", "#e0bd3a", "-.", "X"),
}
SHADES = [("#3182bd", "#6cb6ff"), ("#9ecae1", "#2f6690"), ("#9e9ac8", "#8a7fd0")]
SHADES += [("#a8ddb5", "#2f7d4f"), ("#56606b", "#8b949e")]
THEMES = {"light": ("#1f2328", "#d0d7de"), "dark": ("#e6edf3", "#3d444d")}  # text, and lines
WIDTH = 7.5  # inches


class Plots:
    """Draws each picture for both themes, and says how a page shows the right one."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def lines(
        self,
        name: str,
        panels: Mapping[str, Mapping[str, Sequence[tuple[int, float]]]],
        along: str,
    ) -> str:
        """A panel for each title side by side, with a line for each store; both axes are
        logarithmic. `along` says what the lines go along.
        """

        def draw(dark: bool) -> Any:
            figure, all_axes = plt.subplots(1, len(panels), figsize=(WIDTH, 4), squeeze=False)
            drawn: dict[str, Any] = {}
            for axes, (title, stores) in zip(all_axes[0], panels.items(), strict=True):
                for store, points in stores.items():
                    light, darker, line, mark = STYLES.get(store, ("#888888", "#888888", "-", "."))
                    bold = 2 if store == OURS else 1
                    [drawn[store]] = axes.plot(
                        *zip(*points, strict=True),
                        color=darker if dark else light,
                        linestyle=line,
                        marker=mark,
                        lw=1.3 * bold,
                        ms=3 + bold,
                        zorder=2 + bold,
                    )
                ticks = sorted({x for points in stores.values() for x, _ in points})
                axes.set(xscale="log", yscale="log", xlabel=along, title=title, xticks=ticks)
                for axis in (axes.xaxis, axes.yaxis):
                    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))
                    axis.set_minor_locator(NullLocator())
            figure.legend(drawn.values(), drawn, loc="lower center", ncols=4)
            figure.subplots_adjust(left=0.07, right=0.98, bottom=0.33, top=0.92, wspace=0.2)
            return figure

        return self._both(name, draw, f"{'; '.join(panels)}, along {along}.")

    def bars(
        self,
        name: str,
        title: str,
        rows: Mapping[str, Sequence[float]],
        parts: Sequence[str] = ("",),
        emphasised: str = "",
    ) -> str:
        """A bar for each row, of its parts one after the other; amounts of several are dollars."""
        several = len(parts) > 1

        def draw(dark: bool) -> Any:
            height = 0.9 + 0.3 * len(rows)
            figure, axes = plt.subplots(figsize=(WIDTH, height))
            figure.subplots_adjust(0.32, 0.05, 0.97, 1 - 0.4 / height)
            axes.grid(False)
            left = [0.0] * len(rows)
            for step, part in enumerate(parts):
                colours = [
                    (STYLES[OURS] if row == emphasised else SHADES[step])[dark] for row in rows
                ]
                values = [values[step] for values in rows.values()]
                axes.barh(list(rows), values, left=left, color=colours, label=part)
                left = [start + value for start, value in zip(left, values, strict=True)]
            axes.bar_label(
                axes.containers[-1],
                [(dollars if several else number)(end) for end in left],
                padding=3,
            )
            if several:
                axes.legend(loc="upper right")
            axes.set(title=title, xticks=[])
            axes.margins(x=0.12)
            axes.tick_params(length=0)
            axes.invert_yaxis()
            return figure

        return self._both(name, draw, f"{title}. The figures are in the table.")

    def _both(self, name: str, draw: Callable[[bool], Any], alt: str) -> str:
        for theme, (ink, faint) in THEMES.items():
            with plt.rc_context(_settings(ink, faint)):
                figure = draw(theme == "dark")
                # Without a date and a version, which would make every file a new one.
                figure.savefig(
                    self._folder / f"{name}-{theme}.svg",
                    transparent=True,
                    metadata={"Date": None, "Creator": None},
                )
                plt.close(figure)
        return (
            f'<picture><source media="(prefers-color-scheme: dark)" '
            f'srcset="benchmarks/{name}-dark.svg">'
            f'<img alt="{alt}" src="benchmarks/{name}-light.svg"></picture>'
        )


def _settings(ink: str, faint: str) -> dict[str, Any]:
    inked = ("xtick.color", "ytick.color", "axes.labelcolor", "text.color")
    return dict.fromkeys(inked, ink) | {
        "svg.hashsalt": OURS,  # the same figures give the same file
        "svg.fonttype": "none",
        # The widest first, so that labels have room with whatever the reader has.
        "font.family": "sans-serif",
        "font.sans-serif": ["DejaVu Sans", "Verdana", "Arial", "sans-serif"],
        "font.size": 9,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.edgecolor": faint,
        "axes.grid": True,
        "axes.axisbelow": True,
        "axes.titlesize": 10,
        "axes.titlelocation": "left",
        "grid.color": faint,
        "grid.linewidth": 0.5,
        "legend.frameon": False,
        "legend.fontsize": 8,
    }
