"""The picture of the SAPD experiment: gap, anchors, coverage, total variation."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kdlgt.experiments.reproduce.charts import finish, panels
from kdlgt.experiments.reproduce.outcome import Entry, Picture, number

if TYPE_CHECKING:
    from matplotlib.axes import Axes

NO_RPE = "no RPE"


def draw(
    gaps: list[dict[str, Entry]],
    counts: list[dict[str, Entry]],
    covers: list[dict[str, Entry]],
    variation: list[dict[str, Entry]],
) -> Picture:
    """Four panels, from the rows of the four tables."""
    figure, axes = panels(2, 2)
    _draw_gaps(axes[0, 0], [row for row in gaps if row["cap"] is None])
    _draw_counts(axes[0, 1], [row for row in counts if row["graph"] in ("6-regular", "grid")])
    _draw_covers(axes[1, 0], covers)
    _draw_variation(axes[1, 1], variation)
    return Picture(name="sapd", title="SAPD against SPD", figure=figure)


def _draw_gaps(axes: Axes, rows: list[dict[str, Entry]]) -> None:
    for colour, name in enumerate(dict.fromkeys(str(row["graph"]) for row in rows)):
        own = [row for row in rows if row["graph"] == name]
        hops = [number(row, "k") for row in own]
        axes.plot(hops, [number(row, "largest gap") for row in own], "o-", ms=4, color=f"C{colour}", label=name)
        axes.plot(hops, [number(row, "mean gap") for row in own], "x:", ms=4, color=f"C{colour}")
    hops = sorted({number(row, "k") for row in rows})
    axes.plot(hops, [2 * k for k in hops], "k--", lw=1, label="2k")
    axes.plot(hops, hops, color="grey", ls="--", lw=1, label="k (the paper's)")
    axes.set_xticks(hops)
    finish(axes, "k", "min SAPD - SPD", "gap: largest (lines), mean (dotted)")


def _draw_counts(axes: Axes, rows: list[dict[str, Entry]]) -> None:
    for line, name in zip(("-", ":"), dict.fromkeys(str(row["graph"]) for row in rows), strict=False):
        for colour, k in enumerate(sorted({number(row, "k") for row in rows})):
            own = [row for row in rows if row["graph"] == name and row["k"] == k]
            sizes, anchors = ([number(row, column) for row in own] for column in ("N", "anchors"))
            axes.plot(sizes, anchors, f"o{line}", ms=3, color=f"C{colour}", label=f"{name}, k = {k:g}")
    axes.set(xscale="log", yscale="log")
    axes.set_xscale("log", base=2)
    finish(axes, "N", "anchors", "anchors without a cap grow with N")


def _draw_covers(axes: Axes, rows: list[dict[str, Entry]]) -> None:
    largest = max(number(row, "k") for row in rows)
    lines = (":", "-")
    for colour, name in enumerate(dict.fromkeys(str(row["graph"]) for row in rows)):
        for line, k in zip(lines, (largest - 1, largest), strict=True):
            own = [row for row in rows if row["graph"] == name and row["k"] == k]
            caps, covered = ([number(row, column) for row in own] for column in ("cap", "covered"))
            axes.plot(caps, covered, f"o{line}", ms=3, color=f"C{colour}", label=name if line == "-" else None)
    axes.set_xscale("log", base=2)
    axes.set_ylim(0, 1.05)
    finish(axes, "cap on anchors", "share of nodes covered", f"coverage at k = {largest:g} (dotted: {largest - 1:g})")


def _draw_variation(axes: Axes, rows: list[dict[str, Entry]]) -> None:
    names = [f"{row['graph']}\nc = {row['c']}" for row in rows]
    place = np.arange(len(rows))
    for shift, pooling in enumerate((NO_RPE, "mean", "softmin")):
        axes.bar(place + 0.27 * (shift - 1), [number(row, pooling) for row in rows], 0.25, label=pooling)
    axes.set_xticks(place, names, fontsize=6, rotation=45, ha="right")
    axes.set_ylim(0, 1.15)
    finish(axes, "", "total variation", "distance from attention with the SPD bias")
