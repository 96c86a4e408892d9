"""The paper's claims about efficiency against the measured rows."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from kdlgt.experiments.benchmark_model import ACTIONS
from kdlgt.experiments.reproduce.claims import Claim, judge
from kdlgt.experiments.reproduce.outcome import Entry

BEST = 9.63
"""The paper's largest acceleration."""

SMALL = 2**11.5
LARGEST = 2**14
GPU_MEMORY = 24.0
"""GB of the GPU that the paper used, an RTX 3090."""

LSAT, DENSE = "LSAT", "SAT, as published (dense)"

Rows = Sequence[dict[str, Entry]]


def judge_all(rows: Rows) -> tuple[Claim, ...]:
    """Every claim about Figure 2."""
    return (_speed(rows), _growth(rows), _small_graphs(rows), _width(rows), _memory(rows), _linear(rows))


def _series(rows: Rows, system: str, action: str, width: float, column: str) -> list[tuple[float, float]]:
    """(N, value) of one curve, without the points that a limit cut off."""
    return [
        (_float(row["N"]), _float(row[column]))
        for row in rows
        if (row["system"], row["action"], row["d"]) == (system, action, width) and row[column] is not None
    ]


def _float(value: Entry) -> float:
    assert isinstance(value, int | float)
    return float(value)


def _widths(rows: Rows) -> list[float]:
    return sorted({_float(row["d"]) for row in rows})


def _ratios(rows: Rows) -> list[tuple[float, float, float, str]]:
    """(ratio, N, d, action) against dense SAT."""
    return [
        (ratio, nodes, width, action)
        for action in ACTIONS
        for width in _widths(rows)
        for nodes, ratio in _series(rows, DENSE, action, width, "acceleration of LSAT")
    ]


def _speed(rows: Rows) -> Claim:
    found = _ratios(rows)
    if not found:
        return judge("figure2.speed", None, "dense SAT ran at no size")
    ratio, nodes, width, action = max(found)
    reached = max(_float(row["N"]) for row in rows) >= LARGEST
    holds = True if ratio >= BEST else False if reached else None
    grid = "" if holds is not None else "; the grid ends before 2^14"
    return judge("figure2.speed", holds, f"{ratio:.2f}x at N = {nodes:g}, d = {width:g}, {action}{grid}")


def slope(points: Sequence[tuple[float, float]]) -> float:
    """Exponent of a curve, least squares in logs; NaN with fewer than two points."""
    if len(points) < 2:
        return math.nan
    sizes, values = np.log(np.array(points)).T
    return float(np.polyfit(sizes, values, 1)[0])


def _slopes(rows: Rows, system: str, column: str) -> list[float]:
    curves = (_series(rows, system, action, width, column) for action in ACTIONS for width in _widths(rows))
    return [value for value in map(slope, curves) if math.isfinite(value)]


def _growth(rows: Rows) -> Claim:
    found = _slopes(rows, DENSE, "acceleration of LSAT")
    if not found:
        return judge("figure2.growth", None, "dense SAT ran at fewer than two sizes")
    listed = ", ".join(f"N^{value:.2f}" for value in found)
    mean = sum(found) / len(found)
    return judge("figure2.growth", 0.7 <= mean <= 1.3, f"the ratio grows as {listed} (linear: between .7 and 1.3)")


def _small_graphs(rows: Rows) -> Claim:
    found = [entry for entry in _ratios(rows) if entry[1] <= SMALL and entry[2] == _widths(rows)[-1]]
    if not found:
        return judge("figure2.small-graphs", None, "no size up to 2^11.5 was measured")
    ratio, nodes, width, action = min(found)
    text = f"smallest ratio {ratio:.2f} at N = {nodes:g}, d = {width:g}, {action}"
    return judge("figure2.small-graphs", ratio < 1, text)


def _width(rows: Rows) -> Claim:
    widths = _widths(rows)
    if len(widths) < 2:
        return judge("figure2.width", None, "one width was measured")
    pairs = []
    for action in ACTIONS:
        narrow, wide = (
            dict(_series(rows, DENSE, action, width, "acceleration of LSAT")) for width in (widths[0], widths[-1])
        )
        both = sorted(narrow.keys() & wide.keys())
        pairs += [(action, both[-1], narrow[both[-1]], wide[both[-1]])] if both else []
    if not pairs:
        return judge("figure2.width", None, "no size ran at two widths")
    listed = ", ".join(
        f"{action}, N = {nodes:g}: {a:.2f} at d = {widths[0]:g}, {b:.2f} at d = {widths[-1]:g}"
        for action, nodes, a, b in pairs
    )
    return judge("figure2.width", all(a > b for _, _, a, b in pairs), listed)


def _memory(rows: Rows) -> Claim:
    """Dense memory grows as N^2 and linear as N beyond the largest size measured."""
    needs = {}
    for system, power in ((LSAT, 1), (DENSE, 2)):
        points = _series(rows, system, ACTIONS[0], _widths(rows)[0], "peak memory (GB)")
        if not points:
            return judge("figure2.memory", None, f"{system} ran at no size")
        nodes, peak = points[-1]
        needs[system] = [peak * (size / nodes) ** power for size in (2**14, 2**14.5)]
    ends = {system: 2**14 * (GPU_MEMORY / need[0]) ** (1 if system == LSAT else 0.5) for system, need in needs.items()}
    text = (
        f"a training step at 2^14 and 2^14.5 needs {needs[DENSE][0]:.1f} and {needs[DENSE][1]:.1f} GB dense, "
        f"{needs[LSAT][0]:.2f} and {needs[LSAT][1]:.2f} GB linear (continued from the largest size measured); "
        f"{GPU_MEMORY:g} GB, as on the paper's GPU, end at N = {ends[DENSE]:,.0f} dense, {ends[LSAT]:,.0f} linear"
    )
    return judge("figure2.memory", needs[DENSE][1] > GPU_MEMORY > needs[LSAT][1], text)


def _linear(rows: Rows) -> Claim:
    ours, theirs = (_slopes(rows, system, "seconds") for system in (LSAT, DENSE))
    if not ours or not theirs:
        return judge("figure2.linear", None, "fewer than two sizes")
    listed = [", ".join(f"N^{value:.2f}" for value in values) for values in (ours, theirs)]
    means = [sum(values) / len(values) for values in (ours, theirs)]
    text = f"time: LSAT {listed[0]}; dense SAT {listed[1]}; on average {means[0]:.2f} and {means[1]:.2f}"
    return judge("figure2.linear", means[0] < 1.3 and means[1] > 1.5, text)
