"""How near linear encodings come to the exact shortest path bias: total variation of attention weights."""

from __future__ import annotations

import pathlib
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import attrs
import torch
from scipy.sparse.csgraph import breadth_first_order
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.utils import subgraph

from kdlgt.algebra import Decomposition, Zero
from kdlgt.attention import exact_attention
from kdlgt.errors import ArgumentError, DataError
from kdlgt.graph import Graph, Prepare
from kdlgt.graph.generate import barabasi_albert, grid, path, random_regular
from kdlgt.registry import Registry
from kdlgt.rpe import RPE, IneffectiveRPE

CLIP = 250
"""Distances above this share one entry of the exact bias."""

CORA_PIECES = 3

NOTHING = "no RPE"
METHODS: Mapping[str, tuple[str, Callable[[float, int], dict[str, Any]]]] = MappingProxyType(
    {
        "SAPD mean": ("sapd", lambda decay, width: _sapd(decay, width, "mean")),
        "SAPD softmin": ("sapd", lambda decay, width: _sapd(decay, width, "softmin")),
        "eigen": ("spd", lambda decay, width: _spd(decay, approximation="eigen", rank=width)),
        "nystrom": ("spd", lambda decay, width: _spd(decay, approximation="nystrom", landmarks=width)),
        "local h=1": ("spd", lambda decay, width: _spd(decay, approximation="local", hops=1, landmarks=width)),
        "local h=2": ("spd", lambda decay, width: _spd(decay, approximation="local", hops=2, landmarks=width)),
        "walk": ("walk", lambda decay, width: {"width": width}),
    }
)
"""Each method's encoding, and its options for a decay -c per hop and a width: anchors, landmarks, rank or columns."""


@attrs.frozen(kw_only=True)
class EncodingError:
    """One method on one kind of graph.

    Attributes:
        graph: kind of graph.
        nodes: mean number of nodes.
        decay: c, the exact bias per hop.
        method: the linear encoding, or ``no RPE``.
        total_variation: mean over rows, and over the graphs of the kind.
    """

    graph: str
    nodes: int
    decay: float
    method: str
    total_variation: float


def encoding_errors(
    registry: Registry,
    graphs: Mapping[str, Sequence[Data]],
    decays: Sequence[float] = (-1.0, -0.3),
    width: int = 32,
) -> list[EncodingError]:
    """Compare attention weights under q.k = 0 with those of the exact bias ``B_ij = c d(i, j)``.

    Args:
        registry: holds the encodings.
        graphs: prepared for nothing yet, by kind.
        decays: the values of c, below 0.
        width: number of anchors, landmarks, eigenvectors or columns.

    Raises:
        ArgumentError: a decay that is not below 0.
    """
    if any(decay >= 0 for decay in decays):
        raise ArgumentError(f"decays = {tuple(decays)}; allowed: numbers < 0")
    return [
        EncodingError(
            graph=kind,
            nodes=round(sum(int(graph.num_nodes or 0) for graph in group) / len(group)),
            decay=decay,
            method=method,
            total_variation=sum(_error(registry, graph, decay, width, method) for graph in group) / len(group),
        )
        for kind, group in graphs.items()
        for decay in decays
        for method in (NOTHING, *METHODS)
    ]


def example_graphs(
    nodes: int, seed: int, registry: Registry, root: pathlib.Path | None = None
) -> dict[str, tuple[Data, ...]]:
    """A 6-regular, a grid, a Barabasi-Albert graph, a path of half the size, and pieces of Cora where it is to be had.

    Args:
        nodes: size of the graphs, up to rounding.
        seed: seed of the drawn graphs.
        registry: holds the data set.
        root: folder of raw data sets.
    """
    side = round(nodes**0.5)
    found = {
        "6-regular": (random_regular(nodes, 6, seed),),
        "grid": (grid(side, side),),
        "Barabasi-Albert": (barabasi_albert(nodes, 3, seed),),
        "path": (path(nodes // 2),),
    }
    try:
        cora: Data = registry.dataset("cora", root=root).graphs[0]
    except DataError:
        return found
    return found | {"Cora": cora_pieces(cora, nodes, seed)}


def cora_pieces(whole: Data, nodes: int, seed: int) -> tuple[Data, ...]:
    """Connected pieces of a graph: the first nodes that a breadth-first search reaches, from drawn starts."""
    graph = Graph.from_data(whole)
    largest = torch.bincount(torch.from_numpy(graph.component)).argmax()
    inside = (torch.from_numpy(graph.component) == largest).nonzero().flatten()
    generator = torch.Generator().manual_seed(seed)
    starts = inside[torch.randperm(len(inside), generator=generator)[:CORA_PIECES]]
    return tuple(_piece(graph, int(start), nodes) for start in starts)


def _piece(graph: Graph, start: int, nodes: int) -> Data:
    order = breadth_first_order(graph.adjacency, start, directed=False, return_predecessors=False)
    kept = torch.from_numpy(order[:nodes].astype("int64"))
    edges, _ = subgraph(kept, graph.data.edge_index, relabel_nodes=True, num_nodes=graph.num_nodes)
    return Data(edge_index=edges, num_nodes=len(kept))


@torch.no_grad()
def _error(registry: Registry, graph: Data, decay: float, width: int, method: str) -> float:
    exact: IneffectiveRPE = _build(registry, "spd", _spd(decay))
    target = _weights(exact.exact(_prepared(exact, graph)))
    if method == NOTHING:
        return _distance(_weights(Zero(int(graph.num_nodes or 0))), target)
    name, options = METHODS[method]
    rpe = _build(registry, name, options(decay, width))
    return _distance(_weights(rpe(_prepared(rpe, graph))), target)


def _build(registry: Registry, name: str, options: Mapping[str, Any]) -> Any:
    return registry.rpe(name, heads=1, **options).double()


def _prepared(rpe: RPE, graph: Data) -> Data:
    data: Data = Prepare(rpe.structures)(graph.clone())
    return data


def _weights(value: Decomposition) -> Tensor:
    """Attention weights [N, N] of the bias alone; a mixture of softmaxes has no dense bias, so they are read off."""
    zero = torch.zeros(value.num_nodes, 1, 1, dtype=torch.float64)
    every = torch.eye(value.num_nodes, dtype=torch.float64)[:, None, :]
    return exact_attention(zero, zero, every, value, implementation="dense")[:, 0]


def _distance(a: Tensor, b: Tensor) -> float:
    return float((a - b).abs().sum(-1).mean() / 2)


def _sapd(decay: float, width: int, pooling: str) -> dict[str, Any]:
    return {"pooling": pooling, "max_anchors": width, "initial_decay": -decay}


def _spd(decay: float, **approximation: Any) -> dict[str, Any]:
    return {"max_distance": CLIP, "decay": -decay, **approximation}
