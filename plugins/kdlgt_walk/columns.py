"""Fewer columns than nodes: visits are counted per bucket of nodes.

Features of walks have one column per node, and attention costs a state per column, so they are summed over buckets:
``F S`` with S [N, K] the indicator matrix of the buckets. The kernel ``F S S^T F^T`` stays non-negative and exact for
what it says: two walks meet when they visit the same *bucket*. With K >= N buckets are nodes and nothing is lost.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from kdlgt.graph import Graph
from kdlgt.graph.landmarks import farthest_first

Columns = Literal["cells", "hash"]


def bucket_of_node(graph: Graph, width: int, columns: Columns, seed: int) -> NDArray[np.int64]:
    """Bucket of each node [N].

    Args:
        graph: the graph.
        width: number of buckets K.
        columns: ``cells`` puts each node with its nearest landmark, so that buckets are neighbourhoods; ``hash`` draws
            buckets of equal size, where far nodes share a bucket: its kernel exceeds the full one by about
            ``(F 1)(F 1)^T / K``.
        seed: seed of ``hash``.
    """
    nodes = graph.num_nodes
    if nodes <= width:
        return np.arange(nodes)
    if columns == "hash":
        return np.random.default_rng(seed).permutation(nodes) % width
    hops = farthest_first(graph, width)[1]
    reachable = np.where(hops >= 0, hops, np.iinfo(np.int32).max)
    lonely = (hops < 0).all(axis=1)
    return np.where(lonely, graph.component % width, reachable.argmin(axis=1))


def indicator(bucket: NDArray[np.int64], width: int) -> csr_array:
    """S [N, K]."""
    nodes = len(bucket)
    return csr_array((np.ones(nodes), (np.arange(nodes), bucket)), shape=(nodes, width))
