"""The bias of SAPD by the slow, obvious way: all pairs, all anchors."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional
from torch_geometric.data import Data

from kdlgt.errors import AlgebraError
from kdlgt.graph import read_structure
from kdlgt.rpe import RPE
from kdlgt_sapd.sapd import SAPD


def dense_sapd(rpe: RPE, data: Data) -> Tensor:
    """``B`` [H, N, N] float64 on one graph, -inf between components; distances by breadth-first search from every node.

    The anchors are those of the prepared graph (distance 0 in their column), everything else is computed anew.

    Raises:
        AlgebraError: the pooling is ``mean``, which is no bias.
    """
    if not isinstance(rpe, SAPD) or rpe.options.pooling == "mean":
        raise AlgebraError(
            "mean pooling averages softmaxes, so it has no dense bias; compare attention outputs instead"
        )
    distance = all_distances(data)
    anchors = (read_structure(data, rpe.structure, "distance") == 0).any(1).nonzero().flatten().tolist()
    decay = -functional.softplus(rpe.theta.double())
    bias = torch.full((rpe.heads, *distance.shape), -math.inf, dtype=torch.float64)
    for nodes in _components(distance):
        own = [anchor for anchor in anchors if anchor in nodes]
        to_anchor = distance[nodes][:, own] * decay[:, None, None]
        if rpe.options.pooling == "softmin":
            block = (to_anchor[:, :, None, :] + to_anchor[:, None, :, :]).logsumexp(-1)
        else:
            block = to_anchor.mean(-1)[:, :, None] + to_anchor.mean(-1)[:, None, :]
        index = torch.tensor(nodes)
        bias = bias.index_put((torch.arange(rpe.heads)[:, None, None], index[:, None], index), block)
    return bias


def all_distances(data: Data) -> Tensor:
    """Shortest path length between all nodes of one graph [N, N] float64, inf where there is no path."""
    nodes = int(data.num_nodes or 0)
    neighbours: list[set[int]] = [set() for _ in range(nodes)]
    for source, target in data.edge_index.T.tolist():
        neighbours[source].add(target)
        neighbours[target].add(source)
    distance = torch.full((nodes, nodes), math.inf, dtype=torch.float64)
    for start in range(nodes):
        frontier, depth = {start}, 0
        while frontier:
            distance[start, list(frontier)] = depth
            depth += 1
            around = set().union(*(neighbours[node] for node in frontier))
            frontier = {node for node in around if distance[start, node] == math.inf}
    return distance


def _components(distance: Tensor) -> list[list[int]]:
    """Node sets of the connected components."""
    first = [int(row.isfinite().nonzero()[0]) for row in distance]
    return [[node for node, label in enumerate(first) if label == root] for root in sorted(set(first))]
