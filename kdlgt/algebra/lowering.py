"""The narrow waist: every sum of decompositions becomes one :class:`Lowered`, which is all that attention sees."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import TypeVar

import attrs
import torch
from torch import Tensor

from kdlgt.algebra.decomposition import Decomposition, Sum, to_dense
from kdlgt.algebra.kinds import Additive, Kernel, Mixture, Multiplicative, Partition, Sparse, Zero
from kdlgt.algebra.traceable import traceable
from kdlgt.errors import AlgebraError

KERNEL_WIDTH_WARNING = 1024
"""A product of kernels wider than this warns: attention costs O(N width r d)."""


@traceable
@attrs.frozen(eq=False, kw_only=True)
class Lowered:
    """The canonical form of a sum: at most one value of each kind; ``None`` stands for a zero bias.

    ``B = multiplicative + additive + log(kernel) + sparse + partition``, and a mixture over the whole.
    """

    num_nodes: int
    multiplicative: Multiplicative | None = None
    additive: Additive | None = None
    kernel: Kernel | None = None
    sparse: Sparse | None = None
    partition: Partition | None = None
    mixture: Mixture | None = None

    @property
    def parts(self) -> tuple[Decomposition, ...]:
        """The values that are present."""
        fields = (self.multiplicative, self.additive, self.kernel, self.sparse, self.partition, self.mixture)
        return tuple(part for part in fields if part is not None)

    @property
    def factor_width(self) -> int:
        """Number of columns m that the bias adds to queries and keys."""
        return self.multiplicative.rank if self.multiplicative is not None else 0

    def to_dense(self) -> Tensor:
        """Build ``B`` [H, N, N]; :class:`AlgebraError` with a mixture, which is no bias."""
        return to_dense(Sum(self.parts) if self.parts else Zero(self.num_nodes))


@functools.singledispatch
def lower(value: Decomposition) -> Lowered:
    """Bring a decomposition to the form that attention sees.

    A third party's kind registers a function that returns a :class:`Lowered`; sums of it with any other kind then work.

    Raises:
        AlgebraError: nothing is registered for the kind.
    """
    raise AlgebraError(f"{type(value).__name__} has no lowering; register one with kdlgt.algebra.lower.register")


@lower.register
def _(value: Multiplicative) -> Lowered:
    return Lowered(num_nodes=value.num_nodes, multiplicative=value)


@lower.register
def _(value: Additive) -> Lowered:
    return Lowered(num_nodes=value.num_nodes, additive=value)


@lower.register
def _(value: Kernel) -> Lowered:
    return Lowered(num_nodes=value.num_nodes, kernel=value)


@lower.register
def _(value: Sparse) -> Lowered:
    return Lowered(num_nodes=value.num_nodes, sparse=value)


@lower.register
def _(value: Partition) -> Lowered:
    return Lowered(num_nodes=value.num_nodes, partition=value)


@lower.register
def _(value: Mixture) -> Lowered:
    return Lowered(num_nodes=value.num_nodes, mixture=value)


@lower.register
def _(value: Zero) -> Lowered:
    return Lowered(num_nodes=value.num_nodes)


@lower.register
def _(value: Sum) -> Lowered:
    return functools.reduce(merge, (lower(term) for term in value.terms))


def merge(a: Lowered, b: Lowered) -> Lowered:
    """The lowered form of the sum of two lowered forms."""
    return Lowered(
        num_nodes=a.num_nodes,
        multiplicative=_both(a.multiplicative, b.multiplicative, _concatenate),
        additive=_both(a.additive, b.additive, _add),
        kernel=_both(a.kernel, b.kernel, _khatri_rao),
        sparse=_both(a.sparse, b.sparse, _coalesce),
        partition=_both(a.partition, b.partition, _intersect),
        mixture=_both(a.mixture, b.mixture, _refuse_two_mixtures),
    )


T = TypeVar("T")


def _both(a: T | None, b: T | None, combine: Callable[[T, T], T]) -> T | None:
    if a is None or b is None:
        return b if a is None else a
    return combine(a, b)


def _concatenate(a: Multiplicative, b: Multiplicative) -> Multiplicative:
    """``Bq Bk^T + Cq Ck^T = [Bq, Cq] [Bk, Ck]^T``."""
    return Multiplicative(
        concatenate_heads(a.query_factor, b.query_factor), concatenate_heads(a.key_factor, b.key_factor)
    )


def concatenate_heads(*tensors: Tensor) -> Tensor:
    """Concatenate [N, H or 1, m_i] along the last dimension, expanding the heads where they differ."""
    heads = max(tensor.size(1) for tensor in tensors)
    return torch.cat([tensor.expand(-1, heads, -1) for tensor in tensors], dim=-1)


def _add(a: Additive, b: Additive) -> Additive:
    return Additive(a.row + b.row, a.column + b.column)


def _khatri_rao(a: Kernel, b: Kernel) -> Kernel:
    """Elementwise product of kernels: the row-wise Khatri-Rao product of their features, a sum in logs."""
    width = a.width * b.width
    if width > KERNEL_WIDTH_WARNING:
        warnings.warn(
            f"the sum of two kernel encodings has {a.width} x {b.width} = {width} kernel features, and attention costs "
            "as many times more; lower their widths (for SAPD max_anchors)",
            stacklevel=2,
        )
    return Kernel(
        (a.log_query_features[..., :, None] + b.log_query_features[..., None, :]).flatten(2),
        (a.log_key_features[..., :, None] + b.log_key_features[..., None, :]).flatten(2),
    )


def _coalesce(a: Sparse, b: Sparse) -> Sparse:
    """Add two sparse biases; pairs that stand in both get the sum of their values."""
    heads = max(a.num_heads, b.num_heads)
    flat = torch.cat([a.pairs, b.pairs], dim=1)
    unique, position = torch.unique(flat[0] * a.nodes + flat[1], return_inverse=True)
    values = torch.cat([a.values.expand(-1, heads), b.values.expand(-1, heads)])
    total = values.new_zeros(unique.numel(), heads).index_add(0, position, values)
    return Sparse(torch.stack([unique // a.nodes, unique % a.nodes]), total, a.nodes)


def _intersect(a: Partition, b: Partition) -> Partition:
    """The common refinement: two nodes share a part when they share both."""
    pairs = torch.stack([a.part, b.part])
    return Partition(torch.unique(pairs, dim=1, return_inverse=True)[1])


def _refuse_two_mixtures(a: Mixture, b: Mixture) -> Mixture:
    raise AlgebraError(
        "a sum holds two mixtures (mean pooling), and averages of softmaxes do not add; use pooling='softmin'"
    )
