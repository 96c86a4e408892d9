"""The one primitive of linear attention: sums of keys and values per segment, read out by queries, tile by tile.

With features ``phi``, key log-weights ``w`` and kernel sides ``F``, ``G``::

    y_i = sum_a F_ia phi(q_i)^T ( sum_{j in segment(i)} G_ja exp(w_j) phi(k_j) v_j^T )

Everything is in logs until one exponential. Keys are shifted by their maximum per (segment, head, feature); the shift
moves to the query logs, and each query row is shifted by its own maximum, so its largest feature meets a key at its
maximum. The quotient does not depend on the shifts, so they are constants to autograd.

Features exist for one tile of rows at a time and are computed again in the backward pass: memory is O(N (D + K + dv)),
and neither features [N, r] nor Khatri-Rao products [N, K r] are ever stored.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import attrs
import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from kdlgt.algebra.traceable import traceable
from kdlgt.attention.layout import Layout
from kdlgt.features import FeatureMap, LogFeatures, Side

_TILE_ELEMENTS = {"cpu": 1 << 18}
_DEFAULT_TILE_ELEMENTS = 1 << 26
"""Elements of the widest intermediate of a tile: what stays in a CPU's cache, or fills a GPU."""


@traceable
@attrs.frozen(eq=False)
class Blocks:
    """The operands in block layout [H, B, C, ...]; empty rows carry a key log-weight of -inf.

    Attributes:
        query, key: [H, B, C, D].
        value: [H, B, C, e], the last column ones, so that its sum is the denominator.
        weight: [H, B, C, 1] key log-weights, or ``None``.
        kernel: log sides F, G [H, B, C, K], or ``None``.
    """

    query: Tensor
    key: Tensor
    value: Tensor
    weight: Tensor | None
    kernel: tuple[Tensor, Tensor] | None

    def select(self, chosen: Tensor) -> Blocks:
        """The operands of some blocks [B] boolean."""
        kernel = None if self.kernel is None else (self.kernel[0][:, chosen], self.kernel[1][:, chosen])
        weight = None if self.weight is None else self.weight[:, chosen]
        return Blocks(self.query[:, chosen], self.key[:, chosen], self.value[:, chosen], weight, kernel)


def shifted_sums(blocks: Blocks, features: FeatureMap, layout: Layout) -> tuple[Tensor, Tensor]:
    """The sums y and the log shift of each row that is taken out of them.

    Returns:
        y [H, B, C, e] and the shift [H, B, C, 1]; without a kernel, the denominator column of y is at least 1.
    """
    wide = 1 if blocks.kernel is None else blocks.kernel[0].size(-1) * blocks.value.size(-1)
    if layout.whole:
        return _whole_sums(blocks, features, max(features.num_features, wide))
    step = _blocks_per_tile(blocks.query, max(features.num_features, wide))
    key_tiles = _tiles(step, blocks.key, blocks.weight)
    with torch.no_grad():
        tops = [_weighted(features, key, weight).log.amax(2, keepdim=True) for key, weight in key_tiles]
        shift = layout.max_segments(torch.cat(tops, 1))
        kernel_shift = None if blocks.kernel is None else layout.max_segments(blocks.kernel[1].amax(2, keepdim=True))
    kernel_query, kernel_key = (None, None) if blocks.kernel is None else blocks.kernel
    sums = [
        _recomputed(_key_tile, features, *tile)
        for tile in _tiles(step, blocks.key, blocks.value, blocks.weight, shift, kernel_key, kernel_shift)
    ]
    state = layout.sum_segments(torch.cat(sums, 1))
    read = [
        _recomputed(_query_tile, features, *tile)
        for tile in _tiles(step, blocks.query, state, shift, kernel_query, kernel_shift)
    ]
    totals, rows = zip(*read, strict=True)
    return torch.cat(totals, 1), torch.cat(rows, 1)


