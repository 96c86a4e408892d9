"""Landmark nodes spread over a graph by farthest-first traversal, with all distances to them."""

from __future__ import annotations

import heapq

import attrs
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from kdlgt.errors import require_at_least
from kdlgt.graph.graph import Graph
from kdlgt.graph.refinement import structural_colours
from kdlgt.graph.search import breadth_first_distances
from kdlgt.graph.structure import Structure

UNREACHABLE = -1
ABSENT = -2


@attrs.frozen
class Landmarks(Structure):
    """Up to ``count`` landmarks per graph, slots shared by nobody.

    Fields: ``hops`` [N, count] int32, the distance of each node to each landmark, -1 where there is no path and -2 in
    slots without a landmark; ``between`` [1, count, count], the same among the landmarks.
    """

    count: int

    def __attrs_post_init__(self) -> None:
        require_at_least("count", self.count, 1)

    def compute(self, graph: Graph) -> dict[str, Tensor]:
        """Choose the landmarks and search from each."""
        nodes, hops = farthest_first(graph, self.count)
        all_hops = np.full((graph.num_nodes, self.count), ABSENT, dtype=np.int32)
        all_hops[:, : len(nodes)] = hops
        between = np.full((1, self.count, self.count), ABSENT, dtype=np.int32)
        between[0, : len(nodes)] = all_hops[nodes]
        return {"hops": torch.from_numpy(all_hops), "between": torch.from_numpy(between)}


def farthest_first(graph: Graph, count: int) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Landmarks by farthest-first traversal (Gonzalez 1985): covering radius at most twice the smallest possible.

    The next landmark goes to the component with most nodes per landmark. There it is the node of highest degree at
    first, then a node farthest from the landmarks so far (higher degrees first, then by refined colour). Only ties that
    colour refinement cannot tell apart go by node number: there the choice commutes with relabelling in law only.

    Returns:
        The landmarks [L] and the distances [N, L], -1 where there is no path; L = min(count, N).
    """
    members = np.argsort(graph.component, kind="stable")
    parts = np.split(members, np.cumsum(np.bincount(graph.component))[:-1])
    colours = structural_colours(graph)
    place = np.empty(graph.num_nodes, dtype=np.int64)
    place[np.lexsort((colours, -graph.degree))] = np.arange(graph.num_nodes)
    queue = [(-float(len(part)), int(colours[part].sum()), number) for number, part in enumerate(parts)]
    heapq.heapify(queue)
    nearest = np.full(graph.num_nodes, np.iinfo(np.int32).max, dtype=np.int32)
    taken = np.zeros(len(parts), dtype=np.int64)
    nodes: list[int] = []
    columns: list[NDArray[np.int32]] = []
    while queue and len(nodes) < count:
        _, look, number = heapq.heappop(queue)
        part = parts[number]
        farthest = part[nearest[part] == nearest[part].max()]
        node = int(farthest[place[farthest].argmin()])
        hops = breadth_first_distances(graph.adjacency, [[node]])[:, 0]
        nearest = np.where(hops >= 0, np.minimum(nearest, hops), nearest)
        nodes.append(node)
        columns.append(hops)
        taken[number] += 1
        if taken[number] < len(part):
            heapq.heappush(queue, (-len(part) / (taken[number] + 1), look, number))
    return np.array(nodes, dtype=np.int64), np.stack(columns, axis=1)
