"""SAT: both extractors against the node-by-node reference, isolation, and the scale of its factors."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor
from torch_geometric.data import Batch, Data
from torch_geometric.utils import k_hop_subgraph, to_undirected

from kdlgt.algebra import Multiplicative
from kdlgt.attention import exact_attention, linear_attention
from kdlgt.errors import ArgumentError, NotPreparedError, UnknownNameError
from kdlgt.features import FavorPlus
from kdlgt.graph import Graph, Prepare

pytestmark = pytest.mark.plugins
kdlgt_sat = pytest.importorskip("kdlgt_sat")

CHANNELS, HEADS = 8, 2
EXTRACTORS = ["k-subtree", "k-subgraph"]


def make_sat(**options: object) -> Any:
    torch.manual_seed(0)
    return kdlgt_sat.SAT(HEADS, CHANNELS, kdlgt_sat.SATOptions(**options))


def make_graph(sat: Any, nodes: int, seed: int = 0, edges: int | None = None) -> Data:
    draw = torch.Generator().manual_seed(seed)
    ends = torch.randint(nodes, (2, 2 * nodes if edges is None else edges), generator=draw)
    edge_index = to_undirected(ends, num_nodes=nodes)
    data = Data(x=torch.randn(nodes, CHANNELS, generator=draw), edge_index=edge_index)
    prepared: Data = Prepare(sat.structures)(data)
    return prepared


@pytest.mark.parametrize("normalise", [False, True])
@pytest.mark.parametrize("gnn", ["GIN", "GCN", "SAGE", "PNA", "GAT"])
@pytest.mark.parametrize("k", [1, 2, 3])
@pytest.mark.parametrize("extractor", EXTRACTORS)
def test_value_and_gradient_equal_the_reference(extractor: str, k: int, gnn: str, normalise: bool) -> None:
    sat = make_sat(extractor=extractor, k=k, gnn=gnn, width=3, normalise=normalise).double()
    data = make_graph(sat, 14)
    weight = torch.randn(HEADS, 14, 14, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    value = sat(data, data.x.double())
    assert isinstance(value, Multiplicative)
    expected = kdlgt_sat.reference(sat, data)
    torch.testing.assert_close(value.to_dense(), expected)
    parameters = list(sat.parameters())
    got = torch.autograd.grad((value.to_dense() * weight).sum(), parameters)
    torch.testing.assert_close(got, torch.autograd.grad((expected * weight).sum(), parameters))


def test_normalised_factors_bound_the_bias_by_the_temperature() -> None:
    sat = make_sat(normalise=True)
    with torch.no_grad():
        sat.log_temperature.copy_(torch.tensor([0.0, 1.5]))
        sat.query.weight.mul_(100)
    data = make_graph(sat, 20)
    largest = sat(data, data.x).to_dense().abs().amax((1, 2))
    assert bool((largest <= sat.log_temperature.exp() * 1.0001).all())
    assert bool((largest > 0.2 * sat.log_temperature.exp()).all())


@pytest.mark.parametrize("extractor", EXTRACTORS)
def test_batched_factors_equal_single_ones(extractor: str) -> None:
    sat = make_sat(extractor=extractor)
    graphs = [make_graph(sat, nodes, seed) for seed, nodes in enumerate([5, 60, 1, 9])]
    batch = Batch.from_data_list(graphs)
    together = sat(batch, batch.x)
    for field in ("query_factor", "key_factor"):
        alone = torch.cat([getattr(sat(graph, graph.x), field) for graph in graphs])
        torch.testing.assert_close(getattr(together, field), alone, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("extractor", EXTRACTORS)
def test_another_graph_does_not_move_values_or_gradients(extractor: str) -> None:
    sat, results = make_sat(extractor=extractor).train(), []
    graph = make_graph(sat, 6)
    for seed in (1, 2):
        batch = Batch.from_data_list([make_graph(sat, 30, seed), graph])
        value = sat(batch, batch.x)
        loss = value.query_factor[30:].square().sum() + value.key_factor[30:].square().sum()
        results.append((value.query_factor[30:].detach(), torch.autograd.grad(loss, list(sat.parameters()))))
    torch.testing.assert_close(results[0], results[1], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("extractor", EXTRACTORS)
@pytest.mark.parametrize(("nodes", "edges"), [(1, 0), (6, 0), (6, 2)])
def test_degenerate_graphs_are_finite(nodes: int, edges: int, extractor: str) -> None:
    sat = make_sat(extractor=extractor)
    data = make_graph(sat, nodes, edges=edges)
    dense = sat(data, data.x).to_dense()
    dense.sum().backward()
    assert dense.shape == (HEADS, nodes, nodes)
    assert all(bool(value.grad.isfinite().all()) for value in sat.parameters() if value.grad is not None)


@pytest.mark.parametrize("extractor", EXTRACTORS)
def test_relabelling_commutes_and_loops_and_copies_of_edges_do_not_count(extractor: str) -> None:
    sat = make_sat(extractor=extractor)
    data = make_graph(sat, 12)
    order = torch.randperm(12, generator=torch.Generator().manual_seed(3))
    edges = torch.argsort(order)[data.edge_index]
    loops = torch.arange(12).expand(2, -1)
    moved = Prepare(sat.structures)(Data(x=data.x[order], edge_index=torch.cat([edges, loops, edges], dim=1)))
    expected = sat(data, data.x).permute(order).to_dense()
    torch.testing.assert_close(sat(moved, moved.x).to_dense(), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("hops", [1, 2, 3])
def test_ego_graphs_are_the_induced_subgraphs(hops: int) -> None:
    data = make_graph(make_sat(), 15)
    fields = kdlgt_sat.EgoGraphs(hops).compute(Graph.from_data(data))
    simple = kdlgt_sat.SimpleEdges().compute(Graph.from_data(data))["arc_index"]
    center, member = fields["member_index"]
    owner, source, target = fields["member_arc_index"]
    for node in range(15):
        members, edges, _, _ = k_hop_subgraph(node, hops, simple, num_nodes=15)
        assert torch.equal(member[center == node], members)
        found = torch.stack([source[owner == node], target[owner == node]])
        assert set(map(tuple, found.T.tolist())) == set(map(tuple, edges.T.tolist()))
        assert found.size(1) == edges.size(1)


def test_the_two_extractors_see_different_things() -> None:
    subtree, subgraph = (make_sat(extractor=extractor, k=1) for extractor in EXTRACTORS)
    subgraph.load_state_dict(subtree.state_dict())
    data = Prepare([*subtree.structures, *subgraph.structures])(make_graph(subtree, 12))
    gap = (subtree(data, data.x).to_dense() - subgraph(data, data.x).to_dense()).abs().max()
    assert gap > 1e-3


@pytest.mark.parametrize("width", [1, 4, 9])
def test_logits_do_not_grow_with_degree_or_width(width: int) -> None:
    sat = make_sat(width=width)
    hub = torch.stack([torch.zeros(300, dtype=torch.long), torch.arange(1, 301)])
    data = Prepare(sat.structures)(Data(x=torch.randn(301, CHANNELS), edge_index=to_undirected(hub)))
    value = sat(data, data.x)
    assert value.rank == sat.factor_width == width
    assert value.to_dense().std() < 2


@pytest.mark.parametrize("extractor", EXTRACTORS)
def test_linear_attention_converges_to_exact(extractor: str) -> None:
    sat = make_sat(extractor=extractor)
    data = make_graph(sat, 20)
    q, k, v = torch.randn(3, 20, HEADS, 4, generator=torch.Generator().manual_seed(0)).unbind(0)
    q, k = q / 4, k / 4
    with torch.no_grad():
        bias = sat(data, data.x)

        def error(features: int) -> float:
            maps = [FavorPlus(8, features, HEADS, seed=seed) for seed in range(5)]
            exact = exact_attention(q, k, v, bias)
            outputs: list[Tensor] = [linear_attention(q, k, v, bias, features=one) for one in maps]
            return math.sqrt(sum(float((output - exact).square().mean()) for output in outputs))

        few, many = error(16), error(4096)
    assert many < few / 4, f"seeds 0..4: {few} at r=16, {many} at r=4096; the rate is r^-1/2, a factor of 16"


def test_sizes_follow_the_declaration() -> None:
    assert make_sat().factor_width == CHANNELS // HEADS
    assert make_sat(width=7).factor_width == 7
    assert make_sat().needs_states


def test_arguments_are_checked() -> None:
    with pytest.raises(ArgumentError, match="k = 0; allowed: an integer >= 1"):
        make_sat(k=0)
    with pytest.raises(ArgumentError, match="factor_width = 0"):
        make_sat(width=0)
    with pytest.raises(ArgumentError, match="extractor = 'tree'; allowed: 'k-subtree', 'k-subgraph'"):
        make_sat(extractor="tree")
    with pytest.raises(UnknownNameError, match=r"unknown convolution 'GIM'.*Did you mean 'GIN'\?"):
        make_sat(gnn="GIM")
    with pytest.raises(ArgumentError, match="GINE needs edge features"):
        make_sat(gnn="GINE")
    with pytest.raises(ArgumentError, match="heads = 0"):
        kdlgt_sat.SAT(0, CHANNELS, kdlgt_sat.SATOptions())


def test_states_and_structure_must_be_there() -> None:
    sat = make_sat()
    data = make_graph(sat, 5)
    with pytest.raises(ArgumentError, match=r"reads node states \[N, 8\] and got none"):
        sat(data)
    with pytest.raises(ArgumentError, match=r"got shape \(5, 3\)"):
        sat(data, torch.zeros(5, 3))
    with pytest.raises(NotPreparedError, match="SimpleEdges"):
        sat(Data(x=data.x, edge_index=data.edge_index), data.x)


def test_the_spec_declares_a_multiplicative_encoding() -> None:
    (spec,) = kdlgt_sat.kdlgt_rpes()
    assert (spec.name, spec.kind, spec.exactness, spec.symmetric) == ("sat", "multiplicative", "exact", False)
    assert spec.factory(HEADS, CHANNELS, spec.options()).heads == HEADS
