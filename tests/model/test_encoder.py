"""First states: floats, integers, degrees, absolute encodings, edge features, and what is refused."""

from __future__ import annotations

from collections.abc import Callable

import attrs
import pytest
import torch
from torch import Tensor
from torch_geometric.data import Batch, Data

from kdlgt.errors import ArgumentError, DtypeError, GraphError
from kdlgt.graph import Graph, Prepare, Structure
from kdlgt.model import (
    AbsoluteEncoding,
    Degree,
    DegreeEncoder,
    EdgeEncoder,
    EmbeddingEncoder,
    GraphTransformer,
    LinearEncoder,
    NodeEncoder,
    feature_encoder,
)

MakeGraph = Callable[..., Data]
MakeModel = Callable[..., GraphTransformer]


def test_linear_encoder_is_affine() -> None:
    encoder, x = LinearEncoder(5, 8), torch.randn(4, 5)
    torch.testing.assert_close(encoder(x), x @ encoder.linear.weight.T + encoder.linear.bias)
    torch.testing.assert_close(LinearEncoder(1, 8)(torch.randn(4)).shape, torch.Size([4, 8]))


@pytest.mark.parametrize("width", [1433, 3703])
def test_wide_sparse_rows_are_not_drowned_by_the_bias(width: int) -> None:
    draw = torch.Generator().manual_seed(0)
    words = torch.rand(50, width, generator=draw).topk(18).indices
    x = torch.zeros(50, width).scatter(1, words, 1 / 18)
    states = LinearEncoder(width, 64)(x)
    between = (states - states.mean(0)).norm()
    assert between > 0.9 * states.norm()


def test_sparse_features_equal_dense_ones() -> None:
    encoder = LinearEncoder(30, 8)
    x = torch.randn(6, 30) * (torch.rand(6, 30) < 0.2)
    torch.testing.assert_close(encoder(x.to_sparse()), encoder(x))
    dropped = encoder.train()(x.to_sparse(), 0.5)
    assert dropped.shape == (6, 8)
    assert not torch.equal(dropped, encoder(x))


def test_embedding_encoder_sums_its_columns() -> None:
    encoder = EmbeddingEncoder((3, 5), 8)
    x = torch.tensor([[0, 4], [2, 0]])
    table = encoder.table.weight
    torch.testing.assert_close(encoder(x), torch.stack([table[0] + table[3 + 4], table[2] + table[3]]))
    torch.testing.assert_close(encoder(x.to(torch.uint8)), encoder(x))
    assert EmbeddingEncoder((4,), 8)(torch.tensor([3, 0])).shape == (2, 8)


@pytest.mark.parametrize("value", [-1, 5])
def test_a_value_outside_its_vocabulary_is_named(value: int) -> None:
    with pytest.raises(GraphError, match=rf"column 1 holds {value} \(row 1\); allowed: 0..4"):
        EmbeddingEncoder((3, 5), 8)(torch.tensor([[0, 4], [2, value]]))


def test_wrong_kinds_of_features() -> None:
    with pytest.raises(DtypeError, match=r"int64.*\.float\(\)"):
        LinearEncoder(2, 8)(torch.zeros(3, 2, dtype=torch.long))
    with pytest.raises(DtypeError, match=r"float32.*\.long\(\)"):
        EmbeddingEncoder((2, 2), 8)(torch.zeros(3, 2))
    with pytest.raises(ArgumentError, match=r"shape \(3, 4\).*\[N, 2\]"):
        LinearEncoder(2, 8)(torch.zeros(3, 4))
    with pytest.raises(ArgumentError, match=r"shape \(3, 4\).*2 integer columns"):
        EmbeddingEncoder((2, 2), 8)(torch.zeros(3, 4, dtype=torch.long))
    with pytest.raises(DtypeError, match="convert the data"):
        LinearEncoder(2, 8)(torch.zeros(3, 2, dtype=torch.bfloat16))


@pytest.mark.parametrize("features", [0, (), (3, 0)])
def test_sizes_below_one_are_refused(features: int | tuple[int, ...]) -> None:
    with pytest.raises(ArgumentError, match="allowed: an integer >= 1"):
        feature_encoder(features, 8)


def test_degree_encoder_counts_simple_neighbours() -> None:
    edges = torch.tensor([[0, 1, 0, 1, 1, 2, 0], [1, 0, 1, 0, 2, 1, 0]])
    batch = Prepare([Degree()])(Data(edge_index=edges, num_nodes=4))
    encoder = DegreeEncoder(8, max_degree=1)
    torch.testing.assert_close(encoder(batch), encoder.table.weight[[1, 1, 1, 0]])


def test_no_features_at_all(make_graph: MakeGraph, make_model: MakeModel) -> None:
    graph = make_graph(9)
    del graph.x
    output = make_model(in_features=None, conv="GCN")(Batch.from_data_list([graph, graph]))
    torch.testing.assert_close(output[:9], output[9:])
    assert bool(output.isfinite().all())


@attrs.frozen
class Position(Structure):
    def compute(self, graph: Graph) -> dict[str, Tensor]:
        return {"place": torch.arange(2 * graph.num_nodes, dtype=torch.float32).view(-1, 2)}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_absolute_encodings_are_added(make_graph: MakeGraph, dtype: torch.dtype) -> None:
    graph = Prepare([Position(), Degree()])(make_graph(6, dtype=dtype))
    features, degree = LinearEncoder(5, 8), DegreeEncoder(8, 4)
    encoder = NodeEncoder(features, degree, [AbsoluteEncoding(Position(), "place", 2)], hidden=8).to(dtype)
    place = torch.arange(12, dtype=dtype).view(-1, 2)
    expected = features(graph.x) + degree(graph) + place @ encoder.projections[0].weight.T  # type: ignore[operator]
    torch.testing.assert_close(encoder(graph), expected)
    assert encoder.structures == (Degree(), Position())


def test_missing_features_are_named(make_graph: MakeGraph) -> None:
    graph = make_graph(4)
    del graph.x, graph.edge_attr
    with pytest.raises(GraphError, match=r"no node features \(x\).*in_features=None"):
        NodeEncoder(LinearEncoder(5, 8), None, hidden=8)(graph)
    with pytest.raises(GraphError, match=r"no edge features \(edge_attr\).*edge_features=None"):
        EdgeEncoder(LinearEncoder(3, 8, what="edge"))(graph)
    with pytest.raises(ArgumentError, match="neither features nor degree"):
        NodeEncoder(None, None, hidden=8)


def test_input_dropout_works_in_training_only(make_graph: MakeGraph) -> None:
    graph = make_graph(6)
    encoder = NodeEncoder(LinearEncoder(5, 8), None, hidden=8, dropout=0.5)
    assert not torch.equal(encoder(graph), encoder(graph))
    encoder.eval()
    assert torch.equal(encoder(graph), encoder(graph))
