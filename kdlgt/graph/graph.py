"""A validated, undirected graph: what every structure is computed from."""

from __future__ import annotations

from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import coo_array, csr_array
from scipy.sparse.csgraph import connected_components
from torch import Tensor
from torch_geometric.data import Data

from kdlgt.errors import GraphError


class Graph:
    """An undirected simple graph in compressed rows: self-loops and duplicate edges dropped, neighbours sorted.

    Attributes:
        num_nodes: number of nodes N.
        adjacency: [N, N] symmetric ``csr_array`` of ones.
        data: the PyG object that it was read from, for structures that need features too.
    """

    def __init__(self, adjacency: csr_array, data: Data) -> None:
        self.adjacency = adjacency
        self.data = data
        self.num_nodes: int = adjacency.shape[0]

    @classmethod
    def from_data(cls, data: Data, *, symmetrise: bool = False) -> Graph:
        """Read and validate ``data.edge_index``.

        Args:
            data: a PyG graph; ``edge_index`` [2, E] integer.
            symmetrise: add the reverse of every edge instead of refusing a directed graph.

        Raises:
            GraphError: ``edge_index`` is no integer [2, E], an edge is out of range, or the graph is directed.
        """
        nodes = _num_nodes(data)
        edges = _checked_edges(data.edge_index, nodes)
        adjacency = _simple(edges, nodes)
        if symmetrise:
            adjacency = _simple(np.concatenate([edges, edges[::-1]], axis=1), nodes)
        one_way = coo_array(csr_array(adjacency - csr_array(adjacency.T)) > 0)
        if one_way.nnz:
            raise GraphError(
                f"the graph is directed: {one_way.nnz} edges have no reverse, the first is "
                f"{one_way.coords[0][0]} -> {one_way.coords[1][0]}. Encodings need undirected graphs; make "
                "it undirected (torch_geometric.transforms.ToUndirected()), or set data.symmetrise = true in a config"
            )
        return cls(adjacency, data)

    @cached_property
    def degree(self) -> NDArray[np.int64]:
        """Number of neighbours per node [N], without self-loops and duplicates."""
        return np.diff(self.adjacency.indptr).astype(np.int64)

    @cached_property
    def component(self) -> NDArray[np.int64]:
        """Connected component of each node [N], numbered from 0."""
        return connected_components(self.adjacency, directed=False)[1].astype(np.int64)

    @cached_property
    def num_components(self) -> int:
        """Number of connected components."""
        return int(self.component.max(initial=-1)) + 1


def _num_nodes(data: Data) -> int:
    nodes = data.num_nodes
    if nodes is None or nodes < 1:
        raise GraphError(f"the graph has num_nodes = {nodes}; a graph needs at least one node")
    return int(nodes)


def _checked_edges(edge_index: Tensor | None, nodes: int) -> NDArray[np.int64]:
    if edge_index is None:
        raise GraphError("the graph has no edge_index; give an integer tensor [2, E] (E may be 0)")
    if edge_index.dim() != 2 or edge_index.size(0) != 2:
        raise GraphError(f"edge_index has shape {tuple(edge_index.shape)}; expected [2, E]")
    if edge_index.is_floating_point() or edge_index.is_complex() or edge_index.dtype == torch.bool:
        raise GraphError(
            f"edge_index has dtype {edge_index.dtype}; node numbers must be integers, use edge_index.long()"
        )
    if edge_index.numel():
        low, high = int(edge_index.min()), int(edge_index.max())
        if low < 0 or high >= nodes:
            raise GraphError(f"edge_index holds node numbers {low}..{high}; the graph has nodes 0..{nodes - 1}")
    return edge_index.detach().cpu().numpy().astype(np.int64)


def _simple(edges: NDArray[np.int64], nodes: int) -> csr_array:
    proper = edges[:, edges[0] != edges[1]]
    ones = np.ones(proper.shape[1], dtype=np.float32)
    adjacency = csr_array(coo_array((ones, (proper[0], proper[1])), shape=(nodes, nodes)))
    adjacency.sum_duplicates()
    adjacency.data[:] = 1.0
    return adjacency
