"""The encoding: a table of one number per distance and head, exact on all pairs, and its linear approximations."""

from __future__ import annotations

from typing import Literal

import attrs
import torch
from torch import Tensor, nn
from torch_geometric.data import Data

from kdlgt.algebra import Decomposition, Sparse, Sum
from kdlgt.errors import ArgumentError
from kdlgt.graph import Graph, Structure, read_structure
from kdlgt.graph.landmarks import Landmarks
from kdlgt.rpe import RPE, IneffectiveRPE
from kdlgt_spd.distances import AllDistances, DistanceBasis, NearPairs, entries_of, entry_count, pair_entries
from kdlgt_spd.far import ConstantField, EigenField, FarField, NystromField, SapdField, at_pairs

FarName = Literal["sapd", "nystrom", "eigen", "constant"]


@attrs.frozen(kw_only=True)
class SPDOptions:
    """Options of ``spd``.

    Attributes:
        max_distance: D; longer paths share the entry ``farther``.
        decay: the table starts at ``-decay * distance``; ``farther`` and ``unreachable`` start at ``-decay * (D + 1)``.
        approximation: the linear form: ``sapd``, ``nystrom``, ``eigen``, or ``local``: the exact values within ``hops``
            steps as a sparse correction on ``far``.
        far: the far field under ``local``.
        hops: h, the reach of the correction under ``local``.
        landmarks: number of landmarks K of ``sapd`` and ``nystrom``.
        ridge: eigenvalues of the landmarks' own matrix below this share of its norm are damped in ``nystrom``; smaller
            is nearer exact where the landmarks are most of the graph, and worse elsewhere.
        rank: number of columns m of ``eigen``.
        exact_limit: graphs up to this many nodes get all distances at preparation (n^2 bytes); those of larger graphs
            are computed in each call of exact attention.
    """

    max_distance: int = 8
    decay: float = 0.5
    approximation: Literal["sapd", "nystrom", "eigen", "local"] = "sapd"
    far: FarName = "sapd"
    hops: int = 1
    landmarks: int = 32
    ridge: float = attrs.field(default=1e-2, validator=attrs.validators.gt(0.0))
    rank: int = 32
    exact_limit: int = 256


class SPDRPE(IneffectiveRPE):
    """``B_ij = t_h[d(i, j)]`` with a learned table t (Graphormer's spatial encoding): full rank, so approximated.

    Attributes:
        table: [D + 3, H]: the distances 0..D, ``farther``, ``unreachable``.

    Raises:
        ArgumentError: an option is out of range.
    """

    def __init__(self, heads: int, options: SPDOptions) -> None:
        super().__init__(heads)
        self.options = options
        self.distances = AllDistances(options.max_distance, options.exact_limit)
        local = options.approximation == "local"
        self.near = NearPairs(options.hops) if local else None
        self.far = _far_field(options, options.far if options.approximation == "local" else options.approximation)
        self.factor_width = self.far.factor_width
        start = -options.decay * torch.arange(entry_count(options.max_distance)).clamp(max=options.max_distance + 1)
        self.table = nn.Parameter(start[:, None].repeat(1, heads))

    @property
    def structures(self) -> tuple[Structure, ...]:
        """All distances of small graphs, and what the approximation reads."""
        near = () if self.near is None else (self.near,)
        return (self.distances, *near, *self.far.structures)

    def pair_bias(self, batch: Data, pairs: Tensor) -> Tensor:
        """``t[d(i, j)]`` [P, H]."""
        return self.table[pair_entries(batch, self.distances, pairs)]

    def forward(self, batch: Data, x: Tensor | None = None) -> Decomposition:
        """The linear form; ``x`` is not used."""
        value = self.far.value(batch, self.table, self.options.max_distance)
        if self.near is None:
            return value
        return Sum((value, self._correction(batch, value, self.near)))

    def _correction(self, batch: Data, value: Decomposition, near: NearPairs) -> Sparse:
        """``t[d(i, j)]`` minus the far field, on the pairs within h hops."""
        pairs = read_structure(batch, near, "pair_index")
        exact = self.table[entries_of(read_structure(batch, near, "pair_hops"), self.options.max_distance)]
        return Sparse(pairs, exact - at_pairs(value, pairs), int(batch.num_nodes or 0))


def _far_field(options: SPDOptions, name: FarName) -> FarField:
    if name == "constant":
        return ConstantField()
    if name == "eigen":
        return EigenField(DistanceBasis(options.max_distance, options.rank))
    landmarks = Landmarks(options.landmarks)
    return SapdField(landmarks) if name == "sapd" else NystromField(landmarks, options.ridge)


def spd_reference(rpe: RPE, data: Data) -> Tensor:
    """``B`` [H, N, N] float64 by a breadth-first search in plain Python from every node.

    Raises:
        ArgumentError: ``rpe`` is no :class:`SPDRPE`.
    """
    if not isinstance(rpe, SPDRPE):
        raise ArgumentError(f"spd_reference got a {type(rpe).__name__}; expected an SPDRPE")
    graph = Graph.from_data(data, symmetrise=True)
    neighbours = [row.indices.tolist() for row in (graph.adjacency[[node]] for node in range(graph.num_nodes))]
    largest = rpe.options.max_distance
    rows = []
    for source in range(graph.num_nodes):
        found = _search(neighbours, source)
        rows.append(
            [min(found[node], largest + 1) if node in found else largest + 2 for node in range(graph.num_nodes)]
        )
    return rpe.table.double()[torch.tensor(rows)].permute(2, 0, 1)


def _search(neighbours: list[list[int]], source: int) -> dict[int, int]:
    distance, frontier = {source: 0}, [source]
    while frontier:
        reached = {node for near in frontier for node in neighbours[near]} - distance.keys()
        step = distance[frontier[0]] + 1
        distance |= dict.fromkeys(reached, step)
        frontier = list(reached)
    return distance
