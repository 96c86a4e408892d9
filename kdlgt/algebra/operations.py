"""What each kind does under ``to_dense``, ``scale``, ``transpose`` and ``permute``: one registration each."""

from __future__ import annotations

import functools
import math

import attrs
import torch
from torch import Tensor

from kdlgt.algebra.decomposition import Decomposition, Sum, permute, scale, to_dense, transpose
from kdlgt.algebra.kinds import Additive, Kernel, Mixture, Multiplicative, Partition, Sparse, Zero
from kdlgt.errors import AlgebraError

# -- to_dense ----------------------------------------------------------------------------------------------------------


@to_dense.register
def _(value: Multiplicative) -> Tensor:
    return torch.einsum("ihm,jhm->hij", *torch.broadcast_tensors(value.query_factor, value.key_factor))


@to_dense.register
def _(value: Additive) -> Tensor:
    return value.row.T[:, :, None] + value.column.T[:, None, :]


@to_dense.register
def _(value: Kernel) -> Tensor:
    query, key = torch.broadcast_tensors(value.log_query_features, value.log_key_features)
    return log_inner(query.transpose(0, 1)[:, :, None, :], key.transpose(0, 1)[:, None, :, :])


@to_dense.register
def _(value: Sparse) -> Tensor:
    dense = value.values.new_zeros(value.num_heads, value.nodes, value.nodes)
    return dense.index_put((torch.arange(value.num_heads)[:, None], *value.pairs[:, None, :]), value.values.T)


@to_dense.register
def _(value: Partition) -> Tensor:
    same = value.part[:, None] == value.part[None, :]
    return torch.zeros(same.shape, device=same.device).masked_fill(~same, -math.inf)[None]


@to_dense.register
def _(value: Mixture) -> Tensor:
    raise AlgebraError(
        "Mixture averages softmaxes, so it is no bias and has no dense form; compare attention outputs instead"
    )


@to_dense.register
def _(value: Zero) -> Tensor:
    return torch.zeros(1, value.nodes, value.nodes)


@to_dense.register
def _(value: Sum) -> Tensor:
    first, *others = (to_dense(term) for term in value.terms)
    return functools.reduce(lambda total, dense: total + dense.to(total.device), others, first)


def log_inner(log_a: Tensor, log_b: Tensor) -> Tensor:
    """``log sum_a exp(log_a + log_b)`` over the last dimension; where all terms are -inf, -inf with a zero gradient."""
    total = log_a + log_b
    empty = (total == -math.inf).all(-1, keepdim=True)
    return total.masked_fill(empty, 0.0).logsumexp(-1).masked_fill(empty.squeeze(-1), -math.inf)


# -- scale -------------------------------------------------------------------------------------------------------------


def _per_head(factor: float | Tensor, dims: int) -> float | Tensor:
    """Shape a factor [H] so that it multiplies a tensor [N, H, ...] of ``dims`` dimensions."""
    if isinstance(factor, Tensor) and factor.dim() == 1:
        return factor.view(1, -1, *[1] * (dims - 2))
    return factor


@scale.register
def _(value: Multiplicative, factor: float | Tensor) -> Decomposition:
    return Multiplicative(value.query_factor * _per_head(factor, 3), value.key_factor)


@scale.register
def _(value: Additive, factor: float | Tensor) -> Decomposition:
    return Additive(value.row * _per_head(factor, 2), value.column * _per_head(factor, 2))


@scale.register
def _(value: Sparse, factor: float | Tensor) -> Decomposition:
    return attrs.evolve(value, values=value.values * _per_head(factor, 2))


@scale.register
def _(value: Zero, factor: float | Tensor) -> Decomposition:
    return value


@scale.register
def _(value: Sum, factor: float | Tensor) -> Decomposition:
    return Sum(tuple(scale(term, factor) for term in value.terms))


# -- transpose ---------------------------------------------------------------------------------------------------------


@transpose.register
def _(value: Multiplicative) -> Decomposition:
    return Multiplicative(value.key_factor, value.query_factor)


@transpose.register
def _(value: Additive) -> Decomposition:
    return Additive(value.column, value.row)


@transpose.register
def _(value: Kernel) -> Decomposition:
    return Kernel(value.log_key_features, value.log_query_features)


@transpose.register
def _(value: Sparse) -> Decomposition:
    return attrs.evolve(value, pairs=value.pairs.flip(0))


@transpose.register(Partition)
@transpose.register(Zero)
def _(value: Decomposition) -> Decomposition:
    return value


@transpose.register
def _(value: Sum) -> Decomposition:
    return Sum(tuple(transpose(term) for term in value.terms))


# -- permute -----------------------------------------------------------------------------------------------------------


@permute.register
def _(value: Sparse, order: Tensor) -> Decomposition:
    position = torch.empty_like(order)
    position[order] = torch.arange(order.numel(), device=order.device)
    return attrs.evolve(value, pairs=position[value.pairs])


@permute.register
def _(value: Sum, order: Tensor) -> Decomposition:
    return Sum(tuple(permute(term, order) for term in value.terms))
