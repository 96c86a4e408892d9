"""SAT: structure-aware attention as a multiplicative encoding."""

from __future__ import annotations

import math
from typing import Any, Literal

import attrs
import torch
from torch import Tensor, nn
from torch_geometric.data import Data

from kdlgt.algebra import Decomposition, Multiplicative
from kdlgt.errors import ArgumentError, require_at_least
from kdlgt.graph import Structure
from kdlgt.model import tempered
from kdlgt.rpe import MultiplicativeRPE
from kdlgt_sat.extractor import Extractor, SubgraphExtractor, SubtreeExtractor


@attrs.frozen(kw_only=True)
class SATOptions:
    """Options of ``sat``.

    Attributes:
        extractor: ``k-subtree``, a GNN over the whole graph read at each node, or ``k-subgraph``, the GNN over each
            node's ego graph, averaged.
        k: layers of the GNN, and hops of the ego graph.
        gnn: the convolution, by the names of ``[model.local]`` that need no edge features.
        width: factor width per head; ``None`` takes the channels of one head.
        normalise: unit factors with a learned temperature per head, as ``model.attention.normalise`` does for queries
            and keys. The bias is then at most the temperature, which keeps random features accurate; SAT's own bias
            is not bounded.
    """

    extractor: Literal["k-subtree", "k-subgraph"] = "k-subtree"
    k: int = 2
    gnn: str = "GIN"
    width: int | None = None
    normalise: bool = False


class SAT(MultiplicativeRPE):
    """``B = (S Wq)(S Wk)^T / sqrt(m)`` with ``S_i = phi(v_i, G)`` (KDLGT section 4.2; SAT equation 7).

    The scale is split, ``m^(-1/4)`` on each side: the same product, and random features vary less. With
    ``normalise``, ``B_ij = tau cos(S_i Wq, S_j Wk)``, tau > 0 learned per head.

    Args:
        heads: number of heads H.
        channels: width of the node states.
        options: extractor, k, gnn, width, normalise.

    Raises:
        ArgumentError: a size below 1, an unknown extractor, or, from a call, missing states.
        UnknownNameError: an unknown convolution.

    Source: Chen, O'Bray, Borgwardt, Structure-Aware Transformer for Graph Representation Learning, ICML 2022.
    """

    needs_states = True

    def __init__(self, heads: int, channels: int, options: SATOptions) -> None:
        require_at_least("channels", channels, 1)
        require_at_least("heads", heads, 1)
        width = max(1, channels // heads) if options.width is None else options.width
        super().__init__(heads, width)
        self.channels = channels
        self.extractor = _extractor(channels, options)
        self.query = nn.Linear(channels, heads * width, bias=False)
        self.key = nn.Linear(channels, heads * width, bias=False)
        self.log_temperature = nn.Parameter(torch.zeros(heads)) if options.normalise else None

    @property
    def structures(self) -> tuple[Structure, ...]:
        """The extractor's edges or ego graphs."""
        return (self.extractor.structure,)

    def forward(self, batch: Data, x: Tensor | None = None) -> Decomposition:
        """Factors [N, H, m] from the node states ``x`` [N, channels]."""
        if x is None or x.dim() != 2 or x.size(1) != self.channels:
            got = "none" if x is None else f"shape {tuple(x.shape)}"
            raise ArgumentError(f"sat reads node states [N, {self.channels}] and got {got}; call it as rpe(batch, x)")
        states = self.extractor(batch, x)
        return Multiplicative(self._factor(self.query(states)), self._factor(self.key(states)))

    def _factor(self, x: Tensor) -> Tensor:
        """Factor [N, H, m], with half of the scale."""
        x = x.view(-1, self.heads, self.factor_width)
        if self.log_temperature is None:
            return x / math.sqrt(math.sqrt(self.factor_width))
        return tempered(x, self.log_temperature)


def make_sat(heads: int, channels: int, options: Any) -> SAT:
    """Build the encoding from its options."""
    return SAT(heads, channels, options)


def _extractor(channels: int, options: SATOptions) -> Extractor:
    match options.extractor:
        case "k-subtree":
            return SubtreeExtractor(channels, options.k, options.gnn)
        case "k-subgraph":
            return SubgraphExtractor(channels, options.k, options.gnn)
    raise ArgumentError(f"extractor = {options.extractor!r}; allowed: 'k-subtree', 'k-subgraph'")
