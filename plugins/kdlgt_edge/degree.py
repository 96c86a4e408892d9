"""``B_ij = t[deg(i)] + t[deg(j)]``: in the softmax, a learned key weight per degree."""

from __future__ import annotations

import attrs
import numpy as np
import torch
from torch import Tensor, nn
from torch_geometric.data import Data

from kdlgt.algebra import Additive
from kdlgt.errors import ArgumentError, require_at_least
from kdlgt.graph import Graph, Structure, read_structure
from kdlgt.rpe import RPE, AdditiveRPE


@attrs.frozen
class Degrees(Structure):
    """Number of neighbours of each node: field ``degree`` [N] int64, self-loops and duplicate edges not counted."""

    def compute(self, graph: Graph) -> dict[str, Tensor]:
        """Read off the compressed rows."""
        return {"degree": torch.from_numpy(graph.degree)}


@attrs.frozen(kw_only=True)
class DegreeOptions:
    """Options of ``degree``.

    Attributes:
        max_degree: larger degrees share one entry.
        slope: the table starts at ``slope * log(1 + degree)``.
    """

    max_degree: int = 64
    slope: float = 0.0


class DegreeRPE(AdditiveRPE):
    """``B_ij = t_h[deg(i)] + t_h[deg(j)]``, t a learned table [max_degree + 2, H], the last for larger degrees."""

    def __init__(self, heads: int, options: DegreeOptions) -> None:
        super().__init__(heads)
        require_at_least("max_degree", options.max_degree, 0)
        self.options = options
        self.structure = Degrees()
        start = options.slope * torch.arange(options.max_degree + 2).float().log1p()
        self.table = nn.Parameter(start[:, None].repeat(1, heads))

    @property
    def structures(self) -> tuple[Structure, ...]:
        """Degrees."""
        return (self.structure,)

    def forward(self, batch: Data, x: Tensor | None = None) -> Additive:
        """Row and column term [N, H]; ``x`` is not used."""
        degree = read_structure(batch, self.structure, "degree")
        weight = self.table[degree.clamp(max=self.options.max_degree + 1)]
        return Additive(weight, weight)


def degree_reference(rpe: RPE, data: Data) -> Tensor:
    """``B`` [H, N, N] float64 from the row sums of the dense adjacency matrix.

    Raises:
        ArgumentError: ``rpe`` is no :class:`DegreeRPE`.
    """
    if not isinstance(rpe, DegreeRPE):
        raise ArgumentError(f"degree_reference got a {type(rpe).__name__}; expected a DegreeRPE")
    adjacency = Graph.from_data(data, symmetrise=True).adjacency.toarray()
    degree = np.minimum(adjacency.sum(1).astype(np.int64), rpe.options.max_degree + 1)
    weight = rpe.table.double()[torch.from_numpy(degree)].T
    return weight[:, :, None] + weight[:, None, :]
