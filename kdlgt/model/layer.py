"""One transformer layer: attention and a local branch in parallel, then a feed-forward network."""

from __future__ import annotations

from typing import Literal

from torch import Tensor, nn

from kdlgt.errors import ArgumentError, require_at_least
from kdlgt.model.attention_block import AttentionBlock, Bias
from kdlgt.model.local import LocalBranch
from kdlgt.model.segments import Segment

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

    Raises:
        ArgumentError: neither branch, or a negative ``feed_forward``.
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
    ) -> None:
        super().__init__()
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
            x = x + self.dropout(self.attention(normed, segments, bias))
        if self.local is not None:
            x = x + self.dropout(self.local(normed, edge_index, edge_states if self.local.takes_edges else None))
        return x if self.feed_forward is None else x + self.feed_forward(x)


def _feed_forward(channels: int, width: int, norm: Norm, dropout: float) -> nn.Module:
    return nn.Sequential(
        make_norm(norm, channels),
        nn.Linear(channels, width),
        nn.GELU(),
        nn.Dropout(dropout),
        nn.Linear(width, channels),
        nn.Dropout(dropout),
    )
