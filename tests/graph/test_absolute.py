"""Absolute encodings: always the width asked for, deterministic, and equal to dense linear algebra."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

from kdlgt.errors import ArgumentError
from kdlgt.graph import Graph, absolute
from kdlgt.graph.absolute import LaplacianEigenvectors, ReturnProbabilities
from kdlgt.graph.generate import barabasi_albert, grid, path


def _alone(nodes: int) -> Data:
    return Data(edge_index=torch.empty(2, 0, dtype=torch.long), num_nodes=nodes)


def _encode(structure: LaplacianEigenvectors | ReturnProbabilities, data: Data) -> torch.Tensor:
    return structure.compute(Graph.from_data(data))["encoding"]


@pytest.mark.parametrize(("data", "width"), [(_alone(1), 4), (_alone(6), 4), (path(3), 4), (path(100), 100)])
@pytest.mark.parametrize("kind", [LaplacianEigenvectors, ReturnProbabilities])
def test_small_graphs_give_the_width_asked_for(
    data: Data, width: int, kind: type[LaplacianEigenvectors] | type[ReturnProbabilities]
) -> None:
    encoding = _encode(kind(width), data)
    assert encoding.shape == (data.num_nodes, width)
    assert torch.isfinite(encoding).all()


def test_eigenvectors_are_identical_twice() -> None:
    first, second = (_encode(LaplacianEigenvectors(8), path(400)) for _ in range(2))
    assert torch.equal(first, second)


def test_eigenvectors_follow_a_relabelling_signs_included() -> None:
    data = barabasi_albert(60, 2, 0)
    order = torch.randperm(60, generator=torch.Generator().manual_seed(0))
    position = torch.empty_like(order)
    position[order] = torch.arange(60)
    relabelled = Data(edge_index=position[data.edge_index], num_nodes=60)
    structure = LaplacianEigenvectors(6)
    torch.testing.assert_close(_encode(structure, relabelled), _encode(structure, data)[order], rtol=1e-4, atol=1e-4)


def test_eigenvectors_have_unit_mean_square() -> None:
    encoding = _encode(LaplacianEigenvectors(3), path(50))
    torch.testing.assert_close(encoding.square().mean(0), torch.ones(3))


@pytest.mark.parametrize("width", [1, 2, 5, 8])
def test_return_probabilities_equal_dense_powers(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(absolute, "ROW_BLOCK", 7)
    data = grid(4, 5)
    dense = Graph.from_data(data).adjacency.toarray()
    step = dense / dense.sum(1, keepdims=True)
    expected = np.stack([np.diag(np.linalg.matrix_power(step, length)) for length in range(1, width + 1)], axis=1)
    np.testing.assert_allclose(_encode(ReturnProbabilities(width), data).numpy(), expected, atol=1e-6)


def test_a_walk_without_neighbours_stays() -> None:
    assert torch.equal(_encode(ReturnProbabilities(3), _alone(2)), torch.ones(2, 3))


@pytest.mark.parametrize("kind", [LaplacianEigenvectors, ReturnProbabilities])
def test_width_must_be_positive(kind: type[LaplacianEigenvectors] | type[ReturnProbabilities]) -> None:
    with pytest.raises(ArgumentError, match="width = 0"):
        kind(0)
