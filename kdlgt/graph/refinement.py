"""Colour refinement: tell nodes apart by structure alone, without node numbers."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from kdlgt.graph.graph import Graph

MAX_ROUNDS = 8


def structural_colours(graph: Graph, rounds: int = MAX_ROUNDS) -> NDArray[np.uint64]:
    """Hash of each node's surroundings [N] by Weisfeiler-Lehman refinement, starting from the degree.

    ``h'(v) = mix(3 h(v) + sum_{u ~ v} mix(h(u)))`` modulo 2^64, until no class splits any more, at most
    ``rounds`` times. Relabelling the nodes permutes the colours and changes nothing else: sums do not depend on the
    order of neighbours.
    """
    ones = np.ones(graph.adjacency.nnz, dtype=np.uint64)
    adjacency = csr_array((ones, graph.adjacency.indices, graph.adjacency.indptr), shape=graph.adjacency.shape)
    colour = mix(graph.degree.astype(np.uint64))
    classes = np.unique(colour).size
    for _ in range(rounds):
        refined = mix(np.uint64(3) * colour + adjacency @ mix(colour))
        found = np.unique(refined).size
        if found <= classes:
            break
        colour, classes = refined, found
    return colour


def mix(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Scramble 64-bit integers one to one, so that sums of them collide by chance only (SplitMix64's finaliser)."""
    x = values + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))
