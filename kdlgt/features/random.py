"""Random features of the softmax kernel: FAVOR+, FAVOR++, hyperbolic and trigonometric."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from kdlgt.errors import ArgumentError, require_at_least
from kdlgt.features.protocol import FeatureMap, LogFeatures, Side


class RandomProjection(FeatureMap):
    """A map made of Gaussian projections: the draw, its buffer and its redraw.

    Args:
        dim: width D of queries and keys.
        num_features: r, any integer >= 1 (not bounded by D).
        heads: number of heads, each with its own projection.
        orthogonal: rows orthogonal within blocks of D, instead of independent; norms stay chi(D)-distributed.
        seed: seed of the draw; the global random state is neither read nor changed.

    Raises:
        ArgumentError: a size below 1, or an ``num_features`` that the map cannot have.
    """

    projection: Tensor
    features_per_row: int = 1

    def __init__(self, dim: int, num_features: int, heads: int = 1, *, orthogonal: bool = True, seed: int = 0) -> None:
        super().__init__(dim, heads)
        require_at_least("num_features", num_features, self.features_per_row)
        if num_features % self.features_per_row:
            raise ArgumentError(
                f"num_features = {num_features}; {type(self).__name__} makes {self.features_per_row} features of each "
                f"projection, so it must be a multiple of {self.features_per_row}"
            )
        self.num_features = num_features
        self.orthogonal = orthogonal
        self.register_buffer("projection", self._draw(seed))

    def _draw(self, seed: int) -> Tensor:
        rows = self.num_features // self.features_per_row
        return draw_projection(self.heads, rows, self.dim, orthogonal=self.orthogonal, seed=seed)

    def redraw(self, seed: int) -> None:
        """Draw new projections in place; called in training only, and only when asked for."""
        self.projection.copy_(self._draw(seed))

    def project(self, x: Tensor, offset: Tensor) -> Tensor:
        """``w.x + offset`` [H, N, rows], the offset [H, N, 1] added inside the matrix product."""
        projection = self.projection.to(x.dtype).transpose(1, 2).expand(x.size(0), -1, -1)
        return torch.baddbmm(offset, x, projection)


class FavorPlus(RandomProjection):
    """``phi(x) = exp(-|x|^2 / 2) / sqrt(r) [exp(w_1.x), ..., exp(w_r.x)]``, ``w_i ~ N(0, I)`` (paper equation 9).

    Unbiased for ``exp(x.y)``, with relative variance ``(exp(|x + y|^2) - 1) / r``.

    Source: Choromanski et al., Rethinking Attention with Performers, ICLR 2021, Lemmas 1 and 2, section 2.4.
    """

    def forward(self, x: Tensor, side: Side) -> LogFeatures:
        """``log phi(x) = w.x - |x|^2 / 2 - log(r) / 2`` [H, N, r]."""
        return LogFeatures(self.project(x, -half_square(x) - 0.5 * math.log(self.num_features)))

    def log_relative_variance(self, query: Tensor, key: Tensor) -> Tensor:
        """``log(exp(|q + k|^2) - 1)``."""
        return log_expm1((query + key).square().sum(-1))


class Hyperbolic(RandomProjection):
    """``phi(x) = exp(-|x|^2 / 2) / sqrt(r) [exp(w.x), exp(-w.x)]``, r / 2 projections.

    Unbiased for ``exp(x.y)``; relative variance ``(1 - exp(-|x + y|^2)) (exp(|x + y|^2) - 1) / r``.

    Source: Choromanski et al., Rethinking Attention with Performers, ICLR 2021, Lemmas 1 and 2 (SM-hyp+).
    """

    features_per_row = 2

    def forward(self, x: Tensor, side: Side) -> LogFeatures:
        """``log phi(x) = +-w.x - |x|^2 / 2 - log(r) / 2`` [H, N, r]."""
        offset = -half_square(x) - 0.5 * math.log(self.num_features)
        projected = self.project(x, torch.zeros_like(offset))
        return LogFeatures(torch.cat([offset + projected, offset - projected], -1))

    def log_relative_variance(self, query: Tensor, key: Tensor) -> Tensor:
        """``log((1 - exp(-z)) (exp(z) - 1))``, ``z = |q + k|^2``."""
        square = (query + key).square().sum(-1)
        return 2 * log_expm1(square) - square


class Trigonometric(RandomProjection):
    """``phi(x) = exp(|x|^2 / 2) sqrt(2 / r) [sin(w.x), cos(w.x)]``, r / 2 projections: features of either sign.

    Unbiased for ``exp(x.y)``; denominators may vanish or turn negative, so nothing bounds the output.

    Source: Peng et al., Random Feature Attention, ICLR 2021, section 3.1; Rahimi and Recht, NeurIPS 2007.
    """

    features_per_row = 2
    positive = False

    def forward(self, x: Tensor, side: Side) -> LogFeatures:
        """Log-magnitude ``|x|^2 / 2 - log(r / 2) / 2`` shared by all features, signs sine and cosine [H, N, r]."""
        log = half_square(x) - 0.5 * math.log(self.num_features / 2)
        projected = self.project(x, torch.zeros_like(log))
        return LogFeatures(
            log.expand(-1, -1, self.num_features), torch.cat([torch.sin(projected), torch.cos(projected)], -1)
        )

    def log_relative_variance(self, query: Tensor, key: Tensor) -> Tensor:
        """``log(exp(z) (1 - exp(-z))^2)``, ``z = |q - k|^2``."""
        square = (query - key).square().sum(-1)
        return 2 * log_expm1(square) - square


class FavorPlusPlus(RandomProjection):
    """``phi(x) = (1 - 4A)^(D/4) / sqrt(r) exp(A |w|^2 + sqrt(1 - 4A) w.x - |x|^2 / 2)``, ``A < 1/8``.

    Unbiased for ``exp(x.y)`` for every A; A = 0 is FAVOR+. The A of least variance follows from the mean of
    ``|q + k|^2`` over pairs, which :meth:`adapt` takes. It gains at moderate logits, and loses with large ones and few
    features: no promise.

    Source: Likhosherstov et al., Chefs' Random Tables, NeurIPS 2022, Theorem 3.1 and section 3.3 (OPRF).
    """

    constant: Tensor

    def __init__(self, dim: int, num_features: int, heads: int = 1, *, orthogonal: bool = True, seed: int = 0) -> None:
        super().__init__(dim, num_features, heads, orthogonal=orthogonal, seed=seed)
        self.register_buffer("constant", torch.zeros(heads))
        self.adapt(torch.full((heads,), 2.0 * dim**0.5))

    def adapt(self, mean_square: Tensor) -> None:
        """Set A for ``phi`` = the mean of ``|q + k|^2`` [H].

        ``A = (1 - 1 / rho) / 8``, ``rho = (sqrt((2 phi + D)^2 + 8 D phi) - 2 phi - D) / (4 phi)``.
        """
        phi = mean_square.double().clamp_min(1e-9)
        rho = ((2 * phi + self.dim).square() + 8 * self.dim * phi).sqrt() - 2 * phi - self.dim
        self.constant.copy_((1 - 4 * phi / rho.clamp_min(1e-12)) / 8)

    def forward(self, x: Tensor, side: Side) -> LogFeatures:
        """``log phi(x)`` [H, N, r]."""
        a = self.constant.to(x.dtype)[:, None, None]
        rows = a * self.projection.to(x.dtype).square().sum(-1)[:, None, :]
        offset = -half_square(x) - 0.5 * math.log(self.num_features) + torch.log1p(-4 * a) * (self.dim / 4)
        scaled = x * torch.sqrt(1 - 4 * a)
        return LogFeatures(self.project(scaled, offset) + rows)

    def log_relative_variance(self, query: Tensor, key: Tensor) -> Tensor:
        """``log((1-4A)^D (1-8A)^(-D/2) exp(2 (1-4A) z / (1-8A) - z) - 1)``, ``z = |q + k|^2`` [H, ..., D]."""
        square = (query + key).square().sum(-1)
        a = self.constant.to(square.dtype).view(-1, *[1] * (square.dim() - 1))
        log = self.dim * torch.log1p(-4 * a) - self.dim / 2 * torch.log1p(-8 * a)
        return log_expm1(log + 2 * (1 - 4 * a) / (1 - 8 * a) * square - square)


class HyperbolicPlusPlus(FavorPlusPlus):
    """FAVOR++ in pairs: ``phi(x) = c(x) [exp(+-sqrt(1 - 4A) w.x)]``, r / 2 projections.

    ``c(x) = (1 - 4A)^(D/4) / sqrt(r) exp(A |w|^2 - |x|^2 / 2)``. Unbiased for ``exp(x.y)`` for every ``A < 1/8``; A = 0
    is the hyperbolic map. The two features of a projection are negatively correlated, as in that map, on top of what A
    gains. :meth:`adapt` takes the A of least variance from a table, for want of a closed form.

    Source: the pairs of Choromanski et al., ICLR 2021, Lemma 2, with the features of Likhosherstov et al., NeurIPS
    2022; their combination is ours.
    """

    features_per_row = 2

    def adapt(self, mean_square: Tensor) -> None:
        """Set A for a mean of ``|q + k|^2`` [H]: the best of 512 values of ``rho = 1 / (1 - 8A)`` in (0, 1]."""
        rho = torch.arange(1, 513, dtype=torch.float64, device=mean_square.device) / 512
        candidates = (1 - 1 / rho) / 8
        best = self._log_variance(candidates[:, None], mean_square.double()).argmin(0)
        self.constant.copy_(candidates[best])

    def forward(self, x: Tensor, side: Side) -> LogFeatures:
        """``log phi(x)`` [H, N, r]."""
        a = self.constant.to(x.dtype)[:, None, None]
        rows = a * self.projection.to(x.dtype).square().sum(-1)[:, None, :]
        offset = -half_square(x) - 0.5 * math.log(self.num_features) + torch.log1p(-4 * a) * (self.dim / 4)
        projected = self.project(x * torch.sqrt(1 - 4 * a), torch.zeros_like(offset))
        base = offset + rows
        return LogFeatures(torch.cat([base + projected, base - projected], -1))

    def log_relative_variance(self, query: Tensor, key: Tensor) -> Tensor:
        """``log(u exp(2 (1-4A) z / (1-8A) - z) + u exp(-z) - 2)``, ``z = |q + k|^2``.

        ``u = (1-4A)^D (1-8A)^(-D/2)``.
        """
        square = (query + key).square().sum(-1)
        return self._log_variance(self.constant.to(square.dtype).view(-1, *[1] * (square.dim() - 1)), square)

    def _log_variance(self, a: Tensor, square: Tensor) -> Tensor:
        """``x + log((1 - exp(-x)) + exp(-x) (exp(y) - 1))``: ``exp(x) + exp(y) - 2`` without overflow."""
        y = self.dim * torch.log1p(-4 * a) - self.dim / 2 * torch.log1p(-8 * a) - square
        x = y + 2 * (1 - 4 * a) / (1 - 8 * a) * square
        return x + torch.log((torch.exp(-x) * torch.expm1(y) - torch.expm1(-x)).clamp_min(0))


def half_square(x: Tensor) -> Tensor:
    """``|x|^2 / 2`` [..., 1]."""
    halved: Tensor = torch.linalg.vecdot(x, x)[..., None] / 2
    return halved


def log_expm1(x: Tensor) -> Tensor:
    """``log(exp(x) - 1)`` without overflow; -inf at zero."""
    return x + torch.log(-torch.expm1(-x))


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
