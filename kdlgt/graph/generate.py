"""Synthetic graphs for benchmarks and tests: every one undirected and simple, with both directions of each edge."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch_geometric.data import Data

from kdlgt.errors import ArgumentError, require_at_least

_RESTARTS = 100
_TRIES = 1000

Integers = NDArray[np.int64]


def random_regular(n: int, degree: int, seed: int) -> Data:
    """A random ``degree``-regular simple graph, by the pairing model with switches that repair loops and double edges.

    Each node owns ``degree`` stubs, a random perfect matching of the stubs gives the edges, and each loop or surplus
    parallel edge {u, v} is exchanged with a random edge {x, y} for {u, x}, {v, y} (McKay and Wormald 1990). For fixed
    degree only O(1) edges need a repair, so the time is that of one shuffle. Degrees above (n - 1) / 2 are complements.

    Args:
        n: number of nodes.
        degree: neighbours of each node, below ``n``; ``n * degree`` even.
        seed: seed of the generator.

    Raises:
        ArgumentError: no such graph exists.
    """
    require_at_least("n", n, 1)
    require_at_least("degree", degree, 0, n - 1)
    if n * degree % 2:
        raise ArgumentError(f"n * degree = {n} * {degree} is odd; one of them must be even")
    generator = np.random.default_rng(seed)
    if 2 * degree > n - 1:
        return _from_neighbours(_complement(_regular_neighbours(n, n - 1 - degree, generator)))
    return _from_neighbours(_regular_neighbours(n, degree, generator))


def grid(rows: int, cols: int) -> Data:
    """The ``rows`` x ``cols`` grid, numbered row by row."""
    require_at_least("rows", rows, 1)
    require_at_least("cols", cols, 1)
    number = np.arange(rows * cols).reshape(rows, cols)
    right = np.stack([number[:, :-1].ravel(), number[:, 1:].ravel()])
    down = np.stack([number[:-1].ravel(), number[1:].ravel()])
    return _from_edges(np.concatenate([right, down], axis=1), rows * cols)


def path(n: int) -> Data:
    """The path 0 - 1 - ... - (n - 1)."""
    return grid(1, n)


def cycle(n: int) -> Data:
    """The cycle of n >= 3 nodes."""
    require_at_least("n", n, 3)
    number = np.arange(n)
    return _from_edges(np.stack([number, np.roll(number, -1)]), n)


def star(n: int) -> Data:
    """The star of n nodes: node 0 joined to each of the n - 1 others."""
    require_at_least("n", n, 1)
    leaves = np.arange(1, n)
    return _from_edges(np.stack([np.zeros_like(leaves), leaves]), n)


def clique(n: int) -> Data:
    """The complete graph of n nodes."""
    require_at_least("n", n, 1)
    return _from_edges(np.stack(np.triu_indices(n, 1)), n)


def barabasi_albert(n: int, m: int, seed: int) -> Data:
    """Preferential attachment: each new node joins m distinct nodes, drawn in proportion to their degree.

    The first m + 1 nodes form a star (Barabasi and Albert 1999; drawing an edge end uniformly is drawing by degree).

    Args:
        n: number of nodes, above ``m``.
        m: edges of each new node.
        seed: seed of the generator.

    Raises:
        ArgumentError: ``m`` is not in 1..n - 1.
    """
    require_at_least("n", n, 2)
    require_at_least("m", m, 1, n - 1)
    generator = np.random.default_rng(seed)
    ends: list[int] = [end for leaf in range(1, m + 1) for end in (0, leaf)]
    uniform = generator.random((n, m)).tolist()
    for node in range(m + 1, n):
        targets = {ends[int(u * len(ends))] for u in uniform[node]}
        while len(targets) < m:
            targets.add(ends[int(generator.integers(len(ends)))])
        for target in sorted(targets):
            ends += (node, target)
    return _from_edges(np.array(ends, dtype=np.int64).reshape(-1, 2).T, n)


def _regular_neighbours(n: int, degree: int, generator: np.random.Generator) -> Integers:
    """Neighbour table [n, degree]; dense requests can run into a dead end, so that a new matching is drawn."""
    for _ in range(_RESTARTS):
        mate = _random_matching(n * degree, generator)
        if _repair(mate, degree, generator):
            return mate.reshape(n, degree) // max(degree, 1)
    raise ArgumentError(f"no {degree}-regular graph of {n} nodes found in {_RESTARTS} attempts; take another seed")


def _random_matching(stubs: int, generator: np.random.Generator) -> Integers:
    order = generator.permutation(stubs)
    mate = np.empty(stubs, dtype=np.int64)
    mate[order[::2]] = order[1::2]
    mate[order[1::2]] = order[::2]
    return mate


def _repair(mate: Integers, degree: int, generator: np.random.Generator) -> bool:
    """Switch away loops and parallel edges in place; whether that succeeded."""
    for stub in _faulty(mate, degree):
        if _is_faulty(mate, degree, stub) and not any(_switch(mate, degree, stub, generator) for _ in range(_TRIES)):
            return False
    return True


def _faulty(mate: Integers, degree: int) -> list[int]:
    """One stub of each loop, and of each edge beyond the first between two nodes."""
    if not len(mate):
        return []
    nodes = len(mate) // degree
    node = np.arange(len(mate)) // degree
    other = mate // degree
    first = np.flatnonzero((node < other) | ((node == other) & (np.arange(len(mate)) < mate)))
    code = node[first] * nodes + other[first]
    order = np.argsort(code, kind="stable")
    surplus = np.zeros(len(first), dtype=bool)
    surplus[order[1:]] = code[order[1:]] == code[order[:-1]]
    return [int(stub) for stub in first[surplus | (node[first] == other[first])]]


def _is_faulty(mate: Integers, degree: int, stub: int) -> bool:
    node, other = stub // degree, int(mate[stub]) // degree
    return node == other or int((_around(mate, degree, node) == other).sum()) > 1


def _around(mate: Integers, degree: int, node: int) -> Integers:
    return mate[node * degree : (node + 1) * degree] // degree


def _switch(mate: Integers, degree: int, stub: int, generator: np.random.Generator) -> bool:
    """Exchange partners with a random edge unless that makes a loop or a parallel edge; whether it was done."""
    second = int(generator.integers(len(mate)))
    partner, second_partner = int(mate[stub]), int(mate[second])
    if second in (stub, partner):
        return False
    for a, b in ((stub, second), (partner, second_partner)):
        if a // degree == b // degree or (_around(mate, degree, a // degree) == b // degree).any():
            return False
    if (stub // degree, second // degree) in (
        (partner // degree, second_partner // degree),
        (second_partner // degree, partner // degree),
    ):
        return False
    mate[[stub, second, partner, second_partner]] = [second, stub, second_partner, partner]
    return True


def _complement(neighbours: Integers) -> Integers:
    nodes = len(neighbours)
    absent = ~np.eye(nodes, dtype=bool)
    np.put_along_axis(absent, neighbours, values=False, axis=1)
    return np.nonzero(absent)[1].astype(np.int64).reshape(nodes, -1)


def _from_neighbours(neighbours: Integers) -> Data:
    nodes, degree = neighbours.shape
    row = np.repeat(np.arange(nodes), degree)
    edges = np.stack([row, np.sort(neighbours, axis=1).ravel()])
    return Data(edge_index=torch.from_numpy(edges), num_nodes=nodes)


def _from_edges(edges: Integers, nodes: int) -> Data:
    """Both directions of each edge [2, E] given once, sorted by source and target."""
    both = np.concatenate([edges, edges[::-1]], axis=1).astype(np.int64)
    order = np.lexsort((both[1], both[0]))
    return Data(edge_index=torch.from_numpy(np.ascontiguousarray(both[:, order])), num_nodes=nodes)
