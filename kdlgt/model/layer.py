"""One transformer layer: attention and a local branch in parallel, then a feed-forward network."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Literal, TypeVar, cast

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from kdlgt.errors import ArgumentError, require_at_least
from kdlgt.model.attention_block import AttentionBlock, Bias
from kdlgt.model.local import LocalBranch
from kdlgt.model.segments import Segment

T = TypeVar("T")
Norm = Literal["layer", "rms", "batch"]


def make_norm(kind: Norm, channels: int) -> nn.Module:
    """A normalisation layer over [N, channels].

    Batch norm couples all graphs of a batch: with it a graph's output depends on the others.
    """
    match kind:
        case "layer":
            return nn.LayerNorm(channels)
        case "rms":
            return nn.RMSNorm(channels)
        case "batch":
            return nn.BatchNorm1d(channels)
    raise ArgumentError(f"norm = {kind!r}; allowed: 'layer', 'rms', 'batch'")


class TransformerLayer(nn.Module):
    """``x = x + attention(norm(x)) + local(norm(x))``, then ``x = x + feed_forward(norm(x))``.

    Args:
        channels: width of the states.
        attention: the global branch, or ``None``.
        local: the message-passing branch, or ``None``.
        feed_forward: width of the hidden layer of the feed-forward network; 0 leaves it out.
        norm: normalisation before each part.
        dropout: dropout on each branch and in the feed-forward network.
        recompute: compute branches and feed-forward network again in the backward pass instead of keeping their
            intermediates.

    Raises:
        ArgumentError: neither branch, a negative ``feed_forward``, or ``recompute`` with batch norm, whose running
            statistics would move twice.
    """

    def __init__(
        self,
        channels: int,
        attention: AttentionBlock | None,
        local: LocalBranch | None = None,
        *,
        feed_forward: int,
        norm: Norm = "layer",
        dropout: float = 0.0,
        recompute: bool = False,
    ) -> None:
        super().__init__()
        if recompute and norm == "batch":
            raise ArgumentError("recompute = true moves the running statistics of norm = 'batch' twice; use 'layer'")
        if attention is None and local is None:
            raise ArgumentError(
                "the layer has neither attention nor a local branch; set attend = true or give model.local"
            )
        require_at_least("feed_forward", feed_forward, 0)
        self.attention = attention
        self.local = local
        self.norm = make_norm(norm, channels)
        self.feed_forward = _feed_forward(channels, feed_forward, norm, dropout) if feed_forward else None
        self.dropout = nn.Dropout(dropout)
        self.recompute = recompute

    def forward(
        self,
        x: Tensor,
        segments: tuple[Segment, ...],
        edge_index: Tensor | None = None,
        edge_states: Tensor | None = None,
        bias: Bias | None = None,
    ) -> Tensor:
        """States [N, channels] to states [N, channels].

        Args:
            x: states of the whole batch.
            segments: how each graph attends.
            edge_index: [2, E], for the local branch.
            edge_states: [E, channels], for the local branch where it takes them.
            bias: a bias shared with other layers.
        """
        normed = self.norm(x)
        if self.attention is not None:
            # The bias is recomputed on its own, so that an encoding's network and attention are not held at once.
            own = self.attention.bias_of if bias is None else bias
            x = x + self.dropout(self._run(self.attention, normed, segments, functools.partial(self._run, own)))
        if self.local is not None:
            edges = edge_states if self.local.takes_edges else None
            x = x + self.dropout(self._run(self.local, normed, edge_index, edges))
        return x if self.feed_forward is None else x + self._run(self.feed_forward, x)

    def _run(self, part: Callable[..., T], *arguments: Any) -> T:
        """Call a part, now or also in the backward pass."""
        if not (self.recompute and torch.is_grad_enabled()):
            return part(*arguments)
        return cast("T", checkpoint(part, *arguments, use_reentrant=False))


def _feed_forward(channels: int, width: int, norm: Norm, dropout: float) -> nn.Module:
    return nn.Sequential(
        make_norm(norm, channels),
        nn.Linear(channels, width),
        nn.GELU(),
        nn.Dropout(dropout),
        nn.Linear(width, channels),
        nn.Dropout(dropout),
    )
