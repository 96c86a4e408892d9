"""The near field: exact values on listed pairs, in place of what the features estimate there."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from kdlgt.algebra import log_inner
from kdlgt.attention.inputs import AttentionInputs
from kdlgt.features import FeatureMap, LogFeatures

_CHUNK_ELEMENTS = 1 << 24
"""Pairs are worked on in chunks of about this many elements, so that memory does not grow with pairs times features."""


def add_near_field(sums: Tensor, shift: Tensor, inputs: AttentionInputs, features: FeatureMap) -> Tensor:
    """Replace the estimates on the listed pairs by exact weights.

    ``y_i - sum_j est_ij [v_j, 1] + sum_j exact_ij [v_j, 1]``, in units of the row shift; a second shift per row keeps
    the exact weights in range, and cancels in the quotient.

    Args:
        sums: [H, N, dv + 1] numerators and denominator of the linear far field.
        shift: [H, N, 1] log shift of each row.
        inputs: queries, keys, values and the bias with its pairs.
        features: the feature map that estimated the far field.
    """
    sparse = inputs.lowered.sparse
    assert sparse is not None
    pairs, values = _pairs_within_segments(inputs, sparse.pairs, sparse.values)
    logs = [_recomputed_logs(inputs, features, shift, *chunk) for chunk in _chunks(inputs, features, pairs, values)]
    if not logs:
        return sums
    estimate, exact = (torch.cat(parts, dim=1) for parts in zip(*logs, strict=True))
    top = torch.zeros_like(sums[..., 0]).scatter_reduce(1, pairs[0].expand_as(exact), exact.detach(), "amax")
    value = torch.cat([inputs.value, torch.ones_like(inputs.value[..., :1])], dim=-1)
    row_top = top[:, pairs[0]]
    change = torch.exp(exact - row_top) - estimate * torch.exp(-row_top)
    weighted = change[..., None] * value[:, pairs[1]]
    return (sums * torch.exp(-top)[..., None]).index_add(1, pairs[0], weighted)


def _chunks(
    inputs: AttentionInputs, features: FeatureMap, pairs: Tensor, values: Tensor
) -> list[tuple[Tensor, Tensor]]:
    """Pairs with their values, in chunks; a compiler gets one: it does not know their number."""
    if torch.compiler.is_compiling():
        return [(pairs, values)]
    size = max(1, _CHUNK_ELEMENTS // (inputs.query.size(0) * features.num_features))
    return [(pairs[:, at : at + size], values[at : at + size]) for at in range(0, pairs.size(1), size)]


def _recomputed_logs(
    inputs: AttentionInputs, features: FeatureMap, shift: Tensor, pairs: Tensor, values: Tensor
) -> tuple[Tensor, Tensor]:
    """:func:`_pair_logs` now, and again in the backward pass; compilers decide on their own."""
    if torch.compiler.is_compiling():
        return _pair_logs(inputs, features, shift, pairs, values)
    result: tuple[Tensor, Tensor] = checkpoint(
        _pair_logs, inputs, features, shift, pairs, values, use_reentrant=False, preserve_rng_state=False
    )
    return result


def _pairs_within_segments(inputs: AttentionInputs, pairs: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
    if inputs.segment is None:
        return pairs, values
    inside = inputs.segment[pairs[0]] == inputs.segment[pairs[1]]
    return pairs[:, inside], values[inside]


def _pair_logs(
    inputs: AttentionInputs, features: FeatureMap, shift: Tensor, pairs: Tensor, values: Tensor
) -> tuple[Tensor, Tensor]:
    """The estimated weight and the log of the exact weight of each pair [H, P], in units of the row shift."""
    i, j = pairs
    query, key = inputs.query[:, i], inputs.key[:, j]
    bias = -shift[:, i, 0]
    if inputs.key_log_weight is not None:
        bias = bias + inputs.key_log_weight[:, j]
    kernel = inputs.lowered.kernel
    if kernel is not None:
        sides = (kernel.log_query_features.transpose(0, 1)[:, i], kernel.log_key_features.transpose(0, 1)[:, j])
        bias = bias + log_inner(sides[0].to(bias.dtype), sides[1].to(bias.dtype))
    magnitude, log = _estimate(features(query, "query"), features(key, "key"))
    estimate = magnitude * torch.exp(log + bias)
    if features.estimates_softmax:
        exact = (query * key).sum(-1)
    else:
        exact = log + magnitude.clamp_min(torch.finfo(log.dtype).tiny).log()
    return estimate, exact + bias + values.T


def _estimate(query: LogFeatures, key: LogFeatures) -> tuple[Tensor, Tensor]:
    """The features' inner product of each pair as ``magnitude * exp(log)`` [H, P]."""
    total = query.log + key.log
    top = total.detach().amax(-1)
    top = torch.where(top == -math.inf, 0.0, top)
    terms = torch.exp(total - top[..., None])
    for side in (query, key):
        if side.sign is not None:
            terms = terms * side.sign
    return terms.sum(-1), top
