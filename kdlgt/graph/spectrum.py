"""Extreme eigenpairs of the normalised Laplacian and of any symmetric operator, deterministic and per component."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any, Literal

import attrs
import numpy as np
import scipy.linalg
from numpy.typing import NDArray
from scipy.sparse import coo_array, csr_array, diags_array, eye_array
from scipy.sparse.csgraph import reverse_cuthill_mckee
from scipy.sparse.linalg import ArpackError, LinearOperator, aslinearoperator, eigsh, splu

from kdlgt.errors import ArgumentError, GraphError, require_at_least
from kdlgt.graph.graph import Graph

End = Literal["smallest", "largest"]
Floats = NDArray[np.float64]
Pairs = tuple[Floats, Floats]

CLUSTER_GAP = 1e-6
"""Neighbouring eigenvalues within this share of their magnitude are one cluster, kept whole or dropped whole ..."""

CLUSTER_FLOOR = 1e-13
"""... and so are those within this share of the operator's norm, which rounding leaves of equal ones."""

_LARGEST = 2.0
"""No eigenvalue of a normalised Laplacian is larger."""

DENSE_NODES = 600
"""Components up to this size are solved densely: exact, and faster than an iteration."""

DENSE_FALLBACK_NODES = 6000
"""Components up to this size are solved densely when no iteration converges."""


@attrs.frozen(eq=False)
class Spectrum:
    """Eigenpairs, zero-padded to the width asked for.

    Attributes:
        values: [m], in order from the end asked for; 0 in padded columns.
        vectors: [N, m], orthonormal columns; 0 in padded columns.
        error: for a truncated operator, the spectral norm of what is left out; NaN when it was not computed.
    """

    values: Floats
    vectors: Floats
    error: float = float("nan")


def normalised_laplacian(adjacency: csr_array) -> csr_array:
    """``L = I - D^-1/2 A D^-1/2`` with eigenvalues in [0, 2]; rows of isolated nodes are zero."""
    degree = np.asarray(adjacency.sum(axis=1), dtype=np.float64)
    scaling = np.where(degree > 0, 1.0 / np.sqrt(np.maximum(degree, 1.0)), 0.0)
    normalised = diags_array(scaling) @ adjacency.astype(np.float64) @ diags_array(scaling)
    return csr_array(diags_array((degree > 0).astype(np.float64)) - normalised)


def laplacian_spectrum(graph: Graph, count: int, end: End = "smallest") -> Spectrum:
    """The ``count`` extreme eigenpairs of the normalised Laplacian, its null vectors left out.

    Components are solved one by one, since a Lanczos iteration on the whole graph misses repeated zeros without an
    error. Each component has one null vector ``D^1/2 1``, which is dropped. A cluster of equal eigenvalues is never
    split: when not all of it fits into ``count`` it is dropped, since any part of it would depend on the order of the
    nodes.

    Args:
        graph: the graph.
        count: width m of the result.
        end: which end of the spectrum.

    Returns:
        Eigenpairs sorted from that end, zero-padded where the graph has fewer.

    Raises:
        ArgumentError: ``count`` is below 1.
        GraphError: no solver converged on a component.
    """
    require_at_least("count", count, 1)
    found = [
        (value, nodes, vector)
        for nodes, laplacian in _components(graph)
        for value, vector in _component_pairs(laplacian, count + 1, end)
    ]
    found.sort(key=lambda pair: pair[0] if end == "smallest" else -pair[0])
    keep = whole_clusters(np.array([value for value, _, _ in found]), count, norm=_LARGEST)
    values, vectors = np.zeros(count), np.zeros((graph.num_nodes, count))
    for column, (value, nodes, vector) in enumerate(found[:keep]):
        values[column] = value
        vectors[nodes, column] = vector
    return Spectrum(values, vectors)


def whole_clusters(ordered: Floats, count: int, norm: float) -> int:
    """How many of the first ``count`` ordered eigenvalues of an operator can be kept without splitting a cluster."""
    keep = min(count, len(ordered))
    while 0 < keep < len(ordered) and _equal(ordered[keep], ordered[keep - 1], norm):
        keep -= 1
    return keep


