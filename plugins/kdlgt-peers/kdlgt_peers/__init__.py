"""An encoding by which nodes attend to nodes of similar degree.

To make it your own, change the structure, the options, the module, the reference, and what the spec claims.
"""

from __future__ import annotations

import attrs
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch_geometric.data import Data

from kdlgt.algebra import Additive, Decomposition, Multiplicative
from kdlgt.errors import ArgumentError
from kdlgt.graph import Graph, Structure, read_structure
from kdlgt.registry import RPESpec, hookimpl
from kdlgt.rpe import RPE, MultiplicativeRPE


@attrs.frozen
class PeersStructure(Structure):
    """The logarithm of one plus the number of neighbours of each node: field ``value`` [N]."""

    def compute(self, graph: Graph) -> dict[str, Tensor]:
        """Compute the field of one graph."""
        return {"value": torch.log1p(torch.from_numpy(graph.degree).double())}


@attrs.frozen(kw_only=True)
class PeersOptions:
    """What a config may set.

    Attributes:
        strength: the strength w that training starts from, above 0.
    """

    strength: float = 0.5


class PeersRPE(MultiplicativeRPE):
    """``B_ij = -w_h (t_i - t_j)^2`` with t the log degree and one learned strength ``w_h > 0`` per head.

    ``-w (t_i - t_j)^2 = 2 w t_i t_j - w t_i^2 - w t_j^2``: a product of rank one and an additive part, both exact.

    Args:
        heads: number of heads H.
        options: see :class:`PeersOptions`.

    Raises:
        ArgumentError: the strength is not above 0.
    """

    def __init__(self, heads: int, options: PeersOptions) -> None:
        super().__init__(heads, factor_width=1)
        if not options.strength > 0:
            raise ArgumentError(f"strength = {options.strength!r}; allowed: a number > 0")
        self.structure = PeersStructure()
        start = torch.tensor(options.strength).expm1().log()
        self.theta = nn.Parameter(start.repeat(heads))

    @property
    def structures(self) -> tuple[Structure, ...]:
        """The log degrees."""
        return (self.structure,)

    def forward(self, batch: Data, x: Tensor | None = None) -> Decomposition:
        """The bias on a prepared batch; the states ``x`` are not used."""
        trait = read_structure(batch, self.structure, "value").to(self.theta)[:, None]
        weight = functional.softplus(self.theta)
        factor = (trait * (2.0 * weight).sqrt())[:, :, None]
        penalty = -weight * trait.square()
        return Multiplicative(factor, factor) + Additive(penalty, penalty)


def reference(rpe: RPE, data: Data) -> Tensor:
    """``B`` [H, N, N] in float64, the slow and obvious way."""
    if not isinstance(rpe, PeersRPE):
        raise ArgumentError(f"reference got {type(rpe).__name__}; expected PeersRPE")
    edges = {(i, j) for i, j in data.edge_index.T.tolist() if i != j}
    nodes = int(data.num_nodes or 0)
    degree = torch.tensor([sum(i == node for i, _ in edges) for node in range(nodes)])
    trait = (1.0 + degree.double()).log()
    weight = functional.softplus(rpe.theta.double())
    return -weight[:, None, None] * (trait[:, None] - trait[None, :]).square()


@hookimpl
def kdlgt_rpes() -> list[RPESpec]:
    """The encoding ``peers``."""
    return [
        RPESpec(
            name="peers",
            factory=lambda heads, channels, options: PeersRPE(heads, options),
            options=PeersOptions,
            # Change this: what is claimed from here on is shown to users, and the conformance kit checks it.
            kind="multiplicative",
            exactness="exact",
            symmetric=True,
            equivariance="exact",
            complexity="O(N)",
            summary="attention to nodes of similar degree",
            reference=reference,
        )
    ]
