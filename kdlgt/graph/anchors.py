"""Anchors: a greedy distance-k dominating set in every connected component, and the distances to it."""

from __future__ import annotations

import heapq
import warnings
from typing import Literal, get_args

import attrs
import numpy as np
from numpy.typing import NDArray

from kdlgt.errors import ArgumentError, require_at_least
from kdlgt.graph.graph import Graph
from kdlgt.graph.refinement import mix, structural_colours
from kdlgt.graph.search import Method, NearestSource, breadth_first_distances

Order = Literal["degree", "gain"]

DEFAULT_MAX_ANCHORS = 32


class AnchorWarning(UserWarning):
    """More anchors were asked for than the graph has nodes."""


@attrs.frozen(eq=False)
class Anchors:
    """Chosen anchors of one graph.

    Attributes:
        nodes: node numbers [A].
        slot: column of each anchor in the distance table [A]: 0, 1, ... within each component, so that components share
            the columns.
    """

    nodes: NDArray[np.int64]
    slot: NDArray[np.int64]

    @property
    def slots(self) -> int:
        """Number of columns in use: the largest number of anchors in one component."""
        return int(self.slot.max()) + 1

    def by_slot(self, width: int | None = None) -> list[NDArray[np.int64]]:
        """Anchors of each slot, one per component at most; empty sets up to ``width``."""
        return [self.nodes[self.slot == slot] for slot in range(width or self.slots)]


@attrs.frozen
class AnchorReport:
    """How well the anchors represent a graph: ``0 <= min_a SAPD_a(i, j) - SPD(i, j) <= 2 radius``.

    Attributes:
        anchors: their number, over all components.
        slots: the largest number in one component.
        radius: the covering radius R, the largest distance from a node to its nearest anchor; at most k without a cap.
        covered: share of the nodes within k of an anchor; 1 without a cap.
    """

    anchors: int
    slots: int
    radius: int
    covered: float


@attrs.frozen(eq=False)
class AnchorDistances:
    """Distances to the anchors, and what they cover.

    Attributes:
        distance: ``d(i, a)`` [N, slots] int32; -1 for a slot that the node's component does not use.
        anchors: the anchors behind the columns.
        report: number, radius, coverage.
    """

    distance: NDArray[np.int32]
    anchors: Anchors
    report: AnchorReport


def anchor_distances(
    graph: Graph,
    k: int,
    max_anchors: int | None = None,
    order: Order = "degree",
    *,
    width: int | None = None,
    method: Method = "auto",
) -> AnchorDistances:
    """Choose anchors and measure the distance of every node to them, one search per slot.

    Args:
        graph: the graph.
        k: hops that an anchor covers.
        max_anchors: cap on the anchors of one component; default: none.
        order: as in :func:`choose_anchors`.
        width: number of columns of the table; default: the slots in use.
        method: how to search, see :func:`~kdlgt.graph.search.breadth_first_distances`.

    Raises:
        ArgumentError: see :func:`choose_anchors`.
    """
    anchors = choose_anchors(graph, k, max_anchors, order, method=method)
    distance = breadth_first_distances(graph.adjacency, anchors.by_slot(width), method=method)
    nearest = np.where(distance < 0, graph.num_nodes, distance).min(1)
    report = AnchorReport(anchors.nodes.size, anchors.slots, int(nearest.max()), float((nearest <= k).mean()))
    return AnchorDistances(distance, anchors, report)


def choose_anchors(
    graph: Graph, k: int, max_anchors: int | None = None, order: Order = "degree", *, method: Method = "auto"
) -> Anchors:
    """Choose a greedy distance-k dominating set, and the best of it where a component has more than ``max_anchors``.

    With ``order="degree"`` nodes are visited by descending degree, and an uncovered one becomes an anchor and covers
    its k-hop ball (paper section 4.3): O(k (N + E)), and anchors are more than k apart. With ``order="gain"`` the next
    anchor is the node that newly covers most, which needs fewer; it costs the sum of the k-hop balls that it looks at.

    Under a cap, each component keeps the anchors with the largest coverage, counted as the nodes that an anchor was
    the first to cover; equal ones are taken farthest from those already kept, so that they spread and the radius
    stays small.

    Ties in degree or gain are broken by structure (:func:`~kdlgt.graph.refinement.structural_colours`), and what
    remains equal, by a fixed pseudo-random order of the node numbers. So the anchors are equivariant where structure
    tells the nodes apart, and in law elsewhere, as on regular graphs.

    Raises:
        ArgumentError: ``k`` or ``max_anchors`` below 1, or an unknown order.

    Warns:
        AnchorWarning: ``max_anchors`` was set above the number of nodes; all nodes is the most there can be.
    """
    require_at_least("k", k, 1)
    if order not in get_args(Order):
        raise ArgumentError(f"order = {order!r}; allowed: {', '.join(get_args(Order))}")
    if max_anchors is not None:
        require_at_least("max_anchors", max_anchors, 1)
        _warn_of_excess(graph, max_anchors)
    dominate = _by_degree if order == "degree" else _by_gain
    nodes, coverage = dominate(graph, k, visiting_order(graph), method)
    return _best_of_each_component(graph, nodes, coverage, max_anchors or graph.num_nodes, method)


