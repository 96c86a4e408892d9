"""Inner loops of graph search, in the subset of Python that numba compiles.

The same functions run as they are on lists, and compiled on arrays: equal results by construction, except for
:func:`sweep`, whose bit masks only pay when compiled. The graph is in compressed rows: the neighbours of ``u`` are
``indices[indptr[u]:indptr[u + 1]]``.
"""

from __future__ import annotations

import functools
import importlib.util
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

Ints = Sequence[int] | NDArray[np.int32] | NDArray[np.int64]

SLOTS_PER_SWEEP = 64
"""Number of searches that share one sweep: the bits of a mask."""


def spread(indptr: Ints, indices: Ints, sources: Ints, nearest: Any, limit: int) -> int:
    """Lower ``nearest`` [N] to the distance from ``sources`` where that is smaller, up to ``limit`` hops.

    A node whose known distance is no larger is not expanded: what lies behind it is no nearer to the new sources.
    Each node is expanded at most ``limit`` times over all calls, so k-hop balls cost O(k (N + E)) together.

    Returns:
        The number of nodes reached for the first time (those that stood at ``limit + 1``).
    """
    fresh = 0
    frontier = []
    for source in sources:
        if nearest[source] > 0:
            if nearest[source] > limit:
                fresh += 1
            nearest[source] = 0
            frontier.append(source)
    depth = 0
    while len(frontier) > 0 and depth < limit:
        depth += 1
        reached = []
        for node in frontier:
            for neighbour in indices[indptr[node] : indptr[node + 1]]:
                if nearest[neighbour] > depth:
                    if nearest[neighbour] > limit:
                        fresh += 1
                    nearest[neighbour] = depth
                    reached.append(neighbour)
        frontier = reached
    return fresh


def count_unreached(
    indptr: Ints, indices: Ints, sources: Ints, nearest: Ints, limit: int, mark: Any, stamp: int
) -> int:
    """Count what ``spread`` from ``sources`` would reach for the first time, changing nothing but ``mark`` [N]."""
    count = 0
    frontier = []
    for source in sources:
        if nearest[source] > limit:
            count += 1
        mark[source] = stamp
        frontier.append(source)
    depth = 0
    while len(frontier) > 0 and depth < limit:
        depth += 1
        reached = []
        for node in frontier:
            for neighbour in indices[indptr[node] : indptr[node + 1]]:
                if mark[neighbour] != stamp and nearest[neighbour] > depth:
                    mark[neighbour] = stamp
                    if nearest[neighbour] > limit:
                        count += 1
                    reached.append(neighbour)
        frontier = reached
    return count


def sweep(
    indptr: NDArray[np.int64],
    indices: NDArray[np.int32],
    sources: NDArray[np.int32],
    slots: NDArray[np.int64],
    bit_of: NDArray[np.int64],
    distance: NDArray[np.int32],
) -> None:
    """Run up to 64 multi-source breadth-first searches at once, one bit of a mask each, into ``distance`` [N, S].

    An edge is read once for all searches whose frontiers pass it on the same level (Then et al., The More the Merrier:
    Efficient Multi-Source Graph Traversal, VLDB 2014). ``slots`` [P] is the search of each source;
    ``bit_of`` [67] maps ``2^b mod 67`` to b.
    """
    nothing, one = np.uint64(0), np.uint64(1)
    nodes = len(indptr) - 1
    seen = np.zeros(nodes, np.uint64)
    arriving = np.zeros(nodes, np.uint64)
    leaving = np.zeros(nodes, np.uint64)
    frontier = np.empty(nodes, np.int32)
    reached = np.empty(nodes, np.int32)
    size = 0
    for place in range(len(sources)):
        node = sources[place]
        if leaving[node] == nothing:
            frontier[size] = node
            size += 1
        leaving[node] |= one << np.uint64(slots[place])
        seen[node] = leaving[node]
        distance[node, slots[place]] = 0
    depth = 0
    while size > 0:
        depth += 1
        count = 0
        for place in range(size):
            node = frontier[place]
            mask = leaving[node]
            leaving[node] = nothing
            for neighbour in indices[indptr[node] : indptr[node + 1]]:
                new = mask & ~seen[neighbour]
                if new != nothing:
                    if arriving[neighbour] == nothing:
                        reached[count] = neighbour
                        count += 1
                    arriving[neighbour] |= new
        for place in range(count):
            node = reached[place]
            mask = arriving[node]
            arriving[node] = nothing
            seen[node] |= mask
            leaving[node] = mask
            while mask != nothing:
                lowest = mask & (~mask + one)
                distance[node, bit_of[lowest % np.uint64(67)]] = depth
                mask ^= lowest
        frontier, reached, size = reached, frontier, count


F = TypeVar("F", bound=Callable[..., Any])


def numba_installed() -> bool:
    """Whether the extra ``fast`` is installed."""
    return importlib.util.find_spec("numba") is not None


@functools.cache
def compiled(kernel: F) -> F:
    """Compile a kernel of this module with numba; takes about a second once per process."""
    import numba  # an optional dependency, and slow to import

    result: F = numba.njit(kernel, nogil=True)
    return result
