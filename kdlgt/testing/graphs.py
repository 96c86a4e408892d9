"""Small graphs that break encodings, and ways to relabel them.

Every graph carries node states ``x`` [N, channels] float64, one integer column ``edge_attr`` [E, 1] with values 0..2,
and numbers ``edge_weight`` [E] float64, so that encodings that read them can be checked through ``variants``.
"""

from __future__ import annotations

import itertools

import torch
from torch import Tensor
from torch_geometric.data import Data

from kdlgt.graph.generate import barabasi_albert, grid, path, star

EDGE_CATEGORIES = 3


def ordinary_graphs(channels: int) -> dict[str, Data]:
    """Connected graphs without oddities; 13 is a size that no field has by accident."""
    found = {"grid 3x4": grid(3, 4), "random of 13 nodes": barabasi_albert(13, 2, seed=1), "path of 7": path(7)}
    return {name: with_attributes(graph, channels, number) for number, (name, graph) in enumerate(found.items())}


def degenerate_graphs(channels: int) -> dict[str, Data]:
    """One and two nodes, no edges, several components, self-loops and duplicate edges, a star."""
    found = {
        "one node": from_edges(1, []),
        "two nodes": from_edges(2, [(0, 1)]),
        "no edges": from_edges(6, []),
        "disconnected": from_edges(6, [(0, 1), (1, 2), (4, 5)]),
        "self-loops and duplicate edges": from_edges(4, [(0, 0), (0, 1), (0, 1), (1, 2), (2, 3), (3, 3)]),
        "star": star(9),
    }
    return {name: with_attributes(graph, channels, number) for number, (name, graph) in enumerate(found.items())}


def asymmetric_tree(channels: int) -> Data:
    """Paths of 1 to 5 nodes that meet in node 0: a tree of 16 nodes, no two of them alike.

    Shortest paths are unique, and so are the node of highest degree and the nodes farthest from it, so that an encoding
    has nothing to break by node numbers.
    """
    edges = []
    for length in range(1, 6):
        first = length * (length - 1) // 2 + 1
        arm = [0, *range(first, first + length)]
        edges += list(itertools.pairwise(arm))
    return with_attributes(from_edges(16, edges), channels, seed=0)


def from_edges(nodes: int, edges: list[tuple[int, int]]) -> Data:
    """A graph with both directions of the given edges, loops and duplicates kept."""
    index = torch.tensor(edges, dtype=torch.long).reshape(-1, 2).T
    return Data(edge_index=torch.cat([index, index.flip(0)], dim=1), num_nodes=nodes)


def with_attributes(graph: Data, channels: int, seed: int) -> Data:
    """The graph with random states, edge categories and edge weights."""
    generator = torch.Generator().manual_seed(seed)
    nodes, edges = int(graph.num_nodes or 0), graph.edge_index.size(1)
    return Data(
        edge_index=graph.edge_index,
        num_nodes=nodes,
        x=torch.randn(nodes, channels, generator=generator, dtype=torch.float64),
        edge_attr=torch.randint(EDGE_CATEGORIES, (edges, 1), generator=generator),
        edge_weight=torch.rand(edges, generator=generator, dtype=torch.float64),
    )


def random_order(nodes: int, seed: int = 1) -> Tensor:
    """A permutation [N]: node i of the relabelled graph is node ``order[i]``."""
    return torch.randperm(nodes, generator=torch.Generator().manual_seed(seed))


def relabelled(data: Data, order: Tensor) -> Data:
    """The same graph with its nodes in another order; works before and after preparation.

    Node fields [N, ...] are reordered, node numbers in fields whose name holds ``index`` replaced. The columns of an
    index field are sorted again, and fields with one row per column go with them, as preparation would write them.
    """
    nodes = int(data.num_nodes or 0)
    position = torch.empty_like(order)
    position[order] = torch.arange(nodes)
    result = data.clone()
    tensors = {key: value for key, value in data.to_dict().items() if isinstance(value, Tensor)}
    for key, value in tensors.items():
        if "index" not in key and not key.startswith("edge") and value.dim() and value.size(0) == nodes:
            result[key] = value[order]
    for key, value in tensors.items():
        if "index" in key:
            _relabel_index(result, tensors, key, position[value])
    return result


def _relabel_index(result: Data, tensors: dict[str, Tensor], key: str, index: Tensor) -> None:
    columns = _sorted_columns(index)
    result[key] = index[:, columns]
    for other, value in tensors.items():
        beside = value.dim() and value.size(0) == index.size(1)
        if "index" not in other and beside and _owner(other) == _owner(key) and other != "x":
            result[other] = value[columns]


def _sorted_columns(index: Tensor) -> Tensor:
    order = torch.arange(index.size(1))
    for row in index.flip(0):
        order = order[torch.argsort(row[order], stable=True)]
    return order


def _owner(key: str) -> str:
    """The structure that a field belongs to: ``landmarks_1a2b3c4d_hops`` to ``landmarks_1a2b3c4d``, ``edge_...`` to
    ``edge``.
    """
    parts = key.split("_")
    return "_".join(parts[:2]) if len(parts) > 2 and len(parts[1]) == 8 else parts[0]
