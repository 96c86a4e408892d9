"""Linear attention with a decomposed bias: random features of the softmax, in logs until one exponential."""

from __future__ import annotations

import math
from typing import cast

import attrs
import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from kdlgt.algebra import Decomposition
from kdlgt.attention.inputs import AttentionInputs, gather_inputs
from kdlgt.attention.layout import Layout
from kdlgt.attention.near import NearField, add_near_field
from kdlgt.attention.sums import kernel_sums
from kdlgt.errors import ArgumentError
from kdlgt.features import FavorPlus, FeatureMap, LogFeatures, Side

DEFAULT_FEATURES = 128
"""Number of features r when no feature map is given."""

SEPARABLE_RANGE = 60.0
"""Largest sum of the log ranges of feature map and kernel for separate shifts: exp(-60) is safe in float32."""


def linear_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    bias: Decomposition | None = None,
    *,
    ptr: Tensor | None = None,
    features: FeatureMap | None = None,
    scale: float | None = None,
) -> Tensor:
    """Approximate ``softmax(scale q k^T + B) v`` within each graph, in time and memory linear in the number of nodes.

    Multiplicative parts of the bias are appended to queries and keys, additive parts are key log-weights (the row term
    cancels), kernel parts multiply the features row by row, sparse parts correct single pairs, a partition confines
    attention to its parts (DESIGN of the paper's section 4.2, mended). Cost O(N (d + m) r + N K r dv).

    Args:
        q: queries [N, H, d], all graphs packed along the nodes.
        k: keys [N, H, d].
        v: values [N, H, dv].
        bias: the RPE's decomposition over the N nodes, or ``None``.
        ptr: [G + 1] first node of each graph, then N (PyG's ``batch.ptr``); ``None`` for one graph.
        features: feature map of width d + m, m the bias's factor width; default FAVOR+ with 128 features, seed 0.
        scale: factor of ``q k^T``; default ``d ** -0.5``.

    Returns:
        [N, H, dv] in the dtype of ``v``; half precisions are accumulated in float32.

    Raises:
        ArgumentError: shapes, ``ptr`` or the feature map's width do not fit.
        DtypeError: float64 meets float32.

    Source: Choromanski et al., ICLR 2021; KDLGT, IJCAI 2023, equations 5 to 12.
    """
    with torch.autocast(q.device.type, enabled=False):
        inputs = gather_inputs(q, k, v, bias, ptr, scale)
        chosen = features if features is not None else _default_features(inputs.query)
        output = attend(inputs, chosen)
    return output.transpose(0, 1).to(v.dtype)


def _default_features(query: Tensor) -> FeatureMap:
    return FavorPlus(query.size(2), DEFAULT_FEATURES, query.size(0)).to(query.device)


def attend(inputs: AttentionInputs, features: FeatureMap) -> Tensor:
    """Linear attention on checked inputs [H, N, dv]."""
    if features.dim != inputs.query.size(2) or features.heads not in (1, inputs.query.size(0)):
        raise ArgumentError(
            f"the feature map has dim={features.dim} and heads={features.heads}; queries with the bias factors are "
            f"{inputs.query.size(2)} wide ({inputs.lowered.factor_width} from the bias), heads {inputs.query.size(0)}"
        )
    query, key, weight = features.precondition(inputs.query, inputs.key, inputs.key_log_weight)
    work = _Work.of(attrs.evolve(inputs, query=query, key=key, key_log_weight=weight), features)
    mixture = inputs.lowered.mixture
    if mixture is None:
        return work.output()
    valid = mixture.valid.to(query.dtype)
    columns = mixture.column.permute(2, 1, 0)
    total = sum(
        share[None, :, None]
        * cast("Tensor", checkpoint(work.output, column, use_reentrant=False, preserve_rng_state=False))
        for column, share in zip(columns, valid.T, strict=True)
    )
    return cast("Tensor", total) / valid.sum(1)[None, :, None]


