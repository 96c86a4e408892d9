"""Degree and edge encodings: tables, edge features, and what they refuse."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch_geometric.data import Batch, Data

from kdlgt.errors import ArgumentError, GraphError
from kdlgt.graph import Prepare
from kdlgt.graph.generate import path, star
from kdlgt_edge import DegreeOptions, DegreeRPE, EdgeOptions, EdgeRPE, edge_reference

pytestmark = pytest.mark.plugins


def _featured(features: torch.Tensor) -> Data:
    """Triangle 0-1-2 and the pendant 3, with a loop and a duplicate, each direction with features of its own."""
    edges = [(0, 1), (1, 0), (1, 2), (2, 1), (0, 2), (2, 0), (2, 3), (3, 2), (1, 1), (0, 1)]
    return Data(edge_index=torch.tensor(edges).T, num_nodes=4, edge_attr=features)


CASES: dict[str, tuple[EdgeOptions, torch.Tensor]] = {
    "categories": (EdgeOptions(categories=(10,)), torch.arange(10)),
    "two columns": (EdgeOptions(categories=(5, 2)), torch.stack([torch.arange(10) % 5, torch.arange(10) % 2], dim=1)),
    "numbers": (EdgeOptions(width=3), torch.linspace(-1, 1, 30).view(10, 3)),
}


def _varied(options: EdgeOptions) -> EdgeRPE:
    rpe = EdgeRPE(2, options).double()
    with torch.no_grad():
        for number, parameter in enumerate(rpe.parameters()):
            parameter.add_(torch.linspace(-1, 2, parameter.numel(), dtype=torch.float64).view(parameter.shape) + number)
    return rpe


@pytest.mark.parametrize("case", CASES)
def test_edge_features_equal_the_reference_with_gradients(case: str) -> None:
    options, features = CASES[case]
    rpe = _varied(options)
    value = rpe(Prepare(rpe.structures)(_featured(features))).to_dense()
    reference = edge_reference(rpe, _featured(features))
    torch.testing.assert_close(value, reference)
    weight = torch.linspace(-1, 1, value.numel(), dtype=torch.float64).view(value.shape).sin()
    gradients = [torch.autograd.grad((weight * dense).sum(), list(rpe.parameters())) for dense in (value, reference)]
    for got, expected in zip(*gradients, strict=True):
        torch.testing.assert_close(got, expected)
        assert bool(got.any())


def test_a_query_sees_the_edge_that_points_at_it() -> None:
    data = Data(edge_index=torch.tensor([[0, 1], [1, 0]]), num_nodes=2, edge_attr=torch.tensor([0, 1]))
    rpe = EdgeRPE(1, EdgeOptions(categories=(2,)))
    with torch.no_grad():
        rpe.tables[0].copy_(torch.tensor([[5.0], [7.0]]))
    assert rpe(Prepare(rpe.structures)(data)).to_dense()[0].tolist() == [[0.0, 7.0], [5.0, 0.0]]


def test_a_symmetrised_edge_lends_its_features_to_the_reverse() -> None:
    data = Data(edge_index=torch.tensor([[0, 1], [1, 2]]), num_nodes=3, edge_attr=torch.tensor([0, 1]))
    rpe = _varied(EdgeOptions(categories=(2,)))
    dense = rpe(Prepare(rpe.structures, symmetrise=True)(data.clone())).to_dense()
    torch.testing.assert_close(dense, dense.mT)
    torch.testing.assert_close(dense, edge_reference(rpe, data))


def test_features_travel_with_their_graph_in_a_batch() -> None:
    options, features = CASES["two columns"]
    rpe = _varied(options)
    graphs = [_featured(features), _featured(features.flip(0)), _featured(features)]
    batch = Batch.from_data_list([Prepare(rpe.structures)(graph.clone()) for graph in graphs])
    dense = rpe(batch).to_dense()
    for number, graph in enumerate(graphs):
        part = slice(4 * number, 4 * number + 4)
        torch.testing.assert_close(dense[:, part, part], edge_reference(rpe, graph))


@pytest.mark.parametrize(
    ("options", "features", "message"),
    [
        (EdgeOptions(categories=(3,)), None, "'edge_attr'"),
        (EdgeOptions(categories=(3,)), torch.zeros(10, 2, dtype=torch.long), "2 columns"),
        (EdgeOptions(categories=(3,)), torch.zeros(10), "float32"),
        (EdgeOptions(width=1), torch.zeros(10, dtype=torch.long), "int64"),
    ],
)
def test_unfit_edge_features_are_named(options: EdgeOptions, features: Any, message: str) -> None:
    rpe = EdgeRPE(1, options)
    with pytest.raises(GraphError, match=message):
        Prepare(rpe.structures)(_featured(features))


def test_a_category_out_of_range_is_named() -> None:
    rpe = EdgeRPE(1, EdgeOptions(categories=(3,)))
    with pytest.raises(GraphError, match=r"column 0 holds 0\.\.7"):
        rpe(Prepare(rpe.structures)(_featured(torch.arange(10))))


def test_options_exclude_each_other() -> None:
    with pytest.raises(ArgumentError, match="give one of them"):
        EdgeRPE(1, EdgeOptions(categories=(3,), width=2))


def test_large_degrees_share_the_last_entry() -> None:
    rpe = DegreeRPE(1, DegreeOptions(max_degree=2))
    with torch.no_grad():
        rpe.table.copy_(torch.tensor([[0.0], [1.0], [2.0], [3.0]]))
    column = rpe(Prepare(rpe.structures)(star(6))).column.flatten()
    assert sorted(column.tolist()) == [1.0] * 5 + [3.0]


def test_the_slope_starts_the_table() -> None:
    rpe = DegreeRPE(2, DegreeOptions(slope=2.0))
    column = rpe(Prepare(rpe.structures)(path(3))).column
    torch.testing.assert_close(column[:, 0], 2.0 * torch.tensor([1.0, 2.0, 1.0]).log1p())
