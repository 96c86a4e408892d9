"""Exact attention with the signature of the linear one: the quadratic system, and the oracle of the tests."""

from __future__ import annotations

import math
from typing import Literal, cast

import attrs
import torch
from torch import Tensor
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from kdlgt.algebra import Decomposition, log_inner
from kdlgt.attention.inputs import AttentionInputs, gather_inputs
from kdlgt.errors import ArgumentError

Implementation = Literal["fused", "dense"]

_SMALLEST = 1e-30
"""Entries of a product of shifted kernel features above this are right to rounding: what underflowed was smaller."""

_LOWEST = -1e30
"""Stands for -inf as the maximum of a row of logs, so that differences are numbers."""

_KERNEL_ELEMENTS = 1 << 25
"""Rows of a dense kernel bias are computed in chunks of about this many elements."""


def exact_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    bias: Decomposition | None = None,
    *,
    ptr: Tensor | None = None,
    scale: float | None = None,
    implementation: Implementation = "fused",
) -> Tensor:
    """Compute ``softmax(scale q k^T + B) v`` within each graph: O(sum of n^2) time.

    Fused attention goes through ``scaled_dot_product_attention`` on concatenated factors, key weights as one more
    column, and builds no N x N matrix unless the bias has kernel or sparse parts. Dense attention builds the logits, as
    published quadratic systems do.

    Args:
        q: queries [N, H, d]. k: keys [N, H, d]. v: values [N, H, dv].
        bias: the RPE's decomposition over the N nodes, or ``None``.
        ptr: [G + 1] first node of each graph, then N; ``None`` for one graph.
        scale: factor of ``q k^T``; default ``d ** -0.5``.
        implementation: ``"fused"`` or ``"dense"``.

    Returns:
        [N, H, dv] in the dtype of ``v``.

    Raises:
        ArgumentError: shapes, ``ptr`` or ``implementation`` do not fit.
        DtypeError: float64 meets float32.
    """
    if implementation not in ("fused", "dense"):
        raise ArgumentError(f"implementation = {implementation!r}; allowed: 'fused', 'dense'")
    with torch.autocast(q.device.type, enabled=False):
        inputs = gather_inputs(q, k, v, bias, ptr, scale)
        mixture = inputs.lowered.mixture
        if mixture is None:
            output = _attend(inputs, implementation)
        else:
            components = (
                _attend(attrs.evolve(inputs, key_log_weight=_added(inputs.key_log_weight, column)), implementation)
                * share[None, :, None]
                for column, share in zip(mixture.column.permute(2, 1, 0), mixture.valid.T, strict=True)
            )
            output = cast("Tensor", sum(components)) / mixture.valid.sum(1)[None, :, None]
    return output.transpose(0, 1).to(v.dtype)


def _added(weight: Tensor | None, column: Tensor) -> Tensor:
    return column if weight is None else weight + column


def _attend(inputs: AttentionInputs, implementation: Implementation) -> Tensor:
    """Attention output [H, N, dv]: segments of like size are padded together and computed as one batch."""
    query, key = _with_weight_column(inputs)
    output = torch.zeros_like(inputs.value)
    for members, real in _buckets(inputs.segment, inputs.value):
        sides = (side[:, members].transpose(0, 1) for side in (query, key, inputs.value))
        bucket_query, bucket_key, bucket_value = sides
        mask = _dense_bias(inputs, members, real)
        attention = _fused if implementation == "fused" else _dense
        result = attention(bucket_query, bucket_key, bucket_value, mask)
        output = output.index_copy(1, members[real], result.transpose(0, 1)[:, real])
    return output


def _with_weight_column(inputs: AttentionInputs) -> tuple[Tensor, Tensor]:
    """Append the key log-weights as a column, so that fused attention needs no mask for them."""
    if inputs.key_log_weight is None:
        return inputs.query, inputs.key
    lowest = torch.finfo(inputs.key.dtype).min / 4
    weight = inputs.key_log_weight.clamp_min(lowest)[:, :, None].expand(inputs.key.size(0), -1, -1)
    return torch.cat([inputs.query, torch.ones_like(weight)], -1), torch.cat([inputs.key, weight], -1)


def _buckets(segment: Tensor | None, like: Tensor) -> list[tuple[Tensor, Tensor]]:
    """Group segments by size, rounded up to a power of two: node numbers [B, n], and which of them are real [B, n]."""
    nodes = torch.arange(like.size(1), device=like.device)
    if segment is None:
        return [(nodes[None], torch.ones_like(nodes[None], dtype=torch.bool))]
    counts = torch.bincount(segment)
    order = torch.argsort(segment, stable=True)
    start = counts.cumsum(0) - counts
    rounded = torch.tensor([1 << (count - 1).bit_length() for count in counts.tolist()], device=like.device)
    buckets = []
    for size in torch.unique(rounded[counts > 0]).tolist():
        chosen = ((rounded == size) & (counts > 0)).nonzero().flatten()
        longest = int(counts[chosen].max())
        position = torch.arange(longest, device=like.device)[None]
        real = position < counts[chosen][:, None]
        buckets.append((order[start[chosen][:, None] + torch.where(real, position, 0)], real))
    return buckets


