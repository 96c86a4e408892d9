"""Graphs for the tests of SAPD."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pytest
import torch
from torch_geometric.data import Data

from kdlgt.graph import Prepare
from kdlgt.rpe import RPE


def _make(nodes: int, edges: Iterable[tuple[int, int]]) -> Data:
    both = [pair for u, v in edges for pair in ((u, v), (v, u))]
    return Data(edge_index=torch.tensor(both, dtype=torch.long).reshape(-1, 2).T, num_nodes=nodes)


@pytest.fixture(scope="session")
def make() -> Callable[[int, Iterable[tuple[int, int]]], Data]:
    """A graph from its number of nodes and its undirected edges."""
    return _make


@pytest.fixture(scope="session")
def prepared() -> Callable[[RPE, Data], Data]:
    """A copy of a graph with what an encoding needs."""
    return lambda rpe, data: Prepare(rpe.structures)(data)


@pytest.fixture
def zoo() -> list[Data]:
    """One node; two nodes; no edges; three components; a tree; a cycle."""
    return [
        _make(1, []),
        _make(2, [(0, 1)]),
        _make(6, []),
        _make(6, [(0, 1), (1, 2), (4, 5)]),
        _make(9, [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (5, 6), (3, 7), (7, 8)]),
        _make(12, [(i, (i + 1) % 12) for i in range(12)]),
    ]
