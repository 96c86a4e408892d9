"""The local branch: every convolution in the table, isolated, with and without edge states."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch_geometric.data import Batch, Data

from kdlgt.errors import ArgumentError, GraphError, UnknownNameError
from kdlgt.model import CONVS, GraphTransformer, LocalBranch, takes_edges

MakeGraph = Callable[..., Data]
MakeModel = Callable[..., GraphTransformer]


@pytest.mark.parametrize("name", sorted(CONVS))
def test_every_convolution_keeps_graphs_apart(name: str, make_graph: MakeGraph) -> None:
    edges = 8 if CONVS[name].edges == "required" else None
    branch = LocalBranch(name, 8, heads=2, edge_channels=edges).eval()

    def run(graph: Data) -> torch.Tensor:
        x = graph.x[:, :1].expand(-1, 8) * torch.linspace(-1, 1, 8)
        states: torch.Tensor = branch(x, graph.edge_index, graph.edge_attr[:, :1].expand(-1, 8) if edges else None)
        return states

    graphs = [make_graph(5, 1), make_graph(60, 2), make_graph(1, edges=0)]
    together = run(Batch.from_data_list(graphs))
    assert together.shape == (66, 8)
    torch.testing.assert_close(together, torch.cat([run(graph) for graph in graphs]), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", [name for name in sorted(CONVS) if takes_edges(name)])
def test_edge_states_are_read(name: str, make_graph: MakeGraph) -> None:
    graph = make_graph(12)
    branch = LocalBranch(name, 8, edge_channels=8).eval()
    x, edges = torch.randn(12, 8), torch.randn(graph.num_edges, 8)
    assert branch.takes_edges
    assert (branch(x, graph.edge_index, edges) - branch(x, graph.edge_index, -edges)).abs().max() > 1e-4


def test_unknown_convolution_has_a_suggestion() -> None:
    with pytest.raises(UnknownNameError, match=r"unknown convolution 'GCNN'; installed: ARMA, .*Did you mean 'GCN'\?"):
        LocalBranch("GCNN", 8)


def test_edge_states_where_they_do_not_fit() -> None:
    with pytest.raises(ArgumentError, match=r"GINE needs edge features.*GIN"):
        LocalBranch("GINE", 8)
    with pytest.raises(ArgumentError, match=r"GCN takes no edge features.*GINE"):
        LocalBranch("GCN", 8, edge_channels=8)


@pytest.mark.parametrize("heads", [3, 0])
def test_heads_must_divide_channels(heads: int) -> None:
    with pytest.raises(ArgumentError, match=f"channels = 8 is not a multiple of heads = {heads}"):
        LocalBranch("GAT", 8, heads=heads)


def test_pna_takes_its_degree_histogram() -> None:
    x, edges = torch.randn(3, 8), torch.tensor([[0, 1], [1, 0]])
    outputs = []
    for histogram in (None, torch.tensor([0, 0, 0, 0, 1]), torch.tensor([0, 9, 1])):
        torch.manual_seed(0)
        outputs.append(LocalBranch("PNA", 8, degree_histogram=histogram)(x, edges))
    assert torch.equal(outputs[0], outputs[1])
    assert not torch.allclose(outputs[0], outputs[2])


@pytest.mark.parametrize("edge_index", [None, torch.zeros(2, 3)])
def test_edge_index_must_hold_integers(edge_index: torch.Tensor | None) -> None:
    with pytest.raises(GraphError, match=r"edge_index .* needs integers \[2, E\]"):
        LocalBranch("GCN", 8)(torch.zeros(3, 8), edge_index)


@pytest.mark.parametrize("conv", ["GINE", "GatedGCN", "PNA"])
def test_model_with_edge_features(conv: str, make_graph: MakeGraph, make_model: MakeModel) -> None:
    graph = make_graph(10)
    model = make_model("sum", conv=conv, edge_features=3)
    first = model(graph)
    graph.edge_attr = -graph.edge_attr
    assert (model(graph) - first).abs().max() > 1e-4


def test_model_with_integer_edge_features(make_graph: MakeGraph, make_model: MakeModel) -> None:
    graph = make_graph(10)
    graph.edge_attr = torch.arange(graph.num_edges) % 4
    assert make_model(conv="GINE", edge_features=(4,))(graph).shape == (10, 3)
    graph.edge_attr = graph.edge_attr + 1
    with pytest.raises(GraphError, match=r"edge feature column 0 holds 4"):
        make_model(conv="GINE", edge_features=(4,))(graph)


@pytest.mark.parametrize("columns", [(21,), (119, 4, 12)])
def test_model_with_integer_node_features(
    columns: tuple[int, ...], make_graph: MakeGraph, make_model: MakeModel
) -> None:
    graph = make_graph(10)
    graph.x = torch.stack([torch.arange(10) % size for size in columns], dim=1)
    assert make_model("sum", in_features=columns)(graph).shape == (10, 3)


def test_without_attention_it_is_a_plain_gnn(make_graph: MakeGraph, make_model: MakeModel) -> None:
    graph = make_graph(1)
    far = Data(x=torch.cat([graph.x, torch.randn(2, 5)]), edge_index=torch.tensor([[1, 2], [2, 1]]))
    model = make_model(conv="GCN", attend=False)
    assert model.attention_blocks == ()
    torch.testing.assert_close(model(far)[:1], model(graph))
