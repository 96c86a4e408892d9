"""The protocol of feature maps."""

from __future__ import annotations

import abc
from typing import Literal

import attrs
from torch import Tensor, nn

from kdlgt.algebra.traceable import traceable
from kdlgt.errors import AlgebraError, require_at_least

Side = Literal["query", "key"]


@traceable
@attrs.frozen(eq=False)
class LogFeatures:
    """Features ``sign * exp(log)``.

    Attributes:
        log: [H, N, r] log-magnitudes; -inf for zero.
        sign: [H, N, r] signed factors in [-1, 1], or ``None`` when all features are positive.
    """

    log: Tensor
    sign: Tensor | None = None


class FeatureMap(nn.Module, abc.ABC):
    """A map phi with ``E[phi(x).phi(y)] = kernel(x, y)``, drawn once and saved in buffers.

    Args:
        dim: width D of the (concatenated) queries and keys.
        heads: number of heads H; each has its own draw.

    Attributes:
        num_features: r, the number of features per head.
        estimates_softmax: whether the kernel is ``exp(x.y)``, so that more features converge to softmax attention.
        positive: whether all features are positive, so that denominators are at least 1.
    """

    num_features: int
    estimates_softmax: bool = True
    positive: bool = True

    def __init__(self, dim: int, heads: int) -> None:
        super().__init__()
        require_at_least("dim", dim, 1)
        require_at_least("heads", heads, 1)
        self.dim = dim
        self.heads = heads

    @abc.abstractmethod
    def forward(self, x: Tensor, side: Side) -> LogFeatures:
        """Features of queries or keys [H, N, D], the scale of the logits already in them."""

    def precondition(
        self, query: Tensor, key: Tensor, key_log_weight: Tensor | None
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        """Change queries, keys and key log-weights in a way that the softmax does not see; the default changes nothing.

        Args:
            query: [H, N, D].
            key: [H, N, D].
            key_log_weight: [H or 1, N], or ``None``.
        """
        return query, key, key_log_weight

    def redraw(self, seed: int) -> None:
        """Draw the projections anew in place, from a generator of their own; the default has nothing to draw."""

    def log_relative_variance(self, query: Tensor, key: Tensor) -> Tensor:
        """``log(r Var[phi(q).phi(k)] / exp(2 q.k))`` of pairs [..., D], broadcasting: twice ``log c`` plus ``log r``.

        Raises:
            AlgebraError: the map does not estimate the softmax kernel, so it has no such error.
        """
        raise AlgebraError(f"{type(self).__name__} does not estimate the softmax kernel; it has no relative variance")

    def adapt(self, mean_square: Tensor) -> None:
        """Tune the map to the mean of ``|q + k|^2`` [H] over pairs; called between steps, the default ignores it."""
