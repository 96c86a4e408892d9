"""Graphormer's edge encoding: the edges on a shortest path, each position with a table of its own."""

from __future__ import annotations

import attrs
import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse.csgraph import dijkstra
from torch import Tensor, nn
from torch_geometric.data import Data

from kdlgt.algebra import Sparse
from kdlgt.errors import ArgumentError, GraphError, require_at_least
from kdlgt.graph import Graph, Structure, graph_ptr, read_structure
from kdlgt.rpe import RPE, IneffectiveRPE
from kdlgt_edge.edge import EdgePairs

NO_EDGE = -1


@attrs.frozen
class PathEdges(Structure):
    """Types of the first ``length`` edges of a shortest path between all pairs: field ``types`` [n^2, length] int16.

    From i to j the path goes on to the neighbour with the smallest number among those nearer to j, so on graphs with
    ties it commutes with relabelling in law only. -1 stands past the end of a path. Graphs above ``limit`` nodes get an
    empty field: they can be used in the linear form only.
    """

    field: str
    length: int
    limit: int

    def compute(self, graph: Graph) -> dict[str, Tensor]:
        """Follow all paths at once, an edge at a time: O(length n^2)."""
        nodes = graph.num_nodes
        if nodes > self.limit:
            return {"types": torch.empty(0, self.length, dtype=torch.int16)}
        given = EdgePairs(self.field, 1, integers=True).compute(graph)
        edge_type = np.full((nodes, nodes), NO_EDGE, dtype=np.int16)
        edge_type[tuple(given["pair_index"].numpy())] = given["features"][:, 0].numpy()
        following = next_nodes(graph)
        place, target = np.divmod(np.arange(nodes * nodes), nodes)
        steps = []
        for _ in range(self.length):
            onward = following[place, target]
            steps.append(edge_type[place, onward])
            place = onward
        return {"types": torch.from_numpy(np.stack(steps, axis=1))}


def next_nodes(graph: Graph) -> NDArray[np.int64]:
    """The node after i on the chosen shortest path to j [N, N]; i itself where there is none."""
    hops = dijkstra(graph.adjacency, unweighted=True)
    following = np.repeat(np.arange(graph.num_nodes)[:, None], graph.num_nodes, axis=1)
    for node in range(graph.num_nodes):
        start, end = graph.adjacency.indptr[node], graph.adjacency.indptr[node + 1]
        neighbours = graph.adjacency.indices[start:end]
        nearer = hops[neighbours] < hops[node]
        reached = nearer.any(axis=0)
        following[node, reached] = neighbours[nearer.argmax(axis=0)[reached]] if len(neighbours) else node
    return following


@attrs.frozen(kw_only=True)
class PathEdgeOptions:
    """Options of ``path_edge``.

    Attributes:
        categories: number of edge types.
        length: edges of a path that count.
        field: the data field of edge types, one integer per edge.
        exact_limit: largest graph, in nodes, that exact attention takes.
    """

    categories: int = 4
    length: int = 5
    field: str = "edge_attr"
    exact_limit: int = 512


