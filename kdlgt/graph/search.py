"""Breadth-first search from sets of sources: full distance columns, and the distance to a growing set."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import breadth_first_order

from kdlgt.errors import ArgumentError
from kdlgt.graph import kernels

Method = Literal["auto", "python", "scipy", "numba"]

_SCIPY_FROM = 1_000
_NUMBA_FROM = 300_000
"""Sizes N + E from which scipy's call overhead, and numba's compilation of about a second, pay."""


def breadth_first_distances(
    adjacency: csr_array, sources: Sequence[ArrayLike], *, method: Method = "auto"
) -> NDArray[np.int32]:
    """Distances from each set of sources to every node: ``out[i, s] = min_{v in sources[s]} d(v, i)``.

    One search serves one slot s, whatever the number of its sources: O(S (N + E)), and never N x N.

    Args:
        adjacency: [N, N] symmetric, in compressed rows; edges are unweighted.
        sources: node numbers, one set per slot; a set may be empty.
        method: ``auto`` takes numba where it is installed and the graph is large. All methods give the same result.

    Returns:
        [N, S] int32, -1 where no source reaches the node.

    Raises:
        ArgumentError: a source out of range, an unknown method, or numba asked for and not installed.
    """
    nodes = adjacency.shape[0]
    sets = {slot: np.asarray(chosen, dtype=np.int32) for slot, chosen in enumerate(sources)}
    used = {slot: chosen for slot, chosen in sets.items() if chosen.size}
    for slot, chosen in used.items():
        low, high = chosen.min(), chosen.max()
        if low < 0 or high >= nodes:
            raise ArgumentError(f"sources[{slot}] holds nodes {low}..{high}; the graph has nodes 0..{nodes - 1}")
    distance = np.full((nodes, len(sets)), -1, dtype=np.int32)
    search = _SEARCHES[resolve_method(adjacency, method)]
    if used:
        search(adjacency, used, distance)
    return distance


Sets = dict[int, NDArray[np.int32]]
"""Sources by slot, none of them empty."""


def resolve_method(adjacency: csr_array, method: Method = "auto") -> Method:
    """The method that is used on a graph of this size.

    Raises:
        ArgumentError: an unknown method, or numba asked for and not installed.
    """
    if method not in get_args(Method):
        raise ArgumentError(f"method = {method!r}; allowed: {', '.join(get_args(Method))}")
    if method == "numba" and not kernels.numba_installed():
        raise ArgumentError("method = 'numba', which is not installed; pip install 'kdlgt[fast]', or use 'auto'")
    if method != "auto":
        return method
    size = adjacency.shape[0] + adjacency.nnz
    if size >= _NUMBA_FROM and kernels.numba_installed():
        return "numba"
    return "scipy" if size >= _SCIPY_FROM else "python"


def _by_python(adjacency: csr_array, sets: Sets, distance: NDArray[np.int32]) -> None:
    nodes = adjacency.shape[0]
    indptr, indices = adjacency.indptr.tolist(), adjacency.indices.tolist()
    for slot, chosen in sets.items():
        nearest = [nodes] * nodes
        kernels.spread(indptr, indices, chosen.tolist(), nearest, nodes - 1)
        distance[:, slot] = nearest
    distance[distance == nodes] = -1


def _by_scipy(adjacency: csr_array, sets: Sets, distance: NDArray[np.int32]) -> None:
    """A search from a virtual root, whose neighbours are the sources of the slot."""
    root, edges = adjacency.shape[0], adjacency.nnz
    room = max(chosen.size for chosen in sets.values())
    # 32-bit and float64, else scipy converts the whole graph in every search.
    indices = np.concatenate([adjacency.indices, np.zeros(room)], dtype=np.int32, casting="unsafe")
    indptr = np.append(adjacency.indptr, edges).astype(np.int32)
    ones = np.ones(edges + room)
    for slot, chosen in sets.items():
        end = edges + chosen.size
        indices[edges:end], indptr[-1] = chosen, end
        rooted = csr_array((ones[:end], indices[:end], indptr), shape=(root + 1, root + 1))
        order, parent = breadth_first_order(rooted, root, directed=True, return_predecessors=True)
        distance[order[1:], slot] = _depths(order, parent)[1:] - 1


def _depths(order: NDArray[np.int32], parent: NDArray[np.int32]) -> NDArray[np.int64]:
    """Depth of every node in breadth-first order, from the parents alone.

    Parents come in the same order as their children, so a level ends where the children of the level before it end.
    """
    position = np.empty(parent.size, dtype=np.int64)
    position[order] = np.arange(order.size)
    children = np.bincount(position[parent[order[1:]]], minlength=order.size)
    children_end = 1 + np.cumsum(children)
    ends = [1]
    while ends[-1] < order.size:
        ends.append(children_end.item(ends[-1] - 1))
    return np.repeat(np.arange(len(ends)), np.diff(ends, prepend=0))


def _by_numba(adjacency: csr_array, sets: Sets, distance: NDArray[np.int32]) -> None:
    """One search per slot where the graph is deep, and all slots in one sweep where it is shallow.

    A sweep reads an edge once per level on which it is passed, so it saves where there are fewer levels than slots: at
    10^6 nodes and 32 slots it takes a third of the time on a random 6-regular graph, and three times as much on a grid.
    """
    rows = _rows(adjacency)
    first, *others = sets
    _spread_slot(rows, sets[first], distance[:, first])
    if distance[:, first].max() < len(sets):
        _sweep(rows, sets, distance)
    else:
        for slot in others:
            _spread_slot(rows, sets[slot], distance[:, slot])


Rows = tuple[NDArray[np.int64], NDArray[np.int32]]


def _rows(adjacency: csr_array) -> Rows:
    """``indptr`` and ``indices`` in the widths that the kernels are compiled for."""
    return adjacency.indptr.astype(np.int64, copy=False), adjacency.indices.astype(np.int32, copy=False)


def _spread_slot(rows: Rows, chosen: NDArray[np.int32], column: NDArray[np.int32]) -> None:
    nodes = column.size
    nearest = np.full(nodes, nodes, dtype=np.int32)
    kernels.compiled(kernels.spread)(*rows, chosen, nearest, nodes - 1)
    column[:] = np.where(nearest == nodes, -1, nearest)


def _sweep(rows: Rows, sets: Sets, distance: NDArray[np.int32]) -> None:
    bit_of = np.zeros(67, dtype=np.int64)
    bit_of[[2**bit % 67 for bit in range(kernels.SLOTS_PER_SWEEP)]] = np.arange(kernels.SLOTS_PER_SWEEP)
    run = kernels.compiled(kernels.sweep)
    for start in range(0, distance.shape[1], kernels.SLOTS_PER_SWEEP):
        block = [(slot, sets[slot]) for slot in range(start, start + kernels.SLOTS_PER_SWEEP) if slot in sets]
        if block:
            slots = np.repeat([slot - start for slot, _ in block], [chosen.size for _, chosen in block])
            columns = distance[:, start : start + kernels.SLOTS_PER_SWEEP]
            run(*rows, np.concatenate([chosen for _, chosen in block]), slots, bit_of, columns)


_SEARCHES = {"python": _by_python, "scipy": _by_scipy, "numba": _by_numba}


class NearestSource:
    """Distance from every node to the nearest of a growing set of sources, searched up to ``limit`` hops.

    Args:
        adjacency: [N, N] symmetric, in compressed rows.
        limit: the largest distance that counts; default: no limit.
        method: as in :func:`breadth_first_distances`; ``scipy`` stands for ``python`` here.
    """

    def __init__(self, adjacency: csr_array, limit: int | None = None, *, method: Method = "auto") -> None:
        nodes = adjacency.shape[0]
        self.limit = nodes if limit is None else min(limit, nodes)
        self._compiled = resolve_method(adjacency, method) == "numba"
        far = np.full(nodes, self.limit + 1, dtype=np.int32)
        fields = (*_rows(adjacency), far, np.full(nodes, -1, np.int32))
        self._indptr, self._indices, self._nearest, self._mark = (self._array(field) for field in fields)
        self._counts = 0

    def _array(self, values: NDArray[Any]) -> Any:
        """Arrays for compiled code, lists for Python, which reads them four times faster."""
        return values if self._compiled else values.tolist()

    def add(self, sources: NDArray[np.int64]) -> int:
        """Add sources; returns the number of nodes that come within the limit for the first time."""
        spread = kernels.compiled(kernels.spread) if self._compiled else kernels.spread
        chosen = self._array(sources.astype(np.int32))
        return int(spread(self._indptr, self._indices, chosen, self._nearest, self.limit))

    def gain(self, node: int) -> int:
        """The number of nodes that ``add`` of this node would bring within the limit for the first time."""
        count = kernels.compiled(kernels.count_unreached) if self._compiled else kernels.count_unreached
        source = self._array(np.array([node], dtype=np.int32))
        self._counts += 1  # a new stamp, so that the marks of earlier counts need no clearing
        return int(count(self._indptr, self._indices, source, self._nearest, self.limit, self._mark, self._counts))

    def reached(self, node: int) -> bool:
        """Whether a node lies within the limit of a source."""
        return bool(self._nearest[node] <= self.limit)

    @property
    def nearest(self) -> NDArray[np.int32]:
        """Distance to the nearest source [N]; ``limit + 1`` where there is none within the limit."""
        return np.asarray(self._nearest, dtype=np.int32)
