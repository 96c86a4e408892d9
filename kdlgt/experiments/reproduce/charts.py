"""Figures of one style, without pyplot's global state."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PANEL = (4.4, 3.4)


def panels(columns: int, rows: int = 1) -> tuple[Figure, Any]:
    """A figure with a grid of axes [rows, columns]."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(PANEL[0] * columns, PANEL[1] * rows), layout="constrained")
    return figure, figure.subplots(rows, columns, squeeze=False)


def finish(axes: Axes, x: str, y: str, title: str = "") -> None:
    """Label the axes, with a grid, and a legend where lines have labels."""
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    axes.set_title(title, fontsize=10)
    axes.grid(alpha=0.3)
    if axes.get_legend_handles_labels()[0]:
        axes.legend(frameon=False, fontsize=8)
