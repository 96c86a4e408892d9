"""CASES 22 and 9: features, edges and labels that cannot be used; the error names the graph."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch_geometric.data import Data

from kdlgt.data import RawData
from kdlgt.data.bundle import feature_columns
from kdlgt.data.validation import symmetrised, validated
from kdlgt.errors import DataError, GraphError, KdlgtError


def graph(**changes: Any) -> Data:
    fields: dict[str, Any] = {
        "x": torch.zeros(3, 2),
        "edge_index": torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]),
        "edge_attr": torch.zeros(4, 1),
        "y": torch.tensor([1]),
    } | changes
    return Data(**{name: value for name, value in fields.items() if value is not None})


def graph_data(*graphs: Data, **given: Any) -> RawData:
    fields: dict[str, Any] = {"level": "graph", "task": "multiclass", "out_features": 2} | given
    return RawData(graphs=list(graphs), **fields)


def edges(*pairs: tuple[int, int]) -> torch.Tensor:
    return torch.tensor(pairs).T.contiguous()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"x": torch.tensor([[0.0], [torch.nan], [0.0]])}, "x hold NaN or inf at 1 of 3 nodes, the first is node 1"),
        ({"x": torch.tensor([[0.0], [0.0], [torch.inf]])}, "x hold NaN or inf"),
        ({"x": torch.zeros(2, 2), "num_nodes": 3}, "x has 2 rows; the graph has 3 nodes"),
        ({"edge_attr": torch.tensor([[0.0], [torch.nan], [0], [0]])}, "edge_attr hold NaN or inf, the first at edge 1"),
        ({"edge_attr": torch.zeros(3, 1)}, "edge_attr has 3 rows; the graph has 4 edges"),
        ({"edge_index": edges((0, 7), (7, 0), (0, 1), (1, 0))}, r"0\.\.7; the graph has nodes 0\.\.2"),
        ({"edge_index": edges((0, -1), (-1, 0), (0, 1), (1, 0))}, r"-1\.\.1; the graph has nodes"),
        ({"edge_index": edges((0, 1), (1, 0), (1, 2), (2, 1)).float()}, "dtype torch.float32"),
        ({"edge_index": torch.zeros(4, 2, dtype=torch.long)}, r"shape \(4, 2\)"),
        ({"edge_index": None, "edge_attr": None}, "no edge_index"),
        ({"edge_index": edges((0, 1), (1, 2), (0, 2), (2, 0))}, "directed: 2 edges have no reverse"),
        ({"x": torch.zeros(0, 2)}, "num_nodes = 0"),
        ({"y": None}, "labels y are missing"),
        ({"y": torch.tensor([2])}, r"class numbers 2\.\.2; allowed: 0\.\.1"),
        ({"y": torch.tensor([-2])}, r"class numbers -2\.\.-2"),
        ({"y": torch.tensor([0.5])}, "fractions"),
        ({"y": torch.tensor([0, 1, 1])}, r"y has shape \[3\]; a graph-level"),
    ],
)
def test_a_broken_graph_is_refused_by_its_number(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(GraphError, match=rf"graph 2 \(of 4, from 0\): .*{message}"):
        validated(graph_data(graph(), graph(), graph(**changes), graph()))


def test_a_lone_graph_has_no_number() -> None:
    with pytest.raises(GraphError, match=r"^node features"):
        validated(graph_data(graph(x=torch.full((3, 1), torch.nan))))


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (graph_data(), "0 graphs"),
        (graph_data(graph(), graph(), level="node"), "2 graphs; level 'node' needs exactly one graph"),
        (graph_data(graph(y=torch.tensor([-1])), graph(y=torch.tensor([-1]))), "all labels are missing"),
        (graph_data(graph(y=torch.tensor([[torch.nan]])), task="regression", out_features=1), "all labels are missing"),
    ],
)
def test_a_data_set_without_graphs_or_labels_is_refused(raw: RawData, message: str) -> None:
    with pytest.raises(DataError, match=message):
        validated(raw)


def test_missing_labels_have_one_form() -> None:
    raw = graph_data(graph(y=torch.tensor(torch.nan)), graph(y=torch.tensor([1.0])), graph(y=torch.tensor([-1])))
    assert [checked.y.tolist() for checked in validated(raw).graphs] == [[-1], [1], [-1]]
    pair = graph_data(graph(y=torch.tensor([0.0, torch.nan])), task="multilabel", out_features=2)
    (checked,) = validated(pair).graphs
    assert checked.y.shape == (1, 2)
    assert checked.y.isnan().tolist() == [[False, True]]


@pytest.mark.parametrize(
    ("task", "value", "message"), [("binary", 2.0, "0, 1 and NaN"), ("regression", torch.inf, "inf")]
)
def test_targets_out_of_range_are_refused(task: str, value: float, message: str) -> None:
    with pytest.raises(GraphError, match=message):
        validated(graph_data(graph(y=torch.tensor([value])), task=task, out_features=1))


def test_symmetrise_makes_directed_graphs_usable_and_keeps_edge_features() -> None:
    directed = graph(edge_index=edges((0, 1), (1, 2), (2, 1)), edge_attr=torch.tensor([[5], [6], [7]]))
    with pytest.raises(GraphError, match=r"data\.symmetrise = true"):
        validated(graph_data(directed))
    (checked,) = validated(graph_data(directed), symmetrise=True).graphs
    pairs = dict(zip(map(tuple, checked.edge_index.T.tolist()), checked.edge_attr.flatten().tolist(), strict=True))
    assert pairs == {(0, 1): 5, (1, 0): 5, (1, 2): 6, (2, 1): 7}


def test_symmetrise_still_refuses_edges_out_of_range() -> None:
    with pytest.raises(GraphError, match="the graph has nodes"):
        validated(graph_data(graph(edge_index=edges((0, 9)), edge_attr=None)), symmetrise=True)


def test_a_symmetric_graph_is_left_as_it_is() -> None:
    assert torch.equal(symmetrised(graph()).edge_index, graph().edge_index)


def test_the_given_graphs_are_not_changed() -> None:
    given = graph(x=torch.zeros(3), y=torch.tensor([1.0]))
    (checked,) = validated(graph_data(given)).graphs
    assert checked.x.shape == (3, 1)
    assert given.x.shape == (3,)
    assert given.y.dtype == torch.float32


def test_no_features_and_isolated_nodes() -> None:
    given = Data(edge_index=edges((0, 1), (1, 0)), y=torch.tensor([0, 1, 0, 1]))
    (checked,) = validated(graph_data(given, level="node")).graphs
    assert checked.num_nodes == 4


def test_feature_columns() -> None:
    assert feature_columns([None, None]) is None
    assert feature_columns([torch.zeros(2, 3), torch.zeros(5, 3)]) == 3
    assert feature_columns([torch.tensor([[0, 4]]), torch.tensor([[2, 1]])]) == (3, 5)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([torch.zeros(2, 3), None], "1 of 2 graphs"),
        ([torch.zeros(2, 3), torch.zeros(2, 4)], "differs between graphs"),
        ([torch.zeros(2, 3), torch.zeros(2, 3, dtype=torch.long)], "differs between graphs"),
        ([torch.tensor([[-1]])], "the integer -1"),
    ],
)
def test_features_that_do_not_fit_together_are_refused(values: list[torch.Tensor | None], message: str) -> None:
    with pytest.raises(KdlgtError, match=message):
        feature_columns(values)