@attrs.frozen(eq=False)
class _Work:
    """Features and values in block layout, ready to be summed."""

    inputs: AttentionInputs
    layout: Layout
    query: LogFeatures
    key: LogFeatures
    value: Tensor
    empty: Tensor | None
    softmax: bool

    @classmethod
    def of(cls, inputs: AttentionInputs, features: FeatureMap) -> _Work:
        nodes = inputs.query.size(1)
        layout = Layout.of(inputs.segment, nodes)
        value = torch.cat([inputs.value, torch.ones_like(inputs.value[..., :1])], dim=-1)
        empty = None
        if layout.slot is not None:
            empty = torch.ones(layout.num_blocks * layout.block, dtype=torch.bool, device=value.device)
            empty = empty.index_fill(0, layout.slot, False).view(1, layout.num_blocks, layout.block, 1)
        query = _features_in_blocks(features, inputs.query, "query", layout)
        key = _features_in_blocks(features, inputs.key, "key", layout)
        return cls(inputs, layout, query, key, layout.to_blocks(value), empty, features.estimates_softmax)

    def output(self, extra_weight: Tensor | None = None) -> Tensor:
        """Attention output [H, N, dv], with a further key log-weight [H or 1, N] for one component of a mixture."""
        key = self._weighted_key(extra_weight)
        kernel = self._kernel_in_blocks()
        sums, shift = _shifted_sums(self.query, key, kernel, self.value, self.layout)
        sums, shift = self.layout.to_nodes(sums), self.layout.to_nodes(shift)
        if self.inputs.lowered.sparse is not None:
            sums = add_near_field(sums, shift, self._near_field(key))
        denominator = sums[..., -1:]
        return sums[..., :-1] / torch.where(denominator == 0, 1.0, denominator)

    def _weighted_key(self, extra: Tensor | None) -> LogFeatures:
        """Key features with the key log-weights folded into their exponents; -inf in the empty rows of blocks."""
        log = self.key.log
        for weight in (self.inputs.key_log_weight, extra):
            if weight is not None:
                log = log + self.layout.to_blocks(weight[:, :, None])
        if self.empty is not None:
            log = log.masked_fill(self.empty, -math.inf)
        return LogFeatures(log, self.key.sign)

    def _kernel_in_blocks(self) -> tuple[Tensor, Tensor] | None:
        kernel = self.inputs.lowered.kernel
        if kernel is None:
            return None
        sides = (kernel.log_query_features, kernel.log_key_features)
        query, key = (self.layout.to_blocks(side.transpose(0, 1).to(self.value.dtype), -math.inf) for side in sides)
        return query, key

    def _near_field(self, key: LogFeatures) -> NearField:
        slot = self.layout.slot
        return NearField(self.inputs, self.query, key, slot, self.softmax)


def _features_in_blocks(features: FeatureMap, x: Tensor, side: Side, layout: Layout) -> LogFeatures:
    blocks = layout.to_blocks(x)
    result = features(blocks.flatten(1, 2), side)
    sign = None if result.sign is None else result.sign.unflatten(1, blocks.shape[1:3])
    return LogFeatures(result.log.unflatten(1, blocks.shape[1:3]), sign)


Sums = tuple[Tensor, Tensor]
"""Numerators and denominators [H, B, C, dv + 1], and the log shift of each row [H, B, C, 1] taken out of them."""


@attrs.frozen(eq=False)
class _Blocks:
    """What the sums are taken over, in block layout."""

    query: LogFeatures
    key: LogFeatures
    value: Tensor
    kernel_query: Tensor
    kernel_key: Tensor

    def select(self, chosen: Tensor) -> _Blocks:
        return _Blocks(
            _select_features(self.query, chosen),
            _select_features(self.key, chosen),
            self.value[:, chosen],
            self.kernel_query[:, chosen],
            self.kernel_key[:, chosen],
        )


def _select_features(features: LogFeatures, chosen: Tensor) -> LogFeatures:
    return LogFeatures(features.log[:, chosen], None if features.sign is None else features.sign[:, chosen])


