from __future__ import annotations

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import given, settings
from torch_geometric.data import Data
from torch_geometric.utils import contains_self_loops, degree, is_undirected

from kdlgt.errors import ArgumentError
from kdlgt.graph import Graph, generate


def assert_simple(data: Data, nodes: int) -> None:
    edges = data.edge_index
    assert data.num_nodes == nodes
    assert edges.unique(dim=1).size(1) == edges.size(1)
    assert not contains_self_loops(edges)
    assert is_undirected(edges, num_nodes=nodes)


@settings(deadline=None, max_examples=150)
@given(st.integers(1, 40), st.data(), st.integers(0, 10_000))
def test_random_regular_is_simple_and_regular(n: int, data: st.DataObject, seed: int) -> None:
    d = data.draw(st.integers(0, n - 1).filter(lambda d: n * d % 2 == 0))
    graph = generate.random_regular(n, d, seed)
    assert_simple(graph, n)
    assert (degree(graph.edge_index[0], n) == d).all()


def test_random_regular_is_seeded() -> None:
    one, same, other = (generate.random_regular(500, 6, seed).edge_index for seed in (1, 1, 2))
    assert torch.equal(one, same)
    assert not torch.equal(one, other)


def test_random_regular_of_a_million_stubs() -> None:
    graph = generate.random_regular(2**18, 6, seed=0)
    assert_simple(graph, 2**18)
    assert (degree(graph.edge_index[0], 2**18) == 6).all()
    assert Graph.from_data(graph).num_components == 1


@pytest.mark.parametrize(("n", "d"), [(5, 3), (4, 4), (0, 0), (3, -1)])
def test_impossible_regular_graphs_are_refused(n: int, d: int) -> None:
    with pytest.raises(ArgumentError, match=r"n|degree"):
        generate.random_regular(n, d, seed=0)


@pytest.mark.parametrize(
    ("data", "nodes", "edges"),
    [
        (generate.grid(3, 5), 15, 22),
        (generate.path(7), 7, 6),
        (generate.path(1), 1, 0),
        (generate.cycle(5), 5, 5),
        (generate.star(9), 9, 8),
        (generate.clique(6), 6, 15),
        (generate.barabasi_albert(200, 3, seed=4), 200, 3 + 3 * 196),
    ],
    ids=["grid", "path", "point", "cycle", "star", "clique", "barabasi-albert"],
)
def test_counts(data: Data, nodes: int, edges: int) -> None:
    assert_simple(data, nodes)
    assert data.edge_index.size(1) == 2 * edges


def test_grid_joins_neighbours_in_rows_and_columns() -> None:
    row, col = generate.grid(2, 3).edge_index
    assert sorted({(int(a), int(b)) for a, b in zip(row, col, strict=True) if a < b}) == [
        (0, 1), (0, 3), (1, 2), (1, 4), (2, 5), (3, 4), (4, 5),
    ]  # fmt: skip


def test_barabasi_albert_prefers_high_degrees_and_is_seeded() -> None:
    one, same = (generate.barabasi_albert(3000, 2, seed=7).edge_index for _ in range(2))
    assert torch.equal(one, same)
    degrees = degree(one[0], 3000)
    assert degrees.min() >= 1
    assert degrees.max() > 10 * degrees.mean()
