"""Figure 2: claims on made-up curves, and a run on tiny graphs."""

from __future__ import annotations

import math
from typing import Any

import pytest

from kdlgt.experiments.benchmark import Benchmark, Cell
from kdlgt.experiments.benchmark_model import ACTIONS
from kdlgt.experiments.reproduce import figure2
from kdlgt.experiments.reproduce.figure2_claims import judge_all, slope

SIZES = (2048, 2896, 4096, 8192, 16384)


def curves(linear: float, dense: float, width: int = 64, sizes: tuple[int, ...] = SIZES) -> Any:
    """Rows of LSAT at ``linear * N`` and SAT at ``dense * N^2`` seconds, memory likewise."""
    cells = [
        Cell(
            method=method, nodes=n, action=action, outcome="ok", seconds=(cost * n**power,), peak=round(peak * n**power)
        )
        for action in ACTIONS
        for n in sizes
        for method, cost, power, peak in (("linear", linear, 1, 3000), ("dense", dense, 2, 64))
    ]
    return figure2.rows_of(width, Benchmark(title="", cells=tuple(cells), reference="linear"))


def verdicts(rows: Any) -> dict[str, str]:
    return {claim.key.removeprefix("figure2."): claim.verdict for claim in judge_all(rows)}


def test_a_quadratic_and_a_linear_curve() -> None:
    rows = curves(1e-5, 1e-8) + curves(4e-5, 1.2e-8, width=256)
    assert verdicts(rows) == {
        "speed": "holds",
        "growth": "holds",
        "small-graphs": "holds",
        "width": "holds",
        "memory": "holds",
        "linear": "holds",
    }


def test_a_grid_that_ends_early_leaves_the_speed_untested() -> None:
    short = curves(1e-5, 1e-8, sizes=(2048, 2896, 4096))
    assert verdicts(short)["speed"] == "not tested"
    assert verdicts(curves(1e-5, 1e-9))["speed"] == "does not hold"


def test_a_fast_start_contradicts_the_small_graphs() -> None:
    assert verdicts(curves(1e-6, 1e-8))["small-graphs"] == "does not hold"


def test_one_width_and_one_size_test_little() -> None:
    found = verdicts(curves(1e-5, 1e-8, sizes=(2048,)))
    assert (found["width"], found["growth"], found["linear"]) == ("not tested",) * 3


def test_slope() -> None:
    assert slope([(1, 3), (2, 12), (4, 48)]) == pytest.approx(2)
    assert math.isnan(slope([(1, 1)]))


def test_a_cell_beyond_a_limit_has_no_numbers() -> None:
    cells = (
        Cell(method="linear", nodes=8, action="evaluation", outcome="ok", seconds=(1.0,), peak=10),
        Cell(method="dense", nodes=8, action="evaluation", outcome="out of memory"),
    )
    row = figure2.rows_of(64, Benchmark(title="", cells=cells, reference="linear"))[1]
    assert (row["outcome"], row["seconds"], row["peak memory (GB)"]) == ("out of memory", None, None)


@pytest.mark.slow
@pytest.mark.plugins
def test_tiny_graphs(request_of: Any) -> None:
    settings = figure2.Settings(sizes=(64, 128), widths=(16, 32), features=8, repeats=1, memory=2.0, seconds=60.0)
    outcome = figure2.run(request_of("figure2"), settings)
    assert len(outcome.tables[0].rows) == 2 * 2 * 3 * 2
    assert all(row["outcome"] == "ok" for row in outcome.tables[0].records)
