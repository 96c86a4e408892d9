"""Time to prepare structure on large graphs, beside what scipy offers for the same."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from scipy.sparse import diags_array
from scipy.sparse.csgraph import breadth_first_order, dijkstra
from scipy.sparse.linalg import eigsh

from kdlgt.experiments.measure import Actions, Build
from kdlgt.graph import Graph
from kdlgt.graph.generate import grid, random_regular
from kdlgt.registry import load_plugins

ACTION = "prepare"
TOPOLOGIES = ("6-regular", "grid")
HOPS = 2

ENCODINGS: Mapping[str, tuple[str, ...]] = {
    "sapd": ("kdlgt", "scipy breadth_first_order", "scipy dijkstra"),
    "spectral": ("kdlgt", "scipy eigsh"),
}
"""Methods by encoding. The first scipy method of ``sapd`` visits K times without distances; all search from K nodes."""


def preparation_methods(
    encoding: str, topology: str, width: int, methods: Sequence[str]
) -> dict[str, Callable[[int], Build]]:
    """By method, what builds the work for a number of nodes.

    Args:
        encoding: ``sapd`` or ``spectral``.
        topology: kind of graph.
        width: number of anchors K, or of eigenpairs m.
        methods: as in :data:`ENCODINGS`.
    """
    return {method: functools.partial(_for_size, encoding, topology, width, method) for method in methods}


def _for_size(encoding: str, topology: str, width: int, method: str, nodes: int) -> Build:
    return functools.partial(_build, encoding, topology, width, method, nodes)


def _build(encoding: str, topology: str, width: int, method: str, nodes: int) -> Actions:
    graph = _graph(topology, nodes)
    works: dict[tuple[str, str], Callable[[], object]] = {
        ("sapd", "kdlgt"): lambda: _structure("sapd", graph, k=HOPS, max_anchors=width),
        ("sapd", "scipy breadth_first_order"): lambda: [
            breadth_first_order(graph.adjacency, int(node), directed=False) for node in _sources(graph, width)
        ],
        ("sapd", "scipy dijkstra"): lambda: dijkstra(
            graph.adjacency, directed=True, unweighted=True, indices=_sources(graph, width)
        ),
        ("spectral", "kdlgt"): lambda: _structure("spectral", graph, rank=width),
        ("spectral", "scipy eigsh"): lambda: _eigsh(graph, width),
    }
    return {ACTION: works[encoding, method]}


def _graph(topology: str, nodes: int) -> Graph:
    side = round(nodes**0.5)
    return Graph.from_data(random_regular(nodes, 6, seed=0) if topology == "6-regular" else grid(side, side))


def _structure(encoding: str, graph: Graph, **options: int) -> object:
    """What the encoding computes once per graph; a graph of its own, since properties of graphs are kept."""
    fresh = Graph(graph.adjacency, graph.data)
    rpe = load_plugins(allow=encoding).rpe(encoding, heads=1, **options)
    return [structure.compute(fresh) for structure in rpe.structures]


def _sources(graph: Graph, width: int) -> np.ndarray:
    return np.linspace(0, graph.num_nodes - 1, width).astype(np.int64)


def _eigsh(graph: Graph, width: int) -> object:
    """The largest eigenpairs of the normalised adjacency, which are the Laplacian's smallest, from a fixed start."""
    scaling = diags_array(1.0 / np.sqrt(np.maximum(graph.degree, 1)))
    normalised = scaling @ graph.adjacency.astype(np.float64) @ scaling
    return eigsh(normalised, k=width + 1, which="LA", v0=np.ones(graph.num_nodes))