class PathEdgeRPE(IneffectiveRPE):
    """``B_ij = mean over the edges e_1, e_2, ... of a shortest path i -> j of t_n[type(e_n)]``, 0 without a path.

    Full rank. The linear form keeps the pairs one step apart, where it is exact, and is 0 elsewhere.
    """

    def __init__(self, heads: int, options: PathEdgeOptions) -> None:
        super().__init__(heads)
        require_at_least("categories", options.categories, 1)
        require_at_least("length", options.length, 1)
        self.options = options
        self.paths = PathEdges(options.field, options.length, options.exact_limit)
        self.edges = EdgePairs(options.field, 1, integers=True)
        self.table = nn.Parameter(torch.zeros(options.length, options.categories, heads))

    @property
    def structures(self) -> tuple[Structure, ...]:
        """Paths of small graphs, and edges."""
        return (self.paths, self.edges)

    def path_bias(self, types: Tensor) -> Tensor:
        """The bias [P, H] of paths with these edge types [P, length].

        Raises:
            GraphError: a type out of range.
        """
        if types.numel() and int(types.max()) >= self.options.categories:
            raise GraphError(
                f"{self.options.field!r} holds edge type {int(types.max())}; categories = {self.options.categories} "
                f"allows 0..{self.options.categories - 1}"
            )
        there = types >= 0
        positions = torch.arange(types.size(1), device=types.device)
        values = self.table[positions, types.long().clamp(min=0)] * there[..., None]
        return values.sum(1) / there.sum(1, keepdim=True).clamp(min=1)

    def pair_bias(self, batch: Data, pairs: Tensor) -> Tensor:
        """Exact bias [P, H] on pairs [2, P].

        Raises:
            GraphError: a graph above ``exact_limit``.
        """
        ptr = graph_ptr(batch).to(pairs.device)
        sizes = ptr.diff()
        if int(sizes.max()) > self.options.exact_limit:
            raise GraphError(
                f"path_edge in exact attention needs all paths, O(N^2), and a graph has {int(sizes.max())} nodes; "
                f"raise exact_limit = {self.options.exact_limit} or use linear attention"
            )
        graph = torch.searchsorted(ptr, pairs[0], right=True) - 1
        query, key = pairs - ptr[graph]
        row = (sizes**2).cumsum(0)[graph] - sizes[graph] ** 2 + query * sizes[graph] + key
        return self.path_bias(read_structure(batch, self.paths, "types")[row])

    def forward(self, batch: Data, x: Tensor | None = None) -> Sparse:
        """The bias on edges; ``x`` is not used."""
        types = read_structure(batch, self.edges, "features")
        return Sparse(read_structure(batch, self.edges, "pair_index"), self.path_bias(types), int(batch.num_nodes or 0))


def path_edge_reference(rpe: RPE, data: Data) -> Tensor:
    """``B`` [H, N, N] float64, path by path, with distances from powers of the adjacency matrix.

    Raises:
        ArgumentError: ``rpe`` is no :class:`PathEdgeRPE`.
    """
    if not isinstance(rpe, PathEdgeRPE):
        raise ArgumentError(f"path_edge_reference got a {type(rpe).__name__}; expected a PathEdgeRPE")
    dense = Graph.from_data(data, symmetrise=True).adjacency.toarray()
    types: dict[tuple[int, int], int] = {}
    for (source, target), kind in zip(
        data.edge_index.T.tolist(), data[rpe.options.field].flatten().tolist(), strict=True
    ):
        types.setdefault((target, source), kind)
    hops = _hops(dense)
    table = rpe.table.double()
    bias = table.new_zeros(len(dense), len(dense), rpe.heads)
    rows = []
    for start in range(len(dense)):
        row = []
        for end in range(len(dense)):
            edges = _path(dense, hops, start, end)[: rpe.options.length]
            found = [table[n, types[edge] if edge in types else types[edge[::-1]]] for n, edge in enumerate(edges)]
            row.append(torch.stack(found).mean(0) if found else bias[start, end])
        rows.append(torch.stack(row))
    return torch.stack(rows).permute(2, 0, 1)


def _hops(dense: NDArray[np.float32]) -> NDArray[np.float64]:
    hops = np.where(np.eye(len(dense)) > 0, 0.0, np.inf)
    reached = np.eye(len(dense))
    for step in range(1, len(dense)):
        reached = ((reached + reached @ dense) > 0).astype(np.float64)
        hops = np.where((reached > 0) & np.isinf(hops), step, hops)
    return hops


def _path(dense: NDArray[np.float32], hops: NDArray[np.float64], start: int, end: int) -> list[tuple[int, int]]:
    if not np.isfinite(hops[start, end]):
        return []
    edges = []
    while start != end:
        onward = next(node for node in np.flatnonzero(dense[start]).tolist() if hops[node, end] < hops[start, end])
        edges.append((start, onward))
        start = onward
    return edges
