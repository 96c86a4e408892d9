"""Maps that do not estimate the softmax: elu + 1, and the generalised ReLU kernel."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from kdlgt.features.protocol import FeatureMap, LogFeatures, Side
from kdlgt.features.random import RandomProjection


class EluPlusOne(FeatureMap):
    """``phi(x) = elu(x) + 1`` entry by entry: r = D features, its own kernel and not the softmax's.

    Source: Katharopoulos et al., Transformers are RNNs, ICML 2020, equation 7.
    """

    estimates_softmax = False

    def __init__(self, dim: int, heads: int = 1) -> None:
        super().__init__(dim, heads)
        self.num_features = dim

    def forward(self, x: Tensor, side: Side) -> LogFeatures:
        """``log phi(x)``: x below zero, ``log(1 + x)`` above [H, N, D]."""
        return LogFeatures(torch.where(x > 0, torch.log1p(x.clamp_min(0)), x))


class Relu(RandomProjection):
    """``phi(x) = (relu(w.x) + epsilon) / sqrt(r)``: the generalised kernel with ReLU, not the softmax's.

    Args:
        epsilon: part of the kernel's definition, 1e-3 as published; keeps every feature positive.

    Source: Choromanski et al., Rethinking Attention with Performers, ICLR 2021, section 2.2 and appendix.
    """

    estimates_softmax = False

    def __init__(
        self,
        dim: int,
        num_features: int,
        heads: int = 1,
        *,
        orthogonal: bool = True,
        seed: int = 0,
        epsilon: float = 1e-3,
    ) -> None:
        super().__init__(dim, num_features, heads, orthogonal=orthogonal, seed=seed)
        self.epsilon = epsilon

    def forward(self, x: Tensor, side: Side) -> LogFeatures:
        """``log phi(x)`` [H, N, r]."""
        projected = self.project(x, torch.zeros_like(x[..., :1]))
        return LogFeatures(torch.log(torch.relu(projected) + self.epsilon) - 0.5 * math.log(self.num_features))