def _warn_of_excess(graph: Graph, max_anchors: int) -> None:
    # The default is a cap that nobody asked for, and small molecules lie below it. The text is the same for all graphs,
    # so that Python shows it once for a data set.
    if max_anchors > graph.num_nodes and max_anchors != DEFAULT_MAX_ANCHORS:
        warnings.warn(
            f"max_anchors = {max_anchors} is more than a graph has nodes; such graphs get one anchor per node at most",
            AnchorWarning,
            stacklevel=4,
        )


def visiting_order(graph: Graph) -> NDArray[np.int64]:
    """Nodes [N] by descending degree, then by structure, then by a fixed pseudo-random order of the node numbers.

    Numbers themselves would not do: on a grid numbered row by row they give twice the anchors.
    """
    scrambled = mix(np.arange(graph.num_nodes, dtype=np.uint64))
    return np.lexsort((scrambled, structural_colours(graph), -graph.degree))


Chosen = tuple[NDArray[np.int64], NDArray[np.int64]]
"""Anchors in the order of choice, and how many nodes each was the first to cover."""


def _by_degree(graph: Graph, k: int, visits: NDArray[np.int64], method: Method) -> Chosen:
    cover = NearestSource(graph.adjacency, k, method=method)
    nodes, coverage = [], []
    for node in visits.tolist():
        if not cover.reached(node):
            nodes.append(node)
            coverage.append(cover.add(np.array([node])))
    return np.array(nodes), np.array(coverage)


def _by_gain(graph: Graph, k: int, visits: NDArray[np.int64], method: Method) -> Chosen:
    """Lazy greedy: gains only fall, so a node whose bound still holds when it comes up first has the largest gain."""
    cover = NearestSource(graph.adjacency, k, method=method)
    bound = _walk_bound(graph, k)[visits]
    heap = list(zip((-bound).tolist(), range(graph.num_nodes), strict=True))
    heapq.heapify(heap)
    nodes, coverage = [], []
    while heap:
        negative, rank = heap[0]
        node = int(visits[rank])
        gain = cover.gain(node)
        if gain == -negative:
            heapq.heappop(heap)
            nodes.append(node)
            coverage.append(cover.add(np.array([node])))
        elif gain:
            heapq.heapreplace(heap, (-gain, rank))
        else:
            heapq.heappop(heap)
    return np.array(nodes), np.array(coverage)


def _walk_bound(graph: Graph, k: int) -> NDArray[np.int64]:
    """An upper bound on the size of k-hop balls [N]: walks of at most k steps, and the size of the component."""
    size = np.bincount(graph.component)[graph.component].astype(np.float64)
    bound = np.ones(graph.num_nodes)
    for _ in range(k):
        wider = np.minimum(1.0 + graph.adjacency @ bound, size)
        if np.array_equal(wider, bound):
            break
        bound = wider
    return bound.astype(np.int64)


def _best_of_each_component(
    graph: Graph, nodes: NDArray[np.int64], coverage: NDArray[np.int64], cap: int, method: Method
) -> Anchors:
    by_component = np.argsort(graph.component[nodes], kind="stable")
    nodes, coverage = nodes[by_component], coverage[by_component]
    _, start, count = np.unique(graph.component[nodes], return_index=True, return_counts=True)
    rank = np.arange(nodes.size) - np.repeat(start, count)
    crowded = np.repeat(count > cap, count)
    if crowded.any():
        rank[crowded] = _spread_ranks(graph, nodes[crowded], coverage[crowded], count[count > cap], cap, method)
    kept = rank < cap
    return Anchors(nodes[kept], rank[kept])


def _spread_ranks(
    graph: Graph,
    nodes: NDArray[np.int64],
    coverage: NDArray[np.int64],
    count: NDArray[np.int64],
    cap: int,
    method: Method,
) -> NDArray[np.int64]:
    """Rank anchors in their component by coverage, then farthest from those ranked before; ``cap`` for the others.

    Components lie one after another, ``count`` anchors each. All of them take their next anchor in the same round.
    """
    start = np.cumsum(count) - count
    rank = np.full(nodes.size, cap)
    ranked = NearestSource(graph.adjacency, method=method)
    for turn in range(cap):
        key = coverage * (graph.num_nodes + 2) + ranked.nearest[nodes]
        key[rank < cap] = -1
        best = np.flatnonzero(key == np.repeat(np.maximum.reduceat(key, start), count))
        first = best[np.searchsorted(best, start)]
        rank[first] = turn
        ranked.add(nodes[first])
    return rank
