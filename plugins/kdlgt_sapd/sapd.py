"""The SAPD encoding and its poolings over anchors."""

from __future__ import annotations

import math
from typing import Literal, get_args

import attrs
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch_geometric.data import Data

from kdlgt.algebra import Decomposition, Kernel, Mixture, Multiplicative, Partition
from kdlgt.errors import ArgumentError
from kdlgt.graph import graph_ids, read_structure
from kdlgt.graph.anchors import DEFAULT_MAX_ANCHORS, Order
from kdlgt.rpe import KernelRPE
from kdlgt_sapd.structure import SapdStructure

Pooling = Literal["softmin", "mean", "paper"]


@attrs.frozen
class SapdOptions:
    """Options of SAPD.

    Attributes:
        k: hops that an anchor covers.
        max_anchors: cap on the anchors of one connected component.
        pooling: ``softmin`` (a kernel), ``mean`` (one softmax per anchor, averaged: the paper's), or ``paper`` (the
            mean as a bias, by concatenation, to compare variances).
        order: visit nodes by static ``degree`` or by marginal ``gain`` (fewer anchors, slower).
        initial_decay: ``-c`` at the start, per hop, for every head.
    """

    k: int = 2
    max_anchors: int = DEFAULT_MAX_ANCHORS
    pooling: Pooling = "softmin"
    order: Order = "degree"
    initial_decay: float = 1.0


class SAPD(KernelRPE):
    """Shortest anchored path distance: ``B_ij = c pool_a [d(i, a) + d(a, j)]``, ``c = -softplus(theta) < 0`` per head.

    Poolings over the anchors a of the component of i and j; no weight passes between components:

    - ``softmin``: ``exp(B_ij) = sum_a exp(c d(i, a)) exp(c d(a, j))``, a kernel with one feature per anchor;
    - ``mean``: one softmax per anchor, outputs averaged. The term d(i, a) cancels within each softmax, so attention
      depends on the key's distances alone, and it is no bias: there is no dense form;
    - ``paper``: one softmax with ``B_ij = b_i + b_j``, ``b_i = c mean_a d(i, a)``, through ``[b, 1] [1, b]^T``. That is
      additive, and an additive term belongs into the key weights; concatenated, it costs two columns and variance of
      the feature map. It is here to measure that, and is not the average of softmaxes that ``mean`` is.

    Args:
        heads: number of heads H.
        options: see :class:`SapdOptions`.

    Attributes:
        theta: [H], the parameter.
        structure: what is prepared on each graph.

    Raises:
        ArgumentError: an option out of its range.
    """

    def __init__(self, heads: int, options: SapdOptions | None = None) -> None:
        super().__init__(heads)
        self.options = options or SapdOptions()
        if self.options.pooling not in get_args(Pooling):
            raise ArgumentError(f"pooling = {self.options.pooling!r}; allowed: {', '.join(get_args(Pooling))}")
        self.structure = SapdStructure(self.options.k, self.options.max_anchors, self.options.order)
        self.theta = nn.Parameter(torch.full((heads,), _inverse_softplus(self.options.initial_decay)))
        self.factor_width = 2 if self.options.pooling == "paper" else 0

    @property
    def structures(self) -> tuple[SapdStructure, ...]:
        """The distances to the anchors."""
        return (self.structure,)

    @property
    def decay(self) -> Tensor:
        """The coefficient c of each head [H], negative; at least in float32, since distances are large integers."""
        theta = self.theta.to(torch.promote_types(self.theta.dtype, torch.float32))
        return -functional.softplus(theta)

    def forward(self, batch: Data, x: Tensor | None = None) -> Decomposition:
        """The bias on a prepared batch; :class:`~kdlgt.errors.NotPreparedError` if it is not prepared."""
        slots = int(read_structure(batch, self.structure, "slots").max())
        distance = read_structure(batch, self.structure, "distance")[:, :slots]
        pool = {"softmin": _softmin, "mean": _mean, "paper": _concatenated}[self.options.pooling]
        return pool(distance, self.decay) + Partition(self._part(batch))

    def _part(self, batch: Data) -> Tensor:
        """Number of each node's (graph, component) [N]."""
        component = read_structure(batch, self.structure, "component")
        return graph_ids(batch) * (component.max() + 1) + component


def _inverse_softplus(decay: float) -> float:
    """``log(exp(decay) - 1)`` without overflow."""
    if not 0 < decay < math.inf:
        raise ArgumentError(f"initial_decay = {decay!r}; allowed: a finite number > 0")
    return decay + math.log(-math.expm1(-decay))


def _log_features(distance: Tensor, decay: Tensor) -> Tensor:
    """``c d(i, a)`` [N, H, K], -inf with zero gradient where a is not reached.

    The distance is masked before it meets c: the derivative of ``exp(c * inf)`` would be ``0 * inf``.
    """
    reached = distance >= 0
    hops = distance.masked_fill(~reached, 0).to(decay.dtype)
    return (hops[:, None, :] * decay[:, None]).masked_fill(~reached[:, None, :], -math.inf)


def _softmin(distance: Tensor, decay: Tensor) -> Decomposition:
    features = _log_features(distance, decay)
    return Kernel(features, features)


def _mean(distance: Tensor, decay: Tensor) -> Decomposition:
    return Mixture(_log_features(distance, decay), distance >= 0)


def _concatenated(distance: Tensor, decay: Tensor) -> Decomposition:
    reached = distance >= 0
    total = distance.masked_fill(~reached, 0).sum(1, dtype=decay.dtype)
    bias = (total / reached.sum(1))[:, None] * decay
    one = torch.ones_like(bias)
    return Multiplicative(torch.stack([bias, one], dim=-1), torch.stack([one, bias], dim=-1))
