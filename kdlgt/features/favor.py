"""FAVOR+: positive orthogonal random features of the softmax kernel (Choromanski et al., ICLR 2021)."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from kdlgt.errors import require_at_least
from kdlgt.features.protocol import FeatureMap, LogFeatures, Side


class FavorPlus(FeatureMap):
    """``phi(x) = exp(-|x|^2 / 2) / sqrt(r) [exp(w_1.x), ..., exp(w_r.x)]``, ``w_i ~ N(0, I)`` (paper equation 9).

    Unbiased for ``exp(x.y)``. Orthogonal blocks keep chi(D)-distributed norms, so every row stays Gaussian.

    Args:
        dim: width D of queries and keys.
        num_features: r, any integer >= 1 (not bounded by D).
        heads: number of heads, each with its own projection.
        orthogonal: rows orthogonal within blocks of D, instead of independent.
        seed: seed of the draw; the global random state is neither read nor changed.

    Raises:
        ArgumentError: a size below 1.

    Source: Choromanski et al., Rethinking Attention with Performers, ICLR 2021, Lemma 1 and section 2.4.
    """

    projection: Tensor

    def __init__(self, dim: int, num_features: int, heads: int = 1, *, orthogonal: bool = True, seed: int = 0) -> None:
        super().__init__(dim, heads)
        require_at_least("num_features", num_features, 1)
        self.num_features = num_features
        self.orthogonal = orthogonal
        self.generator_seed = seed
        self.register_buffer("projection", draw_projection(heads, num_features, dim, orthogonal=orthogonal, seed=seed))

    def redraw(self, seed: int) -> None:
        """Draw new projections in place; called in training only, and only when asked for."""
        drawn = draw_projection(self.heads, self.num_features, self.dim, orthogonal=self.orthogonal, seed=seed)
        self.projection.copy_(drawn)

    def forward(self, x: Tensor, side: Side) -> LogFeatures:
        """``log phi(x) = w.x - |x|^2 / 2 - log(r) / 2`` [H, N, r]."""
        projection = self.projection.to(x.dtype).transpose(1, 2).expand(x.size(0), -1, -1)
        offset = torch.linalg.vecdot(x, x)[..., None] / 2 + 0.5 * math.log(self.num_features)
        return LogFeatures(torch.baddbmm(-offset, x, projection))


def draw_projection(heads: int, rows: int, dim: int, *, orthogonal: bool, seed: int) -> Tensor:
    """Draw [H, r, D] Gaussian rows from a generator of their own; rows orthogonal in blocks of D when asked."""
    generator = torch.Generator().manual_seed(seed)
    if not orthogonal:
        return torch.randn(heads, rows, dim, generator=generator)
    blocks = -(-rows // dim)
    gaussian = torch.randn(heads, blocks, dim, dim, generator=generator, dtype=torch.float64)
    rotation, triangle = torch.linalg.qr(gaussian)
    # LAPACK fixes signs in the rotation; multiplied by the triangle's signs, it is uniformly distributed.
    directions = (rotation * triangle.diagonal(dim1=2, dim2=3).sign()[:, :, None, :]).transpose(2, 3)
    norms = torch.randn(heads, blocks, dim, dim, generator=generator, dtype=torch.float64).norm(dim=-1, keepdim=True)
    drawn: Tensor = (directions * norms).reshape(heads, blocks * dim, dim)[:, :rows].float()
    return drawn
