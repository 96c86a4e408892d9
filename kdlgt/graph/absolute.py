"""Absolute encodings: a vector per node, added to its state."""

from __future__ import annotations

import attrs
import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import csr_array, diags_array
from torch import Tensor

from kdlgt.errors import require_at_least
from kdlgt.graph.graph import Graph
from kdlgt.graph.spectrum import End, laplacian_spectrum
from kdlgt.graph.structure import Structure

ROW_BLOCK = 4096
"""Rows of a walk matrix that are held at a time."""


@attrs.frozen
class LaplacianEigenvectors(Structure):
    """Extreme eigenvectors of the normalised Laplacian, times ``sqrt(N)``: field ``encoding`` [N, width] float32.

    Null vectors are left out, clusters of equal eigenvalues are never split, and columns that a graph does not have are
    zero. Signs: the sum of cubes is positive, which does not depend on the order of the nodes. Where it vanishes, and
    within a cluster, the choice of vectors is arbitrary, as it must be, and deterministic.
    """

    width: int
    end: End = "smallest"

    def __attrs_post_init__(self) -> None:
        require_at_least("width", self.width, 1)

    def compute(self, graph: Graph) -> dict[str, Tensor]:
        """Solve per component; see :func:`~kdlgt.graph.spectrum.laplacian_spectrum`."""
        vectors = laplacian_spectrum(graph, self.width, self.end).vectors
        signs = np.where((vectors**3).sum(axis=0) < 0, -1.0, 1.0)
        encoding = vectors * signs * np.sqrt(graph.num_nodes)
        return {"encoding": torch.from_numpy(encoding.astype(np.float32))}


@attrs.frozen
class ReturnProbabilities(Structure):
    """``(P^l)_ii`` for l = 1..width, ``P = D^-1 A``: field ``encoding`` [N, width] float32.

    A walk from a node without neighbours stays, so its probabilities are 1. Exact: the diagonal of ``P^l`` equals that
    of ``M^l`` with the symmetric ``M = D^-1/2 A D^-1/2``, and its entries are inner products of rows of ``M^(l/2)``. So
    only balls of radius width / 2 are visited: linear on meshes, up to O(N^2) time (never memory) on random graphs.
    """

    width: int

    def __attrs_post_init__(self) -> None:
        require_at_least("width", self.width, 1)

    def compute(self, graph: Graph) -> dict[str, Tensor]:
        """Rows of the powers, block by block."""
        step = _symmetric_walk(graph)
        starts = range(0, graph.num_nodes, ROW_BLOCK)
        blocks = [self._rows(step, np.arange(start, min(start + ROW_BLOCK, graph.num_nodes))) for start in starts]
        return {"encoding": torch.from_numpy(np.concatenate(blocks).astype(np.float32))}

    def _rows(self, step: csr_array, rows: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return probabilities of some nodes: ``(M^(a+b))_ii = (M^a)_i . (M^b)_i`` with b = a or a + 1."""
        ones = np.ones(len(rows))
        power = csr_array((ones, (np.arange(len(rows)), rows)), shape=(len(rows), step.shape[0]))
        columns: list[NDArray[np.float64]] = []
        while len(columns) < self.width:
            following = csr_array(power @ step)
            columns.append(np.asarray((power * following).sum(axis=1)))
            columns.append(np.asarray((following * following).sum(axis=1)))
            power = following
        return np.stack(columns[: self.width], axis=1)


def _symmetric_walk(graph: Graph) -> csr_array:
    """``D^-1/2 A D^-1/2`` with 1 on the diagonal of nodes without neighbours."""
    root = 1.0 / np.sqrt(np.maximum(graph.degree, 1))
    alone = (graph.degree == 0).astype(np.float64)
    normalised = diags_array(root) @ graph.adjacency.astype(np.float64) @ diags_array(root)
    return csr_array(normalised + diags_array(alone))