def _equal(value: float, other: float, norm: float) -> bool:
    return abs(value - other) < CLUSTER_GAP * max(abs(value), abs(other)) + CLUSTER_FLOOR * norm


def _components(graph: Graph) -> Iterator[tuple[NDArray[np.int64], csr_array]]:
    """Nodes and Laplacian of every component of two or more nodes."""
    order = np.argsort(graph.component, kind="stable")
    ends = np.cumsum(np.bincount(graph.component, minlength=graph.num_components))
    laplacian = normalised_laplacian(graph.adjacency)
    if graph.num_components > 1:
        laplacian = laplacian[order][:, order]
    for start, end in itertools.pairwise([0, *ends.tolist()]):
        if end - start > 1:
            whole = end - start == graph.num_nodes
            yield order[start:end], laplacian if whole else laplacian[start:end, start:end]


def _component_pairs(laplacian: csr_array, count: int, end: End) -> Iterator[tuple[float, Floats]]:
    """Eigenpairs of one connected component from one end, without its null vector."""
    nodes = laplacian.shape[0]
    values, vectors = _extreme(laplacian, min(count + 1, nodes), end)
    if end == "smallest":
        values, vectors = values[1:], vectors[:, 1:]
    elif len(values) == nodes:
        values, vectors = values[:-1], vectors[:, :-1]
    yield from zip(values.tolist(), vectors.T, strict=True)


def _extreme(laplacian: csr_array, count: int, end: End) -> Pairs:
    """Extreme eigenpairs of a connected component, sorted from that end."""
    nodes = laplacian.shape[0]
    if nodes <= DENSE_NODES or count >= nodes // 2:
        return _dense(laplacian, count, end)
    for solve in _solvers(laplacian):
        try:
            values, vectors = solve(laplacian, count, end)
        except (ArpackError, RuntimeError, MemoryError):
            continue
        order = np.argsort(values if end == "smallest" else -values, kind="stable")
        return values[order], vectors[:, order]
    if nodes <= DENSE_FALLBACK_NODES:
        return _dense(laplacian, count, end)
    raise GraphError(
        f"no eigensolver converged on a component of {nodes} nodes for {count} eigenpairs; ask for fewer, or take "
        "another encoding"
    )


def _dense(laplacian: csr_array, count: int, end: End) -> Pairs:
    nodes = laplacian.shape[0]
    window = (0, count - 1) if end == "smallest" else (nodes - count, nodes - 1)
    values, vectors = scipy.linalg.eigh(laplacian.toarray(), subset_by_index=window)
    return (values, vectors) if end == "smallest" else (values[::-1], vectors[:, ::-1])


Solver = Callable[[csr_array, int, End], Pairs]


def _solvers(laplacian: csr_array) -> tuple[Solver, ...]:
    """Solvers in the order to try: factorising pays on meshes, paths and trees and fills up on random graphs."""
    return (_shift_invert, _lanczos, _patient) if factorises_cheaply(laplacian) else (_lanczos, _patient)


def factorises_cheaply(matrix: csr_array) -> bool:
    """Whether a sparse factorisation of a connected graph's matrix stays sparse: a narrow band, or nearly a tree."""
    nodes = matrix.shape[0]
    edges = (matrix.nnz - nodes) // 2
    if edges < 1.05 * nodes:
        return True
    position = np.empty(nodes, dtype=np.int64)
    position[reverse_cuthill_mckee(matrix, symmetric_mode=True)] = np.arange(nodes)
    entries = coo_array(matrix)
    band = np.abs(position[entries.coords[0]] - position[entries.coords[1]]).max(initial=0)
    return bool(band <= 8 * np.sqrt(nodes))


def _start(nodes: int) -> Floats:
    """A fixed start vector: the same result on every run."""
    return np.random.default_rng(0).standard_normal(nodes)


def _shift_invert(laplacian: csr_array, count: int, end: End) -> Pairs:
    """Lanczos on ``(L - s I)^-1`` with s just outside the spectrum, where ``L - s I`` is regular."""
    nodes = laplacian.shape[0]
    distance = min(1e-4, 1.0 / nodes**1.5)  # of the order of the gaps in a mesh, so that few steps tell them apart
    shift = -distance if end == "smallest" else _LARGEST + distance
    shifted = (laplacian - shift * eye_array(nodes)).tocsc()
    factor = splu(shifted, permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options={"SymmetricMode": True})
    inverse = LinearOperator((nodes, nodes), matvec=factor.solve, dtype=np.dtype(np.float64))
    subspace = min(nodes, max(4 * count, 40))
    return eigsh(laplacian, count, sigma=shift, OPinv=inverse, v0=_start(nodes), ncv=subspace, maxiter=300)


