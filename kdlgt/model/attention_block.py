"""Multi-head attention with a relative positional encoding, linear or exact on the same parameters."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional

from kdlgt.algebra import Decomposition
from kdlgt.attention import exact_attention, linear_attention
from kdlgt.config.schema import ExactImplementation
from kdlgt.errors import ArgumentError, require_at_least
from kdlgt.features import FeatureMap
from kdlgt.model.segments import Segment
from kdlgt.rpe import RPE, evaluate

Bias = Callable[[Segment, Tensor], Decomposition | None]
"""The bias of a segment, given its normalised states [N, channels]."""


def evaluate_rpe(rpe: RPE, segment: Segment, x: Tensor | None) -> Decomposition:
    """The encoding's value on a segment: its exact form where the segment attends exactly."""
    return evaluate(rpe, segment.batch, x, exact=segment.exact)


class AttentionBlock(nn.Module):
    """``softmax(Q K^T / sqrt(d) + B) V`` in each head, projected back to the width of the states.

    The feature map's buffers are there in exact mode too, so one checkpoint serves both. With ``normalise``, queries
    and keys are unit vectors and the logits are ``tau cos(q, k)``, tau > 0 learned per head: the error of random
    features grows with ``exp(|q + k|^2)``, and this bounds it.

    Args:
        channels: width of the states, a multiple of ``heads``.
        heads: number of heads H.
        features: feature map of width ``channels / heads`` plus the encoding's factor width.
        rpe: the layer's own encoding, or ``None``.
        dropout: dropout on the attention output.
        normalise: unit queries and keys with a learned temperature.
        implementation: of exact attention, ``"fused"`` or ``"dense"``.

    Raises:
        ArgumentError: ``heads`` does not divide ``channels``, or the feature map has another width or number of heads.
    """

    def __init__(
        self,
        channels: int,
        heads: int,
        features: FeatureMap,
        rpe: RPE | None = None,
        *,
        dropout: float = 0.0,
        normalise: bool = False,
        implementation: ExactImplementation = "fused",
    ) -> None:
        super().__init__()
        width = head_width(channels, heads)
        if features.dim < width or (rpe is not None and features.dim != width + rpe.factor_width):
            expected = width + (0 if rpe is None else rpe.factor_width)
            raise ArgumentError(f"the feature map has dim = {features.dim}; heads of this block are {expected} wide")
        self.heads = heads
        self.features = features
        self.rpe = rpe
        self.implementation = implementation
        self.projection = nn.Linear(channels, 3 * channels)
        self.out = nn.Linear(channels, channels)
        self.dropout = nn.Dropout(dropout)
        self.log_temperature = nn.Parameter(torch.zeros(heads)) if normalise else None

    def forward(self, x: Tensor, segments: tuple[Segment, ...], bias: Bias | None = None) -> Tensor:
        """Attend within each graph.

        Args:
            x: states [N, channels] of the whole batch.
            segments: how each graph attends.
            bias: a bias shared with other layers; default the block's own encoding.

        Returns:
            [N, channels].
        """
        q, k, v = self.project(x)
        output = torch.zeros_like(v)
        for segment in segments:
            value = (self.bias_of if bias is None else bias)(segment, segment.pick(x))
            attended = self._attend(segment, segment.pick(q), segment.pick(k), segment.pick(v), value)
            output = segment.place(attended, output)
        projected: Tensor = self.out(self.dropout(output.flatten(1)))
        return projected

    def project(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Queries, keys and values [N, H, d] of states [N, channels]; logits are ``scale q k^T``, see :attr:`scale`."""
        q, k, v = self.projection(x).unflatten(-1, (3, self.heads, -1)).unbind(1)
        if self.log_temperature is None:
            return q, k, v
        return tempered(q, self.log_temperature), tempered(k, self.log_temperature), v

    @property
    def scale(self) -> float | None:
        """Factor of ``q k^T``; ``None`` is the default ``d ** -0.5``."""
        return None if self.log_temperature is None else 1.0

    def bias_of(self, segment: Segment, x: Tensor) -> Decomposition | None:
        """The block's own bias on a segment with states [N, channels]."""
        return None if self.rpe is None else evaluate_rpe(self.rpe, segment, x)

    def _attend(self, segment: Segment, q: Tensor, k: Tensor, v: Tensor, bias: Decomposition | None) -> Tensor:
        if segment.exact:
            implementation = self.implementation
            return exact_attention(q, k, v, bias, ptr=segment.ptr, scale=self.scale, implementation=implementation)
        return linear_attention(q, k, v, bias, ptr=segment.ptr, scale=self.scale, features=self.features)


def tempered(x: Tensor, log_temperature: Tensor) -> Tensor:
    """Unit rows [N, H, d] times ``sqrt(tau)``, tau given as its log [H]: two such sides multiply to ``tau cos``."""
    return functional.normalize(x, dim=-1) * torch.exp(log_temperature / 2)[:, None]


def head_width(channels: int, heads: int) -> int:
    """Width of one head; :class:`ArgumentError` unless ``heads`` divides ``channels``."""
    require_at_least("heads", heads, 1)
    require_at_least("hidden", channels, 1)
    if channels % heads:
        below = channels - channels % heads
        raise ArgumentError(
            f"hidden = {channels} is not a multiple of heads = {heads}; the nearest multiples are "
            f"{below or heads} and {below + heads}"
        )
    return channels // heads
