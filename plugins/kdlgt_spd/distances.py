"""Shortest path distances as entries of a table, and the structures that hold them.

The table of an encoding with largest distance D has D + 3 entries: the distances 0..D, ``farther`` (a path longer than
D) at D + 1, ``unreachable`` (no path) at D + 2. No number stands for *no path*, so no real distance can reach it.
"""

from __future__ import annotations

import attrs
import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import dijkstra
from torch import Tensor
from torch_geometric.data import Data

from kdlgt.errors import GraphError, require_at_least
from kdlgt.graph import Graph, Structure, graph_ptr, read_structure
from kdlgt.graph.spectrum import truncated_eigen

LARGEST_DISTANCE = 250


def entry_count(max_distance: int) -> int:
    """Number of entries of the table, ``farther`` and ``unreachable`` included."""
    return max_distance + 3


def entries_of(hops: Tensor, max_distance: int) -> Tensor:
    """Table entries (int64) of distances, where -1 stands for no path and -2 for no landmark: one past the table."""
    entry = hops.long().clamp(max=max_distance + 1)
    return torch.where(hops >= 0, entry, max_distance + 1 - hops.long())


def all_entries(graph: Graph, max_distance: int) -> NDArray[np.uint8]:
    """Table entries of all pairs [N, N]."""
    hops = dijkstra(graph.adjacency, unweighted=True, limit=max_distance + 0.5)
    connected = graph.component[:, None] == graph.component[None, :]
    entries = np.where(np.isfinite(hops), hops, np.where(connected, max_distance + 1, max_distance + 2))
    return entries.astype(np.uint8)


def _require_distance(instance: Structure, attribute: attrs.Attribute[int], value: int) -> None:
    require_at_least("max_distance", value, 0, LARGEST_DISTANCE)


@attrs.frozen
class AllDistances(Structure):
    """Table entries of all pairs of a graph, for exact attention: field ``table`` [n^2] uint8, row-major.

    Graphs with more than ``limit`` nodes get an empty table, and :func:`pair_entries` computes theirs when it is asked.
    """

    max_distance: int = attrs.field(validator=_require_distance)
    limit: int = 256

    def compute(self, graph: Graph) -> dict[str, Tensor]:
        """All distances of one graph."""
        if graph.num_nodes > self.limit:
            return {"table": torch.empty(0, dtype=torch.uint8)}
        return {"table": torch.from_numpy(all_entries(graph, self.max_distance)).flatten()}


def pair_entries(batch: Data, structure: AllDistances, pairs: Tensor) -> Tensor:
    """Table entries [P] int64 of (query, key) pairs [2, P], all within graphs."""
    ptr = graph_ptr(batch).to(pairs.device)
    sizes = ptr.diff()
    table = _whole_table(batch, structure, sizes).to(pairs.device)
    graph = torch.searchsorted(ptr, pairs[0], right=True) - 1
    offset = (sizes**2).cumsum(0) - sizes**2
    query, key = pairs - ptr[graph]
    return table[offset[graph] + query * sizes[graph] + key].long()


def _whole_table(batch: Data, structure: AllDistances, sizes: Tensor) -> Tensor:
    """The prepared tables of all graphs, those of graphs above the limit computed now."""
    stored = read_structure(batch, structure, "table")
    large = sizes > structure.limit
    if not bool(large.any()):
        return stored
    whole = Graph.from_data(Data(edge_index=batch.edge_index, num_nodes=int(sizes.sum())), symmetrise=True)
    prepared = iter(stored.split((sizes[~large] ** 2).tolist()))
    tables, start = [], 0
    for size, computed in zip(sizes.tolist(), large.tolist(), strict=True):
        if computed:
            part = Graph(csr_array(whole.adjacency[start : start + size, start : start + size]), Data())
            tables.append(torch.from_numpy(all_entries(part, structure.max_distance)).flatten().to(stored.device))
        else:
            tables.append(next(prepared))
        start += size
    return torch.cat(tables)


@attrs.frozen
class NearPairs(Structure):
    """Pairs within ``hops`` steps: fields ``pair_index`` [2, P], ``pair_hops`` [P]."""

    hops: int

    def __attrs_post_init__(self) -> None:
        require_at_least("hops", self.hops, 0)

    def compute(self, graph: Graph) -> dict[str, Tensor]:
        """Grow all balls by one step at a time: as many entries as pairs, never N x N."""
        reached = frontier = _identity(graph.num_nodes)
        hops_and_one = reached
        for hop in range(1, self.hops + 1):
            frontier = _new_entries(csr_array(frontier @ graph.adjacency), reached)
            reached = csr_array(reached + frontier)
            hops_and_one = csr_array(hops_and_one + (hop + 1) * frontier)
        entries = hops_and_one.tocoo()
        pairs = torch.from_numpy(np.stack(entries.coords).astype(np.int64))
        return {"pair_index": pairs, "pair_hops": torch.from_numpy(entries.data.astype(np.int64) - 1)}


def _identity(nodes: int) -> csr_array:
    return csr_array((np.ones(nodes, np.int32), (np.arange(nodes), np.arange(nodes))), shape=(nodes, nodes))


def _new_entries(candidates: csr_array, known: csr_array) -> csr_array:
    """The pattern of ``candidates`` without that of ``known``, as ones."""
    ones = candidates.astype(bool).astype(np.int32)
    fresh = csr_array(ones - ones * known)
    fresh.eliminate_zeros()
    return fresh


@attrs.frozen
class DistanceBasis(Structure):
    """A basis for every bias that is a function of distance: O(N^2) once, linear afterwards.

    The basis U [N, rank] holds the leading eigenvectors of the matrix of clipped distances, and each indicator matrix
    A_e of a table entry e is projected into it. So ``B = sum_e t_e A_e`` becomes ``U (sum_e t_e U^T A_e U) U^T`` for
    every table t, and where t is linear in the distance that is B's truncated eigendecomposition.

    Fields: ``basis`` [N, rank], ``cores`` [1, entries, rank, rank], float64, zero-padded.
    """

    max_distance: int = attrs.field(validator=_require_distance)
    rank: int
    limit: int = 10_000

    def compute(self, graph: Graph) -> dict[str, Tensor]:
        """All distances, eigenvectors and projections of one graph; :class:`GraphError` above the limit."""
        if graph.num_nodes > self.limit:
            raise GraphError(
                f"spd with approximation 'eigen' needs all distances once, O(N^2), and the graph has "
                f"{graph.num_nodes} > {self.limit} nodes; use approximation = 'nystrom', 'sapd' or 'local'"
            )
        entries = all_entries(graph, self.max_distance)
        clipped = np.minimum(entries, self.max_distance + 1).astype(np.float64)
        basis = truncated_eigen(clipped, self.rank).vectors
        cores = [basis.T @ ((entries == entry) @ basis) for entry in range(entry_count(self.max_distance))]
        return {"basis": torch.from_numpy(basis), "cores": torch.from_numpy(np.stack(cores))[None]}