def _whole_sums(blocks: Blocks, features: FeatureMap, width: int) -> tuple[Tensor, Tensor]:
    """The sums where every segment lies in one block: sums of keys live for one tile, [r, (K) e] for each block."""
    rows = blocks.query.size(2)
    step = _blocks_per_tile(blocks.query, max(width, -(-features.num_features * width // rows)))
    kernel_query, kernel_key = (None, None) if blocks.kernel is None else blocks.kernel
    operands = (blocks.query, blocks.key, blocks.value, blocks.weight, kernel_query, kernel_key)
    done = [_recomputed(_whole_tile, features, *tile) for tile in _tiles(step, *operands)]
    totals, shifts = zip(*done, strict=True)
    return torch.cat(totals, 1), torch.cat(shifts, 1)


def _whole_tile(
    features: FeatureMap,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    weight: Tensor | None,
    kernel_query: Tensor | None,
    kernel_key: Tensor | None,
) -> tuple[Tensor, Tensor]:
    """Sums [H, B, C, e] and row shifts of blocks that are segments of their own."""
    mapped = _weighted(features, key, weight)
    shift = mapped.log.detach().amax(2, keepdim=True)
    kernel_shift = None if kernel_key is None else kernel_key.detach().amax(2, keepdim=True)
    state = _state(mapped, value, shift, kernel_key, kernel_shift)
    return _query_tile(features, query, state, shift, kernel_query, kernel_shift)


def _blocks_per_tile(query: Tensor, width: int) -> int:
    elements = _TILE_ELEMENTS.get(query.device.type, _DEFAULT_TILE_ELEMENTS)
    return max(1, elements // (query.size(0) * query.size(2) * width))


def _tiles(step: int, *tensors: Tensor | None) -> list[tuple[Any, ...]]:
    """Split all tensors along the blocks at once: the backward of a split is one concatenation.

    Compilers get one tile: they fuse, and would unroll the loop.
    """
    if torch.compiler.is_compiling():
        return [tensors]
    count = next(tensor.size(1) for tensor in tensors if tensor is not None)
    if step >= count:
        return [tensors]
    pieces = [[None] * -(-count // step) if tensor is None else tensor.split(step, dim=1) for tensor in tensors]
    return list(zip(*pieces, strict=True))


def _recomputed(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call now, and again in the backward pass instead of saving intermediates; compilers decide on their own."""
    if not torch.is_grad_enabled() or torch.compiler.is_compiling():
        return function(*arguments)
    return checkpoint(function, *arguments, use_reentrant=False, preserve_rng_state=False)


def _key_tile(
    features: FeatureMap,
    key: Tensor,
    value: Tensor,
    weight: Tensor | None,
    shift: Tensor,
    kernel: Tensor | None,
    kernel_shift: Tensor | None,
) -> Tensor:
    """``sum_j psi_j (G_j x v_j)^T`` of each block [H, B, r, (K) e]."""
    return _state(_weighted(features, key, weight), value, shift, kernel, kernel_shift)


def _state(
    mapped: LogFeatures, value: Tensor, shift: Tensor, kernel: Tensor | None, kernel_shift: Tensor | None
) -> Tensor:
    """``sum_j psi_j (G_j x v_j)^T`` of each block [H, B, r, (K) e], from the key features."""
    psi = _signed(torch.exp(mapped.log - finite(shift)), mapped)
    if kernel is not None and kernel_shift is not None:
        side = torch.exp(kernel - finite(kernel_shift))
        value = (side[..., :, None] * value[..., None, :]).flatten(-2)
    return psi.transpose(-1, -2) @ value


def _query_tile(
    features: FeatureMap,
    query: Tensor,
    state: Tensor,
    shift: Tensor,
    kernel: Tensor | None,
    kernel_shift: Tensor | None,
) -> tuple[Tensor, Tensor]:
    """``sum_a F_ia phi_i^T state_a`` [H, B, C, e], and the shift of each row."""
    mapped = _mapped(features, query, "query")
    phi, row = _shift_rows(mapped.log + shift)
    total = _signed(phi, mapped) @ state
    if kernel is not None and kernel_shift is not None:
        side, kernel_row = _shift_rows(kernel + kernel_shift)
        total = torch.einsum("...ke,...k->...e", total.unflatten(-1, (side.size(-1), -1)), side)
        row = row + kernel_row
    return total, row


def _mapped(features: FeatureMap, x: Tensor, side: Side) -> LogFeatures:
    """Features of [H, B, C, D] in the same layout."""
    result: LogFeatures = features(x.flatten(1, 2), side)
    sign = None if result.sign is None else result.sign.unflatten(1, x.shape[1:3])
    return LogFeatures(result.log.unflatten(1, x.shape[1:3]), sign)


def _weighted(features: FeatureMap, key: Tensor, weight: Tensor | None) -> LogFeatures:
    """Key features with the key log-weights folded into their exponents."""
    mapped = _mapped(features, key, "key")
    return mapped if weight is None else attrs.evolve(mapped, log=mapped.log + weight)


def _signed(magnitude: Tensor, features: LogFeatures) -> Tensor:
    return magnitude if features.sign is None else magnitude * features.sign


def _shift_rows(log: Tensor) -> tuple[Tensor, Tensor]:
    """``exp(log - t)`` and ``t``, the maximum of each row."""
    top = finite(log.detach().amax(-1, keepdim=True))
    return torch.exp(log - top), top


def finite(shift: Tensor) -> Tensor:
    """A shift with 0 for -inf: where every log is -inf, exp gives 0 without it."""
    return torch.where(shift == -math.inf, 0.0, shift)


def joint_sums(blocks: Blocks, features: FeatureMap, layout: Layout) -> tuple[Tensor, Tensor]:
    """The same sums with one shift per (segment, head, feature, kernel feature): for long paths and steep decays.

    Each kernel feature is a pass of its own, in which G is a key log-weight; the passes are added in logs.
    """
    assert blocks.kernel is not None
    total, row = torch.zeros_like(blocks.value), torch.full_like(blocks.value[..., :1], -math.inf)
    for query, key in zip(*(side.split(1, -1) for side in blocks.kernel), strict=True):
        weight = key if blocks.weight is None else key + blocks.weight
        part, part_row = shifted_sums(attrs.evolve(blocks, weight=weight, kernel=None), features, layout)
        part_log = torch.where(part[..., -1:] == 0, -math.inf, query + part_row)  # an empty pass adds nothing
        top = torch.maximum(row, part_log).detach()
        total = total * torch.exp(row - finite(top)) + part * torch.exp(part_log - finite(top))
        row = top
    return total, finite(row)


def separable(blocks: Blocks, features: FeatureMap, layout: Layout, limit: float) -> Tensor:
    """Whether feature map and kernel may be shifted apart without a 0/0, per block [B], equal within a segment."""
    assert blocks.kernel is not None
    with torch.no_grad():
        step = _blocks_per_tile(blocks.query, features.num_features)
        logs = (_weighted(features, *tile).log for tile in _tiles(step, blocks.key, blocks.weight))
        spread = _spread([_extremes(log) for log in logs], layout) + _spread([_extremes(blocks.kernel[1])], layout)
        return (spread <= limit).all(0)


def _extremes(log: Tensor) -> Tensor:
    """Maximum and negated minimum of the finite logs of each block [H, B, 1, 2 r]."""
    negated = torch.where(log == -math.inf, -math.inf, -log)
    return torch.cat([log.amax(2, keepdim=True), negated.amax(2, keepdim=True)], -1)


def _spread(extremes: Sequence[Tensor], layout: Layout) -> Tensor:
    """Largest range of finite logs over any feature, per head and block [H, B]."""
    top, negated_bottom = layout.max_segments(torch.cat(list(extremes), 1)).chunk(2, -1)
    return torch.where(top == -math.inf, 0.0, top + negated_bottom).amax((2, 3))


def segment_sums(blocks: Blocks, features: FeatureMap, layout: Layout, limit: float) -> tuple[Tensor, Tensor]:
    """Sums and row shifts; each segment takes the way that its own logs ask for, so that graphs stay isolated.

    In a compiled graph, which cannot branch on values, all take the joint way: it is right for any logs.
    """
    if blocks.kernel is None:
        return shifted_sums(blocks, features, layout)
    if torch.compiler.is_compiling():
        return joint_sums(blocks, features, layout)
    apart = separable(blocks, features, layout, limit)
    if bool(apart.all()):
        return shifted_sums(blocks, features, layout)
    if not bool(apart.any()):
        return joint_sums(blocks, features, layout)
    ways = ((apart, shifted_sums), (~apart, joint_sums))
    total, row = torch.zeros_like(blocks.value), torch.zeros_like(blocks.value[..., :1])
    for chosen, way in ways:
        index = chosen.nonzero().flatten()
        part, part_row = way(blocks.select(chosen), features, layout.select(chosen))
        total, row = total.index_copy(1, index, part), row.index_copy(1, index, part_row)
    return total, row
