"""A learned bias on edges: ``B_ij = b + sum_f t_f[type_f(j -> i)] + w . features(j -> i)`` on edges, 0 elsewhere."""

from __future__ import annotations

import attrs
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch_geometric.data import Data

from kdlgt.algebra import Sparse
from kdlgt.errors import ArgumentError, GraphError, require_at_least
from kdlgt.graph import Graph, Structure, read_structure
from kdlgt.rpe import RPE


@attrs.frozen
class EdgePairs(Structure):
    """The (query, key) pairs of edges, each once, and the features of one edge of each.

    A query sees the features of the edge that points at it, key to query, as in message passing; an edge without a
    reverse lends it its features. Of duplicate edges the first counts, and self-loops are dropped.

    Fields: ``pair_index`` [2, P], ``features`` [P, width] (int64 for categories, float64 for numbers).
    """

    field: str
    width: int
    integers: bool

    def compute(self, graph: Graph) -> dict[str, Tensor]:
        """Look up every pair among the given edges.

        Raises:
            GraphError: edge features are missing, or of another width or type.
        """
        entries = graph.adjacency.tocoo()
        query, key = (ends.astype(np.int64) for ends in entries.coords)
        pairs = torch.from_numpy(np.stack([query, key]))
        if not self.width:
            return {"pair_index": pairs, "features": torch.empty(pairs.size(1), 0, dtype=torch.int64)}
        features = self._given(graph.data)
        position = _positions(graph.data.edge_index.cpu().numpy(), query, key, graph.num_nodes)
        return {"pair_index": pairs, "features": features[torch.from_numpy(position)]}

    def _given(self, data: Data) -> Tensor:
        given = data.get(self.field)
        if not isinstance(given, Tensor) or given.size(0) != data.edge_index.size(1):
            raise GraphError(
                f"the graph has no {self.field!r} with one row per edge; set width = 0 and categories = []"
            )
        features = _columns(given.detach().cpu())
        if features.size(1) != self.width or features.is_floating_point() == self.integers:
            kind = "integer" if self.integers else "float"
            raise GraphError(
                f"{self.field!r} has {features.size(1)} columns of {features.dtype}; the options of edge ask for "
                f"{self.width} {kind} columns: set `categories` (integers) or `width` (floats)"
            )
        return features if self.integers else features.double()


def _columns(features: Tensor) -> Tensor:
    return features[:, None] if features.dim() == 1 else features.flatten(1)


def _positions(
    edges: NDArray[np.int64], query: NDArray[np.int64], key: NDArray[np.int64], nodes: int
) -> NDArray[np.int64]:
    """The first given edge key -> query of each pair, or else query -> key."""
    known, first = np.unique(edges[0] * nodes + edges[1], return_index=True)

    def look_up(source: NDArray[np.int64], target: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        code = source * nodes + target
        slot = np.searchsorted(known, code).clip(max=max(len(known) - 1, 0))
        return first[slot], known[slot] == code

    (forward, found), (backward, _) = look_up(key, query), look_up(query, key)
    return np.where(found, forward, backward).astype(np.int64)


@attrs.frozen(kw_only=True)
class EdgeOptions:
    """Options of ``edge``; without categories and width there is one number per head for every edge.

    Attributes:
        categories: number of values of each integer column of the edge features.
        width: number of columns of float edge features, when there are no categories.
        field: the data field of edge features.
        bias: initial bias on every edge.
    """

    categories: tuple[int, ...] = ()
    width: int = 0
    field: str = "edge_attr"
    bias: float = 0.0


class EdgeRPE(RPE):
    """A sparse bias on edges, learned per head: exact in linear attention at O(E d).

    Raises:
        ArgumentError: an option is out of range, or both categories and width are given.
    """

    def __init__(self, heads: int, options: EdgeOptions) -> None:
        super().__init__(heads)
        require_at_least("width", options.width, 0)
        for count in options.categories:
            require_at_least("categories", count, 1)
        if options.categories and options.width:
            raise ArgumentError(f"categories = {options.categories} and width = {options.width}; give one of them")
        self.options = options
        columns = len(options.categories) or options.width
        self.structure = EdgePairs(options.field, columns, bool(options.categories))
        self.constant = nn.Parameter(torch.full((heads,), float(options.bias)))
        self.tables = nn.ParameterList(torch.zeros(count, heads) for count in options.categories)
        if options.width:
            self.projection = nn.Parameter(torch.zeros(options.width, heads))

    @property
    def structures(self) -> tuple[Structure, ...]:
        """Edge pairs and their features."""
        return (self.structure,)

    def edge_bias(self, features: Tensor) -> Tensor:
        """The bias [P, H] of edges with these features [P, width]."""
        value = self.constant.expand(features.size(0), -1)
        for column, table in enumerate(self.tables):
            value = value + _entry(table, features[:, column], column)
        return value + features.to(self.constant) @ self.projection if self.options.width else value

    def forward(self, batch: Data, x: Tensor | None = None) -> Sparse:
        """The bias on edges; ``x`` is not used."""
        features = read_structure(batch, self.structure, "features")
        return Sparse(
            read_structure(batch, self.structure, "pair_index"), self.edge_bias(features), int(batch.num_nodes or 0)
        )


def _entry(table: Tensor, category: Tensor, column: int) -> Tensor:
    if category.numel() and (int(category.min()) < 0 or int(category.max()) >= table.size(0)):
        raise GraphError(
            f"edge features: column {column} holds {int(category.min())}..{int(category.max())}; "
            f"categories[{column}] = {table.size(0)} allows 0..{table.size(0) - 1}"
        )
    return table[category]


def edge_reference(rpe: RPE, data: Data) -> Tensor:
    """``B`` [H, N, N] float64, edge by edge.

    Raises:
        ArgumentError: ``rpe`` is no :class:`EdgeRPE`.
    """
    if not isinstance(rpe, EdgeRPE):
        raise ArgumentError(f"edge_reference got a {type(rpe).__name__}; expected an EdgeRPE")
    nodes, edges = int(data.num_nodes or 0), data.edge_index
    given = data.get(rpe.options.field) if rpe.structure.width else None
    features = torch.zeros(edges.size(1), 0) if given is None else _columns(given)
    bias = rpe.edge_bias(features).double()
    first: dict[tuple[int, int], int] = {}
    for position, (source, target) in enumerate(edges.T.tolist()):
        if source != target:
            first.setdefault((target, source), position)
    for (target, source), position in list(first.items()):
        first.setdefault((source, target), position)
    queries, keys = torch.tensor(list(first), dtype=torch.long).view(-1, 2).T
    dense = bias.new_zeros(rpe.heads, nodes, nodes)
    chosen = bias[torch.tensor(list(first.values()), dtype=torch.long)].T
    return dense.index_put((torch.arange(rpe.heads)[:, None], queries[None], keys[None]), chosen)