def _dense_bias(inputs: AttentionInputs, members: Tensor, real: Tensor) -> Tensor | None:
    """Bias [B, H or 1, n, n] of kernel and sparse parts, and -inf for padded keys; ``None`` when there is none."""
    mask = None
    if not bool(real.all()):
        mask = inputs.value.new_zeros(real.shape).masked_fill(~real, -math.inf)[:, None, None, :]
    kernel, sparse = inputs.lowered.kernel, inputs.lowered.sparse
    if kernel is not None:
        dense = _dense_kernel(
            kernel.log_query_features[members].to(inputs.value.dtype),
            kernel.log_key_features[members].to(inputs.value.dtype),
        )
        mask = dense if mask is None else mask + dense
    if sparse is not None:
        dense = _dense_sparse(sparse.pairs, sparse.values.to(inputs.value.dtype), members, real, inputs.value.size(1))
        mask = dense if mask is None else mask + dense
    return mask


def _dense_kernel(query: Tensor, key: Tensor) -> Tensor:
    """``log(F G^T)`` [B, H, n, n] from logs [B, n, H, K]: one product where the logs allow it."""
    query, key = query.transpose(1, 2), key.transpose(1, 2)
    product = None if torch.compiler.is_compiling() else _kernel_product(query, key)
    return _kernel_in_logs(query, key) if product is None else product


def _kernel_product(query: Tensor, key: Tensor) -> Tensor | None:
    """``log(exp(F - f) exp(G - g)^T) + f + g`` with the maxima f, g of each row; ``None`` where entries underflow."""
    row, column = (side.detach().amax(-1, keepdim=True).clamp_min(_LOWEST) for side in (query, key))
    total = torch.exp(query - row) @ torch.exp(key - column).transpose(-1, -2)
    small = total.detach() < _SMALLEST
    if bool(small.any()):
        met = (query > -math.inf).to(total.dtype) @ (key > -math.inf).to(total.dtype).transpose(-1, -2)
        if bool((small & (met > 0)).any()):
            return None
    shifted = total.masked_fill(small, 1.0).log() + row + column.transpose(-1, -2)
    return shifted.masked_fill(small, -math.inf)


def _kernel_in_logs(query: Tensor, key: Tensor) -> Tensor:
    """The same for any logs, in chunks of rows: every term of every sum is formed."""
    row_elements = query.size(0) * max(query.size(1), key.size(1)) * key.size(2) * key.size(3)
    rows = query.split(max(1, _KERNEL_ELEMENTS // row_elements), dim=2)
    chunks = [
        checkpoint(
            log_inner, part[..., :, None, :], key[..., None, :, :], use_reentrant=False, preserve_rng_state=False
        )
        for part in rows
    ]
    return torch.cat(cast("list[Tensor]", chunks), dim=2)


def _dense_sparse(pairs: Tensor, values: Tensor, members: Tensor, real: Tensor, nodes: int) -> Tensor:
    """Scatter the pair values into [B, H, n, n]; pairs across segments fall away."""
    batch = torch.full((nodes,), -1, dtype=torch.long, device=members.device)
    position = batch.clone()
    grid = torch.arange(members.size(0), device=members.device)[:, None].expand_as(members)
    batch[members[real]] = grid[real]
    position[members[real]] = torch.arange(members.size(1), device=members.device).expand_as(members)[real]
    i, j = pairs
    inside = (batch[i] >= 0) & (batch[i] == batch[j])
    i, j = i[inside], j[inside]
    dense = values.new_zeros(members.size(0), members.size(1), members.size(1), values.size(1))
    return dense.index_put((batch[i], position[i], position[j]), values[inside]).permute(0, 3, 1, 2)


def _fused(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None) -> Tensor:
    """SDPA with values padded to the width of the queries: other widths fall back to N x N on a CPU."""
    width, value_width = query.size(-1), value.size(-1)
    if value_width < width:
        value = functional.pad(value, (0, width - value_width))
    elif width < value_width:
        query, key = (functional.pad(side, (0, value_width - width)) for side in (query, key))
    if mask is not None:
        mask = mask.expand(*query.shape[:3], key.size(2))
    result = functional.scaled_dot_product_attention(query, key, value, attn_mask=mask, scale=1.0)
    return result[..., :value_width]


def _dense(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None) -> Tensor:
    """Logits, softmax and product as explicit [B, H, n, n] matrices."""
    logits = query @ key.transpose(-1, -2)
    if mask is not None:
        logits = logits + mask
    return torch.softmax(logits, dim=-1) @ value
