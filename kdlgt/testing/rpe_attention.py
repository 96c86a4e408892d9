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
FEW, MANY = 16, 1024
SEEDS = 6
SIDE = 32
"""The memory check runs on a grid of SIDE x SIDE nodes."""


def convergence(case: RPECase) -> None:
    """Linear attention with the value comes near exact attention with it as the number of random features grows."""
    rpe = case.fresh()
    for name in ("grid 3x4", "random of 13 nodes"):
        value = case.value(rpe, case.prepared(rpe, case.ordinary[name]))
        few, many = (_error(value, features) for features in (FEW, MANY))
        assert many <= max(0.5 * few, 1e-6), (
            f"{name}: the error of linear attention is {few:.3g} at r = {FEW} and {many:.3g} at r = {MANY}; expected "
            f"about {few * (FEW / MANY) ** 0.5:.2g}. Are the factors of queries and keys of very different size?"
        )


def _error(value: Decomposition, features: int) -> float:
    """Root mean square deviation from exact attention over seeds."""
    generator = torch.Generator().manual_seed(0)
    q, k, v = torch.randn(3, value.num_nodes, HEADS, WIDTH, generator=generator, dtype=torch.float64)
    q, k = q / 2, k / 2
    exact = exact_attention(q, k, v, value)
    width = WIDTH + lower(value).factor_width
    outputs = [
        linear_attention(q, k, v, value, features=FavorPlus(width, features, HEADS, seed=seed).double())
        for seed in range(SEEDS)
    ]
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
        linear_attention(q, k, v, value, features=features).sum().backward()  # type: ignore[no-untyped-call]
