"""Error against the number of features as a picture."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kdlgt.experiments.benchmark_error import ErrorTable

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def draw_errors(tables: Sequence[ErrorTable]) -> Figure:
    """One panel per model: total variation of each feature map; balanced ones dashed."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5.5 * max(len(tables), 1), 4.5), layout="constrained")
    for axes, table in zip(figure.subplots(1, max(len(tables), 1), squeeze=False)[0], tables, strict=True):
        for method in dict.fromkeys(cell.method for cell in table.cells):
            cells = [cell for cell in table.cells if cell.method == method]
            axes.plot(
                [cell.features for cell in cells],
                [cell.total_variation for cell in cells],
                marker="o",
                markersize=3,
                linestyle="--" if method.endswith(" balanced") else "-",
                label=method,
            )
        axes.set(title=table.name, xlabel="features r", ylabel="total variation", xscale="log", yscale="log")
        axes.grid(alpha=0.3)
        axes.legend(frameon=False, fontsize=7)
    return figure
