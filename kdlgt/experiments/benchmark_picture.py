"""A benchmark as a picture."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kdlgt.experiments.benchmark import Benchmark

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_GIB = 2.0**30


def draw_benchmark(benchmark: Benchmark) -> Figure:
    """For each action one row: time, ratio to the reference, and peak memory against the number of nodes."""
    from matplotlib.figure import Figure

    actions = benchmark.actions
    figure = Figure(figsize=(13, 3.6 * len(actions)), layout="constrained")
    panels = figure.subplots(len(actions), 3, squeeze=False)
    for axes, action in zip(panels, actions, strict=True):
        _row(axes, benchmark, action)
    handles, labels = panels[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels), frameon=False)
    figure.suptitle(benchmark.title)
    return figure


def _row(axes: list[Axes], benchmark: Benchmark, action: str) -> None:
    for method in benchmark.methods:
        cells = [benchmark.cell(method, nodes, action) for nodes in benchmark.sizes]
        measured = [cell for cell in cells if cell.outcome == "ok"]
        nodes = [cell.nodes for cell in measured]
        ratios = [benchmark.ratio(method, cell.nodes, action) for cell in measured]
        for panel, values in zip(
            axes, ([cell.median for cell in measured], ratios, [cell.peak / _GIB for cell in measured]), strict=True
        ):
            panel.plot(nodes, values, marker="o", markersize=3, label=method)
    titles = (f"{action}: seconds", f"time / time of {benchmark.reference}", "peak memory, GiB")
    for panel, title in zip(axes, titles, strict=True):
        panel.set(title=title, xlabel="nodes", yscale="log")
        panel.set_xscale("log", base=2)
        panel.grid(alpha=0.3)
