"""The kinds of decomposition: frozen values, each final."""

from __future__ import annotations

import math

import attrs
import torch
from torch import Tensor

from kdlgt.algebra.decomposition import Decomposition
from kdlgt.algebra.traceable import traceable
from kdlgt.errors import ArgumentError


@traceable
@attrs.frozen(eq=False)
class Multiplicative(Decomposition):
    """``B = Bq Bk^T`` with factors of rank m: the paper's multiplication decomposition (section 4.2).

    ``Q K^T + B = [Q, Bq] [K, Bk]^T``, so the cost is O(N (d + m) r).

    Args:
        query_factor: ``Bq`` [N, H or 1, m].
        key_factor: ``Bk`` [N, H or 1, m].

    Raises:
        ArgumentError: the shapes do not fit together.
    """

    query_factor: Tensor
    key_factor: Tensor

    def __attrs_post_init__(self) -> None:
        _require_dim("Multiplicative", "query_factor", self.query_factor, "[N, H, m]")
        _require_shapes("Multiplicative", query_factor=self.query_factor, key_factor=self.key_factor)

    @property
    def num_nodes(self) -> int:
        return self.query_factor.size(0)

    @property
    def num_heads(self) -> int:
        return max(self.query_factor.size(1), self.key_factor.size(1))

    @property
    def rank(self) -> int:
        """Width m of the factors."""
        return self.query_factor.size(2)


@traceable
@attrs.frozen(eq=False)
class Additive(Decomposition):
    """``B_ij = row_i + column_j``: the paper's addition decomposition (section 4.2).

    The row term cancels in the softmax and is kept for the logits only; the column term is a key log-weight.

    Args:
        row: [N, H or 1].
        column: [N, H or 1]; may be -inf for a key that nobody attends to.

    Raises:
        ArgumentError: the shapes do not fit together.
    """

    row: Tensor
    column: Tensor

    def __attrs_post_init__(self) -> None:
        _require_dim("Additive", "row", self.row, "[N, H]")
        _require_shapes("Additive", row=self.row, column=self.column)

    @property
    def num_nodes(self) -> int:
        return self.row.size(0)

    @property
    def num_heads(self) -> int:
        return max(self.row.size(1), self.column.size(1))


@traceable
@attrs.frozen(eq=False)
class Kernel(Decomposition):
    """``exp(B) = F G^T`` with non-negative F, G of width K, kept as logs (-inf for zero).

    Args:
        log_query_features: ``log F`` [N, H or 1, K].
        log_key_features: ``log G`` [N, H or 1, K].

    Raises:
        ArgumentError: the shapes do not fit together.
    """

    log_query_features: Tensor
    log_key_features: Tensor

    def __attrs_post_init__(self) -> None:
        _require_dim("Kernel", "log_query_features", self.log_query_features, "[N, H, K]")
        _require_shapes("Kernel", log_query_features=self.log_query_features, log_key_features=self.log_key_features)

    @classmethod
    def from_features(cls, query_features: Tensor, key_features: Tensor) -> Kernel:
        """Build from F and G themselves; both must be non-negative, else :class:`ArgumentError`."""
        for name, features in (("query_features", query_features), ("key_features", key_features)):
            if bool((features < 0).any()):
                raise ArgumentError(
                    f"Kernel: {name} has a minimum of {features.min().item():g}; kernel features must be >= 0"
                )
        return cls(_safe_log(query_features), _safe_log(key_features))

    @property
    def num_nodes(self) -> int:
        return self.log_query_features.size(0)

    @property
    def num_heads(self) -> int:
        return max(self.log_query_features.size(1), self.log_key_features.size(1))

    @property
    def width(self) -> int:
        """Number K of kernel features."""
        return self.log_query_features.size(2)


def _safe_log(features: Tensor) -> Tensor:
    """``log`` with -inf at zero and a zero gradient there instead of NaN."""
    positive = features > 0
    return torch.where(positive, torch.where(positive, features, 1.0).log(), -math.inf)


