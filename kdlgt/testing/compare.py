"""Comparisons of biases that say what differs, and where."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from kdlgt.algebra import Decomposition, lower
from kdlgt.attention import exact_attention

NO_ATTENTION = -80.0
"""Logits below this are no attention in any precision; kernels write them as -inf, so they compare as equal."""


def dense(value: Decomposition, heads: int) -> Tensor:
    """``B`` [H, N, N]."""
    return value.to_dense().expand(heads, -1, -1)


def weights(value: Decomposition, heads: int, ptr: Tensor | None = None) -> Tensor:
    """Attention weights [H, N, N] of the bias alone, by exact attention with q.k = 0 in float64."""
    nodes = value.num_nodes
    zero = torch.zeros(nodes, heads, 1, dtype=torch.float64)
    every = torch.eye(nodes, dtype=torch.float64)[:, None, :].expand(-1, heads, -1)
    return exact_attention(zero, zero, every, value, ptr=ptr, implementation="dense").transpose(0, 1)


def observed(value: Decomposition, heads: int, ptr: Tensor | None = None) -> Tensor:
    """What a value is, as one tensor [H, N, N]: the bias, or the attention weights of an average of softmaxes."""
    return weights(value, heads, ptr) if is_mixture(value) else dense(value, heads)


def is_mixture(value: Decomposition) -> bool:
    """Whether the value averages softmaxes, and so has no dense form."""
    return lower(value).mixture is not None


def assert_same(got: Tensor, expected: Tensor, what: str, *, rtol: float = 1e-7, atol: float = 1e-9) -> None:
    """Raise AssertionError unless two biases agree."""
    if got.shape != expected.shape:
        raise AssertionError(f"{what}: the shape is {tuple(got.shape)}, expected {tuple(expected.shape)}")
    got, expected = (side.detach().double().clamp_min(NO_ATTENTION) for side in (got, expected))
    wrong = ~torch.isclose(got, expected, rtol=rtol, atol=atol)
    if bool(wrong.any()):
        first = tuple(wrong.nonzero()[0].tolist())
        raise AssertionError(
            f"{what}: {int(wrong.sum())} of {wrong.numel()} entries differ; entry {first} is {float(got[first]):g}, "
            f"expected {float(expected[first]):g}"
        )


def total_variation(a: Tensor, b: Tensor) -> float:
    """Mean over rows of the total variation distance between attention weights [H, N, N]."""
    return float((a - b).abs().sum(-1).mean() / 2)


def softmax(bias: Tensor) -> Tensor:
    """Attention weights of a dense bias; a row that attends to nobody, all -inf, is zero."""
    empty = (bias == -math.inf).all(-1, keepdim=True)
    return bias.masked_fill(empty, 0.0).softmax(-1).masked_fill(empty, 0.0)
