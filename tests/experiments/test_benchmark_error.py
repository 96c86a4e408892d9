"""The table of errors: every installed map, and balance that does what it promises."""

from __future__ import annotations

from typing import Any

import attrs
import pytest
import torch

from kdlgt.experiments.benchmark_error import BASELINE, ErrorTable, measure_errors
from kdlgt.experiments.error_picture import draw_errors
from kdlgt.features import FavorPlus
from kdlgt.model import LayerInputs
from kdlgt.registry import load_plugins


@pytest.fixture(scope="module")
def table() -> ErrorTable:
    """Queries and keys with a mean and unequal columns, which balance takes out."""
    generator = torch.Generator().manual_seed(0)
    scales = torch.linspace(0.2, 1.6, 8)
    q, k, v = (torch.randn(150, 2, 8, generator=generator) for _ in range(3))
    layer = LayerInputs(
        q=0.8 * scales * q + 0.5,
        k=0.8 * scales.flip(0) * k - 0.7,
        v=v,
        bias=None,
        ptr=torch.tensor([0, 150]),
        scale=None,
        features=FavorPlus(8, 8, 2),
    )
    return measure_errors("made up", [layer], load_plugins(), counts=(16, 128), rows=40, seeds=2)


def test_every_installed_map_is_there(table: ErrorTable) -> None:
    methods = {cell.method for cell in table.cells}
    names = set(load_plugins().feature_map_specs)
    assert {BASELINE, *names} <= methods
    assert "favor+ balanced" in methods
    assert "relu balanced" not in methods
    assert table.counts == (16, 128)


def test_ratios_are_to_independent_favor_plus(table: ErrorTable) -> None:
    base = {cell.features: cell.total_variation for cell in table.cells if cell.method == BASELINE}
    assert all(cell.ratio == pytest.approx(cell.total_variation / base[cell.features]) for cell in table.cells)
    assert all(cell.seconds > 0 for cell in table.cells)


def test_balance_lowers_the_error(table: ErrorTable) -> None:
    found = {(cell.method, cell.features): cell for cell in table.cells}
    assert found["favor+ balanced", 128].ratio < 0.8
    assert table.best(128).estimates_softmax
    assert table.best(128).total_variation <= found["favor+ balanced", 128].total_variation


def test_as_plain_values_and_as_a_picture(table: ErrorTable) -> None:
    tree: dict[str, Any] = table.to_dict()
    assert tree["best"]["128"] == attrs.asdict(table.best(128))
    figure = draw_errors([table, table])
    assert [axes.get_title() for axes in figure.axes] == ["made up", "made up"]