def _lanczos(laplacian: csr_array, count: int, end: End) -> Pairs:
    return _iterate(laplacian, count, end, subspace=max(4 * count, 64), restarts=300)


def _patient(laplacian: csr_array, count: int, end: End) -> Pairs:
    return _iterate(laplacian, count, end, subspace=max(10 * count, 200), restarts=1000)


def _iterate(laplacian: csr_array, count: int, end: End, *, subspace: int, restarts: int) -> Pairs:
    """Lanczos on ``I - L``, whose largest eigenvalues are the smallest of L."""
    nodes = laplacian.shape[0]
    which: Literal["LA", "SA"] = "LA" if end == "smallest" else "SA"
    shifted = csr_array(eye_array(nodes) - laplacian)
    values, vectors = eigsh(
        shifted, count, which=which, v0=_start(nodes), ncv=min(nodes, subspace), maxiter=restarts, tol=1e-9
    )
    return 1.0 - values, vectors


def truncated_eigen(operator: Any, rank: int) -> Spectrum:
    """The best rank-m approximation of a symmetric matrix, ``B_m = U diag(l) U^T``, with its spectral error.

    By Eckart and Young ``|B - B_m|_2 = |l_(m+1)|``, the largest eigenvalue magnitude left out. Clusters of equal
    magnitude are never split.

    Args:
        operator: [N, N] symmetric: an array, a sparse array, or a ``scipy.sparse.linalg.LinearOperator``.
        rank: m; the result is zero-padded when N < m.

    Returns:
        Eigenpairs by falling magnitude, and the error.

    Raises:
        ArgumentError: the operator is not square, or a given matrix is not symmetric or not finite.
        GraphError: the iteration did not converge.
    """
    require_at_least("rank", rank, 1)
    nodes = _square(operator)
    values, vectors = _largest_magnitude(operator, nodes, min(rank + 1, nodes))
    order = np.argsort(-np.abs(values), kind="stable")
    magnitudes = np.abs(values)[order]
    keep = whole_clusters(magnitudes, rank, norm=float(magnitudes[0]))
    kept_values, kept_vectors = np.zeros(rank), np.zeros((nodes, rank))
    kept_values[:keep] = values[order[:keep]]
    kept_vectors[:, :keep] = vectors[:, order[:keep]]
    return Spectrum(kept_values, kept_vectors, float(magnitudes[keep]) if keep < len(magnitudes) else 0.0)


def _square(operator: Any) -> int:
    shape = operator.shape
    if len(shape) != 2 or shape[0] != shape[1]:
        raise ArgumentError(f"the operator has shape {tuple(shape)}; expected a square [N, N]")
    if not isinstance(operator, LinearOperator):
        deviation = abs(operator - operator.T).max() if shape[0] else 0.0
        if not deviation <= 1e-8 * max(1.0, float(abs(operator).max())):
            raise ArgumentError(
                f"the matrix is not symmetric or not finite (largest |B - B^T| = {deviation:g}); give (B + B.T) / 2"
            )
    return int(shape[0])


def _largest_magnitude(operator: Any, nodes: int, count: int) -> Pairs:
    linear = aslinearoperator(operator)
    if nodes <= DENSE_NODES or count >= nodes // 2:
        values, vectors = scipy.linalg.eigh(linear @ np.eye(nodes))
        order = np.argsort(-np.abs(values), kind="stable")[:count]
        return values[order], vectors[:, order]
    for subspace in (max(4 * count, 64), max(10 * count, 200)):
        try:
            return eigsh(linear, count, which="LM", v0=_start(nodes), ncv=min(nodes, subspace), maxiter=500)
        except ArpackError:
            continue
    raise GraphError(
        f"no eigensolver converged on an operator of {nodes} nodes for {count} eigenpairs; ask for a smaller rank"
    )
