"""What SAT's extractors read of a graph: its edges, and the k-hop ego graph of every node."""

from __future__ import annotations

import attrs
import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import csr_array
from torch import Tensor

from kdlgt.graph import Graph, Structure

Integers = NDArray[np.int64]


@attrs.frozen
class SimpleEdges(Structure):
    """Both directions of every edge, without self-loops and duplicates."""

    def compute(self, graph: Graph) -> dict[str, Tensor]:
        """``arc_index`` [2, E]."""
        return {"arc_index": torch.from_numpy(np.stack(_arcs(graph.adjacency)))}


@attrs.frozen
class EgoGraphs(Structure):
    """The subgraph induced by the nodes within ``hops`` of each node.

    Memory is O(sum of the balls' edges): for small ``hops`` and bounded degrees.
    """

    hops: int

    def compute(self, graph: Graph) -> dict[str, Tensor]:
        """Node numbers only, so that PyG's batching shifts them right; positions of copies are found by searching.

        Returns:
            ``member_index`` [2, P]: (center, member), sorted; each pair is one copy of a node.
            ``member_arc_index`` [3, Q]: (center, source, target) of every edge of an ego graph.
        """
        center, member = _balls(graph.adjacency, self.hops)
        owner, source, target = _induced_arcs(graph.adjacency, center, member)
        return {
            "member_index": torch.from_numpy(np.stack([center, member])),
            "member_arc_index": torch.from_numpy(np.stack([owner, source, target])),
        }


def _arcs(adjacency: csr_array) -> tuple[Integers, Integers]:
    """Row and column of every entry, sorted."""
    source = np.repeat(np.arange(adjacency.shape[0]), np.diff(adjacency.indptr))
    return source.astype(np.int64), adjacency.indices.astype(np.int64)


def _balls(adjacency: csr_array, hops: int) -> tuple[Integers, Integers]:
    """(center, member) of all pairs within ``hops``, sorted by center and member."""
    nodes = adjacency.shape[0]
    loops = np.arange(nodes + 1)
    reach = csr_array((np.ones(nodes, dtype=np.float32), loops[:-1], loops), shape=(nodes, nodes))
    step = csr_array(adjacency + reach)
    for _ in range(hops):
        reach = csr_array(reach @ step)
        reach.data[:] = 1.0
    reach.sort_indices()
    return _arcs(reach)


def _induced_arcs(adjacency: csr_array, center: Integers, member: Integers) -> tuple[Integers, Integers, Integers]:
    """(center, source, target) of all edges whose two ends lie in the center's ball."""
    nodes = adjacency.shape[0]
    degree = np.diff(adjacency.indptr)[member].astype(np.int64)
    first = np.repeat(adjacency.indptr[member].astype(np.int64) - (degree.cumsum() - degree), degree)
    target = adjacency.indices[first + np.arange(first.size)].astype(np.int64)
    owner, source = np.repeat(center, degree), np.repeat(member, degree)
    copies, wanted = center * nodes + member, owner * nodes + target
    position = np.searchsorted(copies, wanted).clip(max=copies.size - 1)
    inside = copies[position] == wanted
    return owner[inside], source[inside], target[inside]
