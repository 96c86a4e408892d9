"""Linear attention with the encoding: near exact attention, and linear in memory."""

from __future__ import annotations

import torch
from torch import Tensor

from kdlgt.algebra import Decomposition, lower
from kdlgt.attention import exact_attention, linear_attention
from kdlgt.features import FavorPlus
from kdlgt.graph.generate import grid
from kdlgt.testing.graphs import with_attributes
from kdlgt.testing.guard import NoSquare
from kdlgt.testing.rpe_case import CHANNELS, HEADS, RPECase

WIDTH = 4
FEW, MANY = 16, 4096
SLOWEST = 0.45
"""Error at MANY features as a share of that at FEW; independent draws give 0.06, large logits more."""

SEEDS = 4
SIDE = 32
"""The memory check runs on a grid of SIDE x SIDE nodes."""


def convergence(case: RPECase) -> None:
    """Linear attention with the value comes near exact attention with it as the number of random features grows."""
    rpe = case.fresh()
    value = case.value(rpe, case.prepared(rpe, case.ordinary["random of 13 nodes"])).detach()
    few, many = (_error(value, features) for features in (FEW, MANY))
    assert many <= max(SLOWEST * few, 1e-6), (
        f"the error of linear attention is {few:.3g} at r = {FEW} and {many:.3g} at r = {MANY}, expected at most "
        f"{SLOWEST * few:.2g}; {_sizes(value)}"
    )


def _sizes(value: Decomposition) -> str:
    """What random features suffer from, in words."""
    factors = lower(value).multiplicative
    if factors is None:
        return "is the value the same at every call?"
    query, key = (float(side.square().mean().sqrt()) for side in (factors.query_factor, factors.key_factor))
    return (
        f"the entries of the query factor have size {query:.2g}, those of the key factor {key:.2g}: split coefficients "
        "evenly (kdlgt.algebra.split_coefficient), and start with a small bias"
    )


def _error(value: Decomposition, features: int) -> float:
    """Root mean square deviation from exact attention over seeds."""
    generator = torch.Generator().manual_seed(0)
    q, k, v = torch.randn(3, value.num_nodes, HEADS, WIDTH, generator=generator, dtype=torch.float64)
    q, k = q / 2, k / 2
    exact = exact_attention(q, k, v, value)
    width = WIDTH + lower(value).factor_width
    maps = (FavorPlus(width, features, HEADS, orthogonal=False, seed=seed).double() for seed in range(SEEDS))
    outputs = [linear_attention(q, k, v, value, features=drawn) for drawn in maps]
    return float(torch.stack([output - exact for output in outputs]).square().mean().sqrt())


def memory(case: RPECase) -> None:
    """Neither the value nor linear attention with it, forward or backward, makes a tensor of N^2 elements."""
    rpe = case.rpe()
    data = case.prepared(rpe, with_attributes(grid(SIDE, SIDE), CHANNELS, seed=0))
    nodes = SIDE * SIDE
    large = [key for key, value in data.to_dict().items() if isinstance(value, Tensor) and value.numel() >= nodes**2]
    assert not large, f"prepared fields of {nodes**2} elements and more: {', '.join(large)}"
    generator = torch.Generator().manual_seed(0)
    q, k, v = torch.randn(3, nodes, HEADS, WIDTH, generator=generator, dtype=torch.float64)
    q.requires_grad_()
    with NoSquare(nodes):
        value = case.value(rpe, data)
        features = FavorPlus(WIDTH + lower(value).factor_width, 8, HEADS).double()
        linear_attention(q, k, v, value, features=features).sum().backward()
