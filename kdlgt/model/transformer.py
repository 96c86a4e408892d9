"""The generic linear graph transformer: it takes objects, never names."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from torch import Tensor, nn
from torch_geometric.data import Data

from kdlgt.config.schema import AttentionMode
from kdlgt.errors import require_at_least
from kdlgt.graph import Structure, graph_ptr
from kdlgt.model.attention_block import AttentionBlock, Bias, evaluate_rpe
from kdlgt.model.encoder import EdgeEncoder, NodeEncoder
from kdlgt.model.layer import TransformerLayer
from kdlgt.model.readout import GraphHead, NodeHead
from kdlgt.model.segments import Segment, plan_segments
from kdlgt.rpe import RPE


class GraphTransformer(nn.Module):
    """Encoder, layers, a last norm, and a head per node or per graph.

    Unless it holds batch norm, a graph's output and gradient do not depend on the other graphs of its batch.

    Args:
        encoder: from the batch to the first states [N, hidden].
        layers: the layers, in order.
        norm: the last norm.
        head: a :class:`NodeHead` or :class:`GraphHead`.
        edge_encoder: edge states for the local branches, or ``None``.
        shared_rpe: one encoding for all layers; ``None`` leaves each layer its own.
        mode: ``"linear"``, ``"exact"`` (the quadratic twin on the same parameters), or ``"auto"``.
        auto_threshold: with ``"auto"``, graphs of up to this many nodes attend exactly.

    Raises:
        ArgumentError: no layers, or a negative threshold.
        DtypeError, GraphError, NotPreparedError: from a call, on a batch that the model was not built for.
    """

    def __init__(
        self,
        encoder: NodeEncoder,
        layers: Iterable[TransformerLayer],
        norm: nn.Module,
        head: NodeHead | GraphHead,
        *,
        edge_encoder: EdgeEncoder | None = None,
        shared_rpe: RPE | None = None,
        mode: AttentionMode = "linear",
        auto_threshold: int = 700,
    ) -> None:
        super().__init__()
        self.encoder = encoder
        self.edge_encoder = edge_encoder
        self.shared_rpe = shared_rpe
        self.layers = nn.ModuleList(layers)
        require_at_least("layers", len(self.layers), 1)
        require_at_least("auto_threshold", auto_threshold, 0)
        self.norm = norm
        self.head = head
        self.mode = mode
        self.auto_threshold = auto_threshold

    def forward(self, batch: Data) -> Tensor:
        """Outputs [N, out] per node or [G, out] per graph, for a PyG ``Data`` or ``Batch`` that was prepared."""
        output: Tensor = self.head(self.embed(batch), graph_ptr(batch))
        return output

    def embed(self, batch: Data) -> Tensor:
        """Final node states [N, hidden], before the head."""
        segments = plan_segments(batch, self.mode, self.auto_threshold)
        states = self.encoder(batch)
        edge_states = None if self.edge_encoder is None else self.edge_encoder(batch)
        bias = self._shared_bias(segments)
        for layer in self.layers:
            states = layer(states, segments, batch.get("edge_index"), edge_states, bias)
        normed: Tensor = self.norm(states)
        return normed

    def _shared_bias(self, segments: tuple[Segment, ...]) -> Bias | None:
        """The shared encoding's bias: evaluated once per forward unless it reads the states of each layer."""
        rpe = self.shared_rpe
        if rpe is None:
            return None
        if rpe.needs_states:
            return lambda segment, x: evaluate_rpe(rpe, segment, x)
        values = {segment: evaluate_rpe(rpe, segment, None) for segment in segments}
        return lambda segment, x: values[segment]

    @property
    def attention_blocks(self) -> tuple[AttentionBlock, ...]:
        """The attention blocks, bottom first."""
        layers = (layer for layer in self.layers if isinstance(layer, TransformerLayer))
        return tuple(layer.attention for layer in layers if layer.attention is not None)

    @property
    def structures(self) -> tuple[Structure, ...]:
        """What must be prepared on each graph."""
        encodings = (self.shared_rpe, *(block.rpe for block in self.attention_blocks))
        own = (structure for rpe in encodings if rpe is not None for structure in rpe.structures)
        return (*self.encoder.structures, *own)

    def redraw(self, seed: int) -> None:
        """Draw all projections anew, each layer and head its own, from the seed alone.

        Raises:
            ArgumentError: a negative seed.
        """
        require_at_least("seed", seed, 0)
        for number, block in enumerate(self.attention_blocks):
            block.features.redraw(int(np.random.SeedSequence([seed, number]).generate_state(1)[0]))