def _shifted_sums(
    query: LogFeatures, key: LogFeatures, kernel: tuple[Tensor, Tensor] | None, value: Tensor, layout: Layout
) -> Sums:
    """Sum over keys with every exponential in range.

    Keys are shifted by their maximum per (segment, head, feature); the shift moves to the query logs, and each query
    row is shifted by its own maximum, so its largest feature meets a key at its maximum: the denominator is at least 1.
    The result does not depend on the shifts, so they are constants to autograd.
    """
    if kernel is None:
        psi, shift = _shift_keys(key.log, layout)
        phi, row = _shift_queries(query.log + shift)
        return kernel_sums(_signed(phi, query), _signed(psi, key), value, None, None, layout), row
    blocks = _Blocks(query, key, value, *kernel)
    separable = _separable(key.log, kernel[1], layout)
    if bool(separable.all()):
        return _separate_sums(blocks, layout)
    if not bool(separable.any()):
        return _joint_sums(blocks, layout)
    # Each segment takes the way that its own logs ask for, so that no graph depends on another.
    parts = (
        (separable, _separate_sums(blocks.select(separable), layout.select(separable))),
        (~separable, _joint_sums(blocks.select(~separable), layout.select(~separable))),
    )
    sums, row = torch.zeros_like(value), torch.zeros_like(value[..., :1])
    for chosen, (part_sums, part_row) in parts:
        index = chosen.nonzero().flatten()
        sums, row = sums.index_copy(1, index, part_sums), row.index_copy(1, index, part_row)
    return sums, row


def _separate_sums(blocks: _Blocks, layout: Layout) -> Sums:
    """Feature map and kernel shifted on their own: one pass of matrix products for all kernel features."""
    psi, shift = _shift_keys(blocks.key.log, layout)
    phi, row = _shift_queries(blocks.query.log + shift)
    kernel_key, kernel_shift = _shift_keys(blocks.kernel_key, layout)
    kernel_query, kernel_row = _shift_queries(blocks.kernel_query + kernel_shift)
    phi, psi = _signed(phi, blocks.query), _signed(psi, blocks.key)
    return kernel_sums(phi, psi, blocks.value, kernel_query, kernel_key, layout), row + kernel_row


def _shift_keys(log: Tensor, layout: Layout) -> tuple[Tensor, Tensor]:
    """``exp(log - s)`` and ``s``, the maximum over each segment; exp(-inf) = 0 where all are -inf."""
    maximum = layout.max_segments(log.detach())
    return torch.exp(log - _finite(maximum)), maximum


def _shift_queries(log: Tensor) -> tuple[Tensor, Tensor]:
    """``exp(log - t)`` and ``t``, the maximum of each row."""
    maximum = _finite(log.detach().amax(-1, keepdim=True))
    return torch.exp(log - maximum), maximum


def _finite(shift: Tensor) -> Tensor:
    return torch.where(shift == -math.inf, 0.0, shift)


def _signed(magnitude: Tensor, features: LogFeatures) -> Tensor:
    return magnitude if features.sign is None else magnitude * features.sign


def _separable(log: Tensor, kernel_log: Tensor, layout: Layout) -> Tensor:
    """Whether feature map and kernel may be shifted apart without a 0/0, per block [B], equal within a segment."""
    with torch.no_grad():
        spread = _spread(log, layout) + _spread(kernel_log, layout)
        return (spread <= SEPARABLE_RANGE).all(0)


def _spread(log: Tensor, layout: Layout) -> Tensor:
    """Largest range of finite logs over any feature, per head and block [H, B]."""
    top = layout.max_segments(log)
    bottom = -layout.max_segments(torch.where(log == -math.inf, -math.inf, -log))
    spread = torch.where(top == -math.inf, 0.0, top - bottom)
    return spread.amax((2, 3))


def _joint_sums(blocks: _Blocks, layout: Layout) -> Sums:
    """One shift per (segment, head, feature, kernel feature): for long paths and steep decays."""
    query, key = blocks.query, blocks.key
    sides = list(zip(blocks.kernel_query.split(1, -1), blocks.kernel_key.split(1, -1), strict=True))
    with torch.no_grad():
        rows = [(query.log + layout.max_segments(key.log + right) + left).amax(-1, True) for left, right in sides]
        row = _finite(torch.stack(rows).amax(0))

    def one(kernel_query: Tensor, kernel_key: Tensor) -> Tensor:
        psi, shift = _shift_keys(key.log + kernel_key, layout)
        phi = torch.exp(query.log + shift + kernel_query - row)
        return kernel_sums(_signed(phi, query), _signed(psi, key), blocks.value, None, None, layout)

    total = torch.zeros_like(blocks.value)
    for left, right in sides:
        total = total + cast("Tensor", checkpoint(one, left, right, use_reentrant=False, preserve_rng_state=False))
    return total, row
