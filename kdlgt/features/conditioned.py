"""Lower the variance without changing the answer: centring and balancing of queries and keys.

The softmax does not see ``k -> k - mu`` (each row changes by a constant), nor ``q -> q - nu`` with ``nu.(k - mu)`` on
the key log-weight, nor ``(q M, k M^-T)`` for an invertible M. Random features do: their error grows with
``|q + k|^2``. The best M has ``M M^T = Sq^(-1/2) (Sq^(1/2) Sk Sq^(1/2))^(1/2) Sq^(-1/2)``, with second moments Sq, Sk.

mu, nu and M are constants to autograd and buffers. A forward reads them as they stood before the optimiser step and
accumulates moments aside; :meth:`Conditioned.after_optimizer_step` commits them, outside of any forward. So a graph's
output never depends on the other graphs of its batch, and recomputation in the backward pass sees the same buffers.
"""

from __future__ import annotations

import torch
from torch import Tensor, distributed

from kdlgt.features.protocol import FeatureMap, LogFeatures, Side

_RIDGE = 1e-6


class Conditioned(FeatureMap):
    """A feature map behind centring and balancing of its inputs.

    Args:
        inner: the map itself.
        centre: subtract the weighted mean of keys, and the mean of queries.
        balance: multiply queries by M and keys by M^-T.
        momentum: share of the newest moments in the running ones; the first commit takes them whole.
    """

    query_mean: Tensor
    key_mean: Tensor
    balance_matrix: Tensor
    balance_inverse: Tensor
    moments: Tensor
    pending: Tensor

    def __init__(self, inner: FeatureMap, *, centre: bool = True, balance: bool = True, momentum: float = 0.1) -> None:
        super().__init__(inner.dim, inner.heads)
        self.inner = inner
        self.num_features = inner.num_features
        self.estimates_softmax = inner.estimates_softmax
        self.positive = inner.positive
        self.centre, self.balance, self.momentum = centre, balance, momentum
        heads, dim = inner.heads, inner.dim
        identity = torch.eye(dim).expand(heads, dim, dim).clone()
        self.register_buffer("query_mean", torch.zeros(heads, 1, dim))
        self.register_buffer("key_mean", torch.zeros(heads, 1, dim))
        self.register_buffer("balance_matrix", identity)
        self.register_buffer("balance_inverse", identity.clone())
        # Second moments of [x, 1]: the last row holds the sums and the last entry the weight, for queries and keys.
        self.register_buffer("moments", torch.zeros(2, heads, dim + 1, dim + 1))
        self.register_buffer("pending", torch.zeros(2, heads, dim + 1, dim + 1))

    def forward(self, x: Tensor, side: Side) -> LogFeatures:
        """Features of conditioned inputs [H, N, D]."""
        features: LogFeatures = self.inner(x, side)
        return features

    def redraw(self, seed: int) -> None:
        """Redraw the inner map."""
        self.inner.redraw(seed)

    def log_relative_variance(self, query: Tensor, key: Tensor) -> Tensor:
        """The inner map's, for conditioned inputs."""
        return self.inner.log_relative_variance(query, key)

    def precondition(
        self, query: Tensor, key: Tensor, key_log_weight: Tensor | None
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        """``(q - nu) M``, ``(k - mu) M^-T`` and ``w + nu.(k - mu)``; in training, moments are accumulated aside."""
        if self.training:
            self._accumulate(query.detach(), key.detach(), key_log_weight)
        if self.centre:
            nu, mu = self.query_mean.to(query.dtype), self.key_mean.to(key.dtype)
            key = key - mu
            shift = (key @ nu.transpose(1, 2)).squeeze(-1)
            key_log_weight = shift if key_log_weight is None else key_log_weight + shift
            query = query - nu
        if self.balance:
            query = query @ self.balance_matrix.to(query.dtype)
            key = key @ self.balance_inverse.to(key.dtype)
        return self.inner.precondition(query, key, key_log_weight)

    @torch.no_grad()
    def _accumulate(self, query: Tensor, key: Tensor, key_log_weight: Tensor | None) -> None:
        weight = None
        if key_log_weight is not None:
            log = key_log_weight.detach()
            weight = torch.exp(log - log.amax(-1, keepdim=True).clamp_min(torch.finfo(log.dtype).min))[..., None]
        new = torch.stack([_moments(query, None), _moments(key, weight)])
        self.pending += new.to(self.pending.dtype)

    @torch.no_grad()
    def after_optimizer_step(self) -> None:
        """Commit the moments accumulated since the last call, summed over processes; nothing without any."""
        pending = self.pending.clone()
        if distributed.is_available() and distributed.is_initialized():
            distributed.all_reduce(pending)
        self.pending.zero_()
        if bool((pending[..., -1, -1] <= 0).any()):
            return
        new = pending / pending[..., -1:, -1:]
        first = bool((self.moments[..., -1, -1] == 0).any())
        self.moments.copy_(new if first else torch.lerp(self.moments, new, self.momentum))
        self._derive()

    def _derive(self) -> None:
        """Means, balance and the inner map's constant from the committed moments."""
        moments = self.moments.double()
        second, mean = moments[..., :-1, :-1], moments[..., -1:, :-1]
        if self.centre:
            self.query_mean.copy_(mean[0])
            self.key_mean.copy_(mean[1])
            second = second - mean.transpose(-1, -2) @ mean
            mean = torch.zeros_like(mean)
        matrix = (
            balance_matrix(second[0], second[1]) if self.balance else torch.eye(self.dim).double().expand_as(second[0])
        )
        matrix = matrix.to(second.device)
        inverse = torch.linalg.inv(matrix)
        self.balance_matrix.copy_(matrix)
        self.balance_inverse.copy_(inverse)
        square = _trace(matrix @ second[0] @ matrix) + _trace(inverse @ second[1] @ inverse)
        cross = (mean[0] @ mean[1].transpose(-1, -2)).flatten()
        self.inner.adapt(square + 2 * cross)


def _moments(x: Tensor, weight: Tensor | None) -> Tensor:
    """Weighted second moments of [x, 1] per head [H, D + 1, D + 1]."""
    extended = torch.cat([x, torch.ones_like(x[..., :1])], -1)
    weighted = extended if weight is None else extended * weight
    return extended.transpose(1, 2) @ weighted


def _trace(matrix: Tensor) -> Tensor:
    trace: Tensor = matrix.diagonal(dim1=-2, dim2=-1).sum(-1)
    return trace


def balance_matrix(query: Tensor, key: Tensor) -> Tensor:
    """``M = P^(1/2)`` with ``P = Sq^(-1/2) (Sq^(1/2) Sk Sq^(1/2))^(1/2) Sq^(-1/2)``, from moments [H, D, D].

    A ridge of 1e-6 of the mean eigenvalue keeps zero-padded columns from making it singular.
    """
    eye = torch.eye(query.size(-1), dtype=query.dtype, device=query.device)
    query, key = (
        moment + (_RIDGE * _trace(moment)[..., None, None] / eye.size(0) + 1e-12) * eye for moment in (query, key)
    )
    root, inverse_root = _power(query, 0.5), _power(query, -0.5)
    return _power(inverse_root @ _power(root @ key @ root, 0.5) @ inverse_root, 0.5)


def _power(matrix: Tensor, exponent: float) -> Tensor:
    """Power of symmetric positive matrices, eigenvalues bounded to a condition of 1e12."""
    values, vectors = torch.linalg.eigh(matrix)
    bounded = values.clamp_min(0).maximum(values.amax(-1, keepdim=True) * 1e-12).clamp_min(1e-30)
    power: Tensor = (vectors * bounded.pow(exponent)[..., None, :]) @ vectors.transpose(-1, -2)
    return power
