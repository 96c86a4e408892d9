"""Small graphs, small encodings of each kind, and models made of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch_geometric.data import Data
from torch_geometric.utils import to_undirected

from kdlgt.algebra import Additive, Decomposition, Kernel, Multiplicative
from kdlgt.features import FavorPlus
from kdlgt.graph import Prepare, Structure, read_structure
from kdlgt.model import (
    AttentionBlock,
    Degree,
    DegreeEncoder,
    EdgeEncoder,
    GraphHead,
    GraphTransformer,
    LocalBranch,
    NodeEncoder,
    NodeHead,
    TransformerLayer,
    feature_encoder,
    make_norm,
)
from kdlgt.rpe import RPE, AdditiveRPE, IneffectiveRPE, KernelRPE, MultiplicativeRPE

HIDDEN, HEADS = 16, 4


class StateFactors(MultiplicativeRPE):
    """Factors from the node states, as SAT has them."""

    needs_states = True

    def __init__(self, heads: int, channels: int = HIDDEN) -> None:
        super().__init__(heads, 3)
        self.query = nn.Linear(channels, heads * 3)
        self.key = nn.Linear(channels, heads * 3)

    def forward(self, batch: Data, x: Tensor | None = None) -> Decomposition:
        assert x is not None
        return Multiplicative(*(side(x / 2).unflatten(-1, (self.heads, 3)) for side in (self.query, self.key)))


class WithDegree:
    """What the encodings below have in common: they read degrees, and count their calls."""

    calls = 0

    @property
    def structures(self) -> tuple[Structure, ...]:
        return (Degree(),)

    def degree(self, batch: Data, like: Tensor) -> Tensor:
        self.calls += 1
        return read_structure(batch, Degree(), "degree").to(like.dtype)[:, None]


class DegreeWeight(WithDegree, AdditiveRPE):
    """``B_ij = w_h deg(j)``."""

    def __init__(self, heads: int) -> None:
        super().__init__(heads)
        self.weight = nn.Parameter(torch.linspace(-0.3, 0.3, heads))

    def forward(self, batch: Data, x: Tensor | None = None) -> Decomposition:
        column = self.degree(batch, self.weight) * self.weight
        return Additive(torch.zeros_like(column), column)


class DegreeKernel(WithDegree, KernelRPE):
    """``exp(B_ij) = sum_a exp(c |deg(i) - a| + c |deg(j) - a|)``."""

    def __init__(self, heads: int) -> None:
        super().__init__(heads)
        self.decay = nn.Parameter(-torch.linspace(0.2, 0.6, heads))

    def forward(self, batch: Data, x: Tensor | None = None) -> Decomposition:
        levels = torch.arange(3, dtype=self.decay.dtype)
        log = (self.degree(batch, self.decay) - levels).abs()[:, None, :] * self.decay[:, None]
        return Kernel(log, log)


class DegreeGap(WithDegree, IneffectiveRPE):
    """``B_ij = -w |deg(i) - deg(j)|`` exactly; nothing at all linearly."""

    def __init__(self, heads: int) -> None:
        super().__init__(heads)
        self.weight = nn.Parameter(torch.full((heads,), 0.7))

    def forward(self, batch: Data, x: Tensor | None = None) -> Decomposition:
        zero = self.degree(batch, self.weight) * self.weight * 0
        return Additive(zero, zero)

    def pair_bias(self, batch: Data, pairs: Tensor) -> Tensor:
        degree = self.degree(batch, self.weight)
        return -(degree[pairs[0]] - degree[pairs[1]]).abs() * self.weight


ENCODINGS: dict[str, Callable[[int], RPE] | None] = {
    "none": None,
    "states": StateFactors,
    "additive": DegreeWeight,
    "kernel": DegreeKernel,
    "ineffective": DegreeGap,
    "sum": lambda heads: StateFactors(heads) + DegreeWeight(heads) + DegreeKernel(heads),
}


@pytest.fixture
def make_graph() -> Callable[..., Data]:
    """``make_graph(nodes, seed=0, edges=2 * nodes, dtype=float32)``: a prepared random graph with 5 float features."""

    def make(nodes: int, seed: int = 0, edges: int | None = None, dtype: torch.dtype = torch.float32) -> Data:
        draw = torch.Generator().manual_seed(seed)
        ends = torch.randint(nodes, (2, 2 * nodes if edges is None else edges), generator=draw)
        edge_index = to_undirected(ends[:, ends[0] != ends[1]], num_nodes=nodes)
        x = torch.randn(nodes, 5, generator=draw, dtype=dtype)
        edge_attr = torch.randn(edge_index.size(1), 3, generator=draw, dtype=dtype)
        data = Data(x=x, edge_index=edge_index, edge_attr=edge_attr, num_nodes=nodes)
        prepared: Data = Prepare([Degree()])(data)
        return prepared

    return make


@pytest.fixture
def make_model() -> Callable[..., GraphTransformer]:
    """``make_model(encoding="none", ...)``: a model from objects; the same arguments give the same parameters."""

    def make(
        encoding: str = "none",
        *,
        in_features: int | tuple[int, ...] | None = 5,
        level: str = "node",
        readout: Any = "mean",
        conv: str | None = None,
        edge_features: int | tuple[int, ...] | None = None,
        num_features: int = 16,
        layers: int = 2,
        share: bool = False,
        attend: bool = True,
        norm: Any = "layer",
        normalise: bool = False,
        dropout: float = 0.0,
        degree: bool = False,
        **options: Any,
    ) -> GraphTransformer:
        maker = ENCODINGS[encoding]

        def attention(shared: RPE | None) -> AttentionBlock:
            own = maker(HEADS) if maker and not share else None
            rpe = shared or own
            features = FavorPlus(HIDDEN // HEADS + (rpe.factor_width if rpe else 0), num_features, HEADS)
            return AttentionBlock(HIDDEN, HEADS, features, own, normalise=normalise)

        def layer(shared: RPE | None) -> TransformerLayer:
            edges = HIDDEN if edge_features is not None else None
            local = LocalBranch(conv, HIDDEN, heads=HEADS, edge_channels=edges) if conv else None
            block = attention(shared) if attend else None
            return TransformerLayer(HIDDEN, block, local, feed_forward=32, norm=norm, dropout=dropout)

        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            shared = maker(HEADS) if maker and share else None
            features = None if in_features is None else feature_encoder(in_features, HIDDEN)
            degrees = DegreeEncoder(HIDDEN, 8) if degree or features is None else None
            edge_encoder = (
                None if edge_features is None else EdgeEncoder(feature_encoder(edge_features, HIDDEN, what="edge"))
            )
            head = NodeHead(HIDDEN, 3) if level == "node" else GraphHead(HIDDEN, 3, readout)
            model = GraphTransformer(
                NodeEncoder(features, degrees, hidden=HIDDEN),
                [layer(shared) for _ in range(layers)],
                make_norm(norm, HIDDEN),
                head,
                edge_encoder=edge_encoder,
                shared_rpe=shared,
                **options,
            )
        model.redraw(0)
        return model.eval()

    return make