@traceable
@attrs.frozen(eq=False)
class Sparse(Decomposition):
    """A bias on listed pairs and zero elsewhere: exact values near by, added to a linear far field.

    Args:
        pairs: [2, P] integer, (query, key) node numbers, each pair at most once.
        values: [P, H or 1]; may be -inf, which forbids the pair.

    Raises:
        ArgumentError: the shapes do not fit together.
    """

    pairs: Tensor
    values: Tensor
    nodes: int

    def __attrs_post_init__(self) -> None:
        _require_dim("Sparse", "values", self.values, "[P, H]")
        if self.pairs.shape != (2, self.values.size(0)):
            raise ArgumentError(
                f"Sparse: pairs has shape {tuple(self.pairs.shape)}; expected (2, {self.values.size(0)})"
            )

    @property
    def num_nodes(self) -> int:
        return self.nodes

    @property
    def num_heads(self) -> int:
        return self.values.size(1)


@traceable
@attrs.frozen(eq=False)
class Partition(Decomposition):
    """``B_ij = 0`` where i and j lie in the same part and ``-inf`` elsewhere: attention stays within the parts.

    Args:
        part: [N] integer; equal numbers mean the same part.

    Raises:
        ArgumentError: ``part`` is no integer vector.
    """

    part: Tensor

    def __attrs_post_init__(self) -> None:
        if self.part.dim() != 1 or self.part.is_floating_point():
            raise ArgumentError(
                f"Partition: part has shape {tuple(self.part.shape)} and dtype {self.part.dtype}; expected integers [N]"
            )

    @property
    def num_nodes(self) -> int:
        return self.part.size(0)

    @property
    def num_heads(self) -> int:
        return 1


@traceable
@attrs.frozen(eq=False)
class Mixture(Decomposition):
    """An average of M softmaxes, each with its own key log-weight: the paper's mean over anchors (section 4.3).

    It averages *after* the softmax, so it is no bias: it has no dense form. Components that are not valid for a query
    node are left out of its average.

    Args:
        column: [N, H or 1, M], the key log-weights; -inf for a key that component m does not reach.
        valid: [N, M] boolean, the components that count for query node i; at least one each.

    Raises:
        ArgumentError: the shapes do not fit together.
    """

    column: Tensor
    valid: Tensor

    def __attrs_post_init__(self) -> None:
        _require_dim("Mixture", "column", self.column, "[N, H, M]")
        if self.valid.shape != (self.column.size(0), self.column.size(2)):
            expected = (self.column.size(0), self.column.size(2))
            raise ArgumentError(f"Mixture: valid has shape {tuple(self.valid.shape)}; expected {expected}")

    @property
    def num_nodes(self) -> int:
        return self.column.size(0)

    @property
    def num_heads(self) -> int:
        return self.column.size(1)


@traceable
@attrs.frozen(eq=False)
class Zero(Decomposition):
    """``B = 0``, the neutral element of the sum."""

    nodes: int

    @property
    def num_nodes(self) -> int:
        return self.nodes

    @property
    def num_heads(self) -> int:
        return 1


def _require_shapes(kind: str, **shapes: Tensor) -> None:
    """Check that all tensors agree in every dimension, heads up to broadcasting."""
    (first_name, first), *others = shapes.items()
    for name, tensor in others:
        nodes_and_width = (*tensor.shape[:1], *tensor.shape[2:])
        if tensor.dim() != first.dim() or nodes_and_width != (*first.shape[:1], *first.shape[2:]):
            raise ArgumentError(
                f"{kind}: {first_name} has shape {tuple(first.shape)} and {name} has shape {tuple(tensor.shape)}; "
                "nodes (dim 0) and widths (dims 2...) must agree"
            )
        if 1 not in (tensor.size(1), first.size(1)) and tensor.size(1) != first.size(1):
            raise ArgumentError(
                f"{kind}: {first_name} has {first.size(1)} heads, {name} has {tensor.size(1)}; equal or 1"
            )


def _require_dim(kind: str, name: str, tensor: Tensor, layout: str) -> None:
    if tensor.dim() != layout.count(",") + 1:
        raise ArgumentError(f"{kind}: {name} has shape {tuple(tensor.shape)}; expected {layout}")
