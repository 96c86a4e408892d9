"""Graphs and slow, obvious answers for the tests of graph search."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
import pytest
import torch
from hypothesis import strategies as st
from numpy.typing import NDArray
from torch_geometric.data import Data

from kdlgt.graph import Graph
from kdlgt.graph.kernels import numba_installed


def _make_graph(nodes: int, edges: Iterable[tuple[int, int]]) -> Graph:
    both = [pair for u, v in edges for pair in ((u, v), (v, u))]
    index = torch.tensor(both, dtype=torch.long).reshape(-1, 2).T
    return Graph.from_data(Data(edge_index=index, num_nodes=nodes))


@st.composite
def _graphs(draw: st.DrawFn, max_nodes: int = 24) -> Graph:
    nodes = draw(st.integers(1, max_nodes))
    most = draw(st.sampled_from([0, nodes // 2, nodes, 3 * nodes]))
    node = st.integers(0, nodes - 1)
    edges = draw(st.lists(st.tuples(node, node), max_size=most))
    trunk = draw(st.sampled_from(["none", "path", "star"]))
    if trunk != "none":
        edges += [(0 if trunk == "star" else i - 1, i) for i in range(1, nodes)]
    return _make_graph(nodes, edges)


def _relax(graph: Graph) -> NDArray[np.float64]:
    distance = np.where(graph.adjacency.toarray() > 0, 1.0, np.inf)
    np.fill_diagonal(distance, 0.0)
    for middle in range(graph.num_nodes):
        distance = np.minimum(distance, distance[:, middle, None] + distance[None, middle, :])
    return distance


@pytest.fixture(scope="session")
def make_graph() -> Callable[[int, Iterable[tuple[int, int]]], Graph]:
    """A graph from its number of nodes and its undirected edges."""
    return _make_graph


@pytest.fixture(scope="session")
def any_graph() -> st.SearchStrategy[Graph]:
    """Any small graph: sparse, dense, without edges, path- and star-like."""
    return _graphs()


@pytest.fixture(scope="session")
def all_pairs() -> Callable[[Graph], NDArray[np.float64]]:
    """Shortest path lengths [N, N] by repeated relaxation, inf where there is no path."""
    return _relax


@pytest.fixture(scope="session", params=["python", "scipy", "numba"])
def method(request: pytest.FixtureRequest) -> str:
    """Every way to search that is installed."""
    if request.param == "numba" and not numba_installed():
        pytest.skip("numba is not installed; the extra `fast` brings it")
    return str(request.param)
