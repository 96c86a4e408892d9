"""Eigenpairs: against a dense solver, whole clusters, components, and what happens when a solver fails."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from scipy.sparse import csr_array
from scipy.sparse.linalg import ArpackNoConvergence, aslinearoperator
from torch_geometric.data import Data

from kdlgt.errors import ArgumentError, GraphError
from kdlgt.graph import Graph, spectrum
from kdlgt.graph.generate import barabasi_albert, clique, cycle, grid, path, random_regular, star
from kdlgt.graph.spectrum import (
    End,
    Spectrum,
    factorises_cheaply,
    laplacian_spectrum,
    normalised_laplacian,
    truncated_eigen,
)

SPARSE = {
    "grid": grid(30, 31),
    "square grid, double eigenvalues": grid(30, 30),
    "path": path(900),
    "cycle, double eigenvalues": cycle(900),
    "regular": random_regular(900, 6, 0),
    "barabasi-albert": barabasi_albert(900, 3, 0),
}


def _union(*graphs: Data) -> Data:
    edges, nodes = [], 0
    for graph in graphs:
        edges.append(graph.edge_index + nodes)
        nodes += int(graph.num_nodes or 0)
    return Data(edge_index=torch.cat(edges, dim=1), num_nodes=nodes)


def _alone(nodes: int) -> Data:
    return Data(edge_index=torch.empty(2, 0, dtype=torch.long), num_nodes=nodes)


def _projected(found: Spectrum) -> Any:
    return (found.vectors * found.values) @ found.vectors.T


@pytest.mark.parametrize("end", ["smallest", "largest"])
@pytest.mark.parametrize("name", SPARSE)
def test_sparse_solvers_agree_with_the_dense_one(name: str, end: End, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = Graph.from_data(SPARSE[name])
    found = laplacian_spectrum(graph, 9, end)
    monkeypatch.setattr(spectrum, "DENSE_NODES", 10_000)
    dense = laplacian_spectrum(graph, 9, end)
    np.testing.assert_allclose(found.values, dense.values, atol=1e-9)
    np.testing.assert_allclose(_projected(found), _projected(dense), atol=1e-7)


@pytest.mark.parametrize(("name", "cheap"), [("grid", True), ("path", True), ("regular", False)])
def test_factorising_is_chosen_where_it_stays_sparse(name: str, cheap: bool) -> None:
    assert factorises_cheaply(normalised_laplacian(Graph.from_data(SPARSE[name]).adjacency)) is cheap


def test_a_star_is_a_tree_and_factorises_cheaply() -> None:
    assert factorises_cheaply(normalised_laplacian(Graph.from_data(star(1000)).adjacency))


def test_each_component_loses_its_null_vector_and_nothing_else() -> None:
    graph = Graph.from_data(_union(path(3), _alone(4), cycle(700), path(2), path(3)))
    found = laplacian_spectrum(graph, 5)
    assert (found.values[:4] > 1e-6).all()
    laplacian = normalised_laplacian(graph.adjacency)
    np.testing.assert_allclose(laplacian @ found.vectors, found.vectors * found.values, atol=1e-9)
    assert np.count_nonzero(found.values) == 4, "a double eigenvalue of the cycle crosses the border, and drops whole"


def test_equal_components_share_clusters_that_are_kept_or_dropped_whole() -> None:
    graph = Graph.from_data(_union(path(4), path(4), path(4)))
    assert np.count_nonzero(laplacian_spectrum(graph, 2).values) == 0
    assert np.count_nonzero(laplacian_spectrum(graph, 3).values) == 3
    assert np.count_nonzero(laplacian_spectrum(graph, 5).values) == 3


@pytest.mark.parametrize("nodes", [5_000, 50_000])
def test_small_gaps_of_a_long_path_are_no_cluster(nodes: int) -> None:
    """Eigenvalues ``1 - cos(pi k / (N - 1))`` differ by far less than 1e-6, and are all different."""
    spectrum = laplacian_spectrum(Graph.from_data(path(nodes)), 6)
    expected = 2 * np.sin(np.pi * np.arange(1, 7) / (nodes - 1) / 2) ** 2
    np.testing.assert_allclose(spectrum.values, expected, rtol=1e-5)
    np.testing.assert_allclose(spectrum.vectors.T @ spectrum.vectors, np.eye(6), atol=1e-6)


@pytest.mark.parametrize("scale", [1e-9, 1e9])
def test_clusters_follow_the_scale_of_an_operator(scale: float) -> None:
    values = scale * np.array([5.0, 4.0, 3.0, 3.0, 1.0])
    assert np.count_nonzero(truncated_eigen(np.diag(values), 2).values) == 2
    assert np.count_nonzero(truncated_eigen(np.diag(values), 3).values) == 2
    assert np.count_nonzero(truncated_eigen(np.diag(values), 4).values) == 4


def test_a_clique_has_one_cluster() -> None:
    graph = Graph.from_data(clique(6))
    assert not laplacian_spectrum(graph, 4).values.any()
    np.testing.assert_allclose(laplacian_spectrum(graph, 5).values, 6 / 5)


@pytest.mark.parametrize(("data", "count"), [(_alone(1), 3), (_alone(6), 2), (path(3), 4), (path(100), 100)])
@pytest.mark.parametrize("end", ["smallest", "largest"])
def test_the_width_is_as_asked_and_padding_is_zero(data: Data, count: int, end: End) -> None:
    found = laplacian_spectrum(Graph.from_data(data), count, end)
    assert found.vectors.shape == (data.num_nodes, count)
    assert np.isfinite(found.vectors).all()
    real = np.count_nonzero(found.values)
    assert real == max(int(data.num_nodes or 0) - 1 if data.edge_index.numel() else 0, 0)
    assert not found.vectors[:, real:].any()


def test_twice_is_identical() -> None:
    graph = Graph.from_data(path(1400))
    np.testing.assert_array_equal(laplacian_spectrum(graph, 8).vectors, laplacian_spectrum(graph, 8).vectors)


def test_another_solver_takes_over_when_one_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = Graph.from_data(SPARSE["grid"])
    expected = laplacian_spectrum(graph, 4).values

    def fails(laplacian: csr_array, count: int, end: End) -> Any:
        raise ArpackNoConvergence("no convergence", np.empty(0), np.empty((0, 0)))

    monkeypatch.setattr(spectrum, "_shift_invert", fails)
    np.testing.assert_allclose(laplacian_spectrum(graph, 4).values, expected, atol=1e-9)
    monkeypatch.setattr(spectrum, "_solvers", lambda laplacian: (fails,))
    np.testing.assert_allclose(laplacian_spectrum(graph, 4).values, expected, atol=1e-9)
    monkeypatch.setattr(spectrum, "DENSE_FALLBACK_NODES", 0)
    with pytest.raises(GraphError, match="no eigensolver converged"):
        laplacian_spectrum(graph, 4)


def test_count_must_be_positive() -> None:
    with pytest.raises(ArgumentError, match="count = 0"):
        laplacian_spectrum(Graph.from_data(path(3)), 0)


@pytest.mark.parametrize("kind", ["dense", "sparse", "operator"])
@pytest.mark.parametrize("nodes", [40, 700])
def test_truncation_states_its_spectral_error(kind: str, nodes: int) -> None:
    generator = np.random.default_rng(0)
    basis = np.linalg.qr(generator.standard_normal((nodes, nodes)))[0]
    matrix = (basis * (0.9 ** np.arange(nodes) * np.where(np.arange(nodes) % 2, -1, 1))) @ basis.T
    matrix = (matrix + matrix.T) / 2
    given = {"dense": matrix, "sparse": csr_array(matrix), "operator": aslinearoperator(matrix)}[kind]
    found = truncated_eigen(given, 6)
    assert found.error == pytest.approx(0.9**6, rel=1e-6)
    assert np.linalg.norm(matrix - _projected(found), 2) == pytest.approx(found.error, rel=1e-6)


def test_truncation_keeps_plus_and_minus_together() -> None:
    found = truncated_eigen(np.diag([3.0, 2.0, -2.0, 1.0]), 2)
    np.testing.assert_allclose(found.values, [3.0, 0.0])
    assert found.error == pytest.approx(2.0)


def test_full_rank_has_no_error() -> None:
    assert truncated_eigen(np.diag([3.0, 2.0]), 4).error == 0.0


@pytest.mark.parametrize(
    ("matrix", "message"),
    [
        (np.ones((2, 3)), "square"),
        (np.array([[0.0, 1.0], [0.0, 0.0]]), "not symmetric"),
        (np.full((2, 2), np.nan), "finite"),
    ],
)
def test_what_is_no_symmetric_matrix_is_refused(matrix: Any, message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        truncated_eigen(matrix, 1)
