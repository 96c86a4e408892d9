"""Decompositions of a bias matrix ``B`` as frozen values, and the operations on them.

Every tensor has the nodes first and the heads second: ``[N, H, ...]``, where ``H`` may be 1 to mean *the same for all
heads*. Operations are ``functools.singledispatch`` functions, so a third party adds a kind, or an operation, by
registration.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Self, TypeVar

import attrs
import torch
from torch import Tensor

from kdlgt.errors import AlgebraError, ArgumentError


class Decomposition:
    """A bias matrix ``B`` [H, N, N] in factorised form: a value without parameters of its own.

    ``a + b`` is the sum of biases, ``2.0 * a`` scales where the kind allows it. Subclasses are frozen attrs classes,
    final, with node-first tensors as fields.
    """

    __slots__ = ()

    @property
    def num_nodes(self) -> int:
        """Number of nodes N, over all graphs of the batch."""
        raise NotImplementedError

    @property
    def num_heads(self) -> int:
        """Number of heads H; 1 also means the same for all heads."""
        raise NotImplementedError

    def __add__(self, other: Decomposition) -> Sum:
        if not isinstance(other, Decomposition):
            return NotImplemented
        return Sum(flatten(self) + flatten(other))

    def __mul__(self, factor: float | Tensor) -> Decomposition:
        if not isinstance(factor, int | float | Tensor):
            return NotImplemented
        return scale(self, factor)

    __rmul__ = __mul__

    @property
    def transposed(self) -> Decomposition:
        """The decomposition of ``B^T``."""
        return transpose(self)

    def to_dense(self) -> Tensor:
        """Build ``B`` [H, N, N]. For tests and for the quadratic reference only: O(H N^2) memory."""
        return to_dense(self)

    def permute(self, order: Tensor) -> Decomposition:
        """Reorder the nodes: node ``i`` of the result is node ``order[i]`` of this one."""
        return permute(self, order)

    def to(self, target: torch.device | torch.dtype | str) -> Self:
        """Move to a device, or convert floating-point fields to a dtype; integer fields keep theirs."""
        return map_tensors(self, functools.partial(_convert, target=target))

    def detach(self) -> Self:
        """The same values, cut from the autograd graph."""
        return map_tensors(self, Tensor.detach)


D = TypeVar("D", bound=Decomposition)


def map_tensors(value: D, function: Callable[[Tensor], Tensor]) -> D:
    """Apply ``function`` to every tensor field of a decomposition, the terms of sums included."""
    changed: dict[str, object] = {}
    for field in attrs.fields(type(value)):  # type: ignore[misc, arg-type]
        content = getattr(value, field.name)
        if isinstance(content, Tensor):
            changed[field.name] = function(content)
        elif isinstance(content, tuple):
            changed[field.name] = tuple(map_tensors(term, function) for term in content)
    return attrs.evolve(value, **changed)


def _convert(tensor: Tensor, target: torch.device | torch.dtype | str) -> Tensor:
    keeps_dtype = isinstance(target, torch.dtype) and not tensor.is_floating_point()
    return tensor if keeps_dtype else tensor.to(target)


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


@attrs.frozen(eq=False)
class Sum(Decomposition):
    """A sum of decompositions, flat: ``+`` only collects terms, and ``lower`` makes the canonical form once.

    Raises:
        ArgumentError: no terms, or terms over different numbers of nodes or heads.
    """

    terms: tuple[Decomposition, ...]

    def __attrs_post_init__(self) -> None:
        if not self.terms:
            raise ArgumentError("Sum: no terms; use Zero(nodes) for an empty sum")
        nodes = {term.num_nodes for term in self.terms}
        heads = {term.num_heads for term in self.terms} - {1}
        if len(nodes) > 1 or len(heads) > 1:
            raise ArgumentError(
                f"Sum: terms over {sorted(nodes)} nodes and {sorted(heads)} heads; all terms must agree in both"
            )

    @property
    def num_nodes(self) -> int:
        return self.terms[0].num_nodes

    @property
    def num_heads(self) -> int:
        return max(term.num_heads for term in self.terms)


def flatten(value: Decomposition) -> tuple[Decomposition, ...]:
    """The terms of a sum, or the value itself as its only term."""
    return value.terms if isinstance(value, Sum) else (value,)


# -- to_dense ----------------------------------------------------------------------------------------------------------


@functools.singledispatch
def to_dense(value: Decomposition) -> Tensor:
    """Build ``B`` [H or 1, N, N]: O(H N^2) memory, for tests and the quadratic reference.

    Raises:
        AlgebraError: the kind has no dense form (:class:`Mixture`), or none is registered.
    """
    raise AlgebraError(f"{type(value).__name__} has no dense form; register one with kdlgt.algebra.to_dense.register")


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


@functools.singledispatch
def scale(value: Decomposition, factor: float | Tensor) -> Decomposition:
    """``factor * B``; the factor is a number or a tensor that broadcasts against [H].

    Raises:
        AlgebraError: the kind cannot be scaled: a scaled kernel has full rank in general.
    """
    raise AlgebraError(
        f"{type(value).__name__} cannot be scaled by {factor!r}: exp(s B) of a factorised exp(B) has full rank. "
        "Scale the encoding's own parameter instead (for SAPD its decay c)"
    )


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


@functools.singledispatch
def transpose(value: Decomposition) -> Decomposition:
    """The decomposition of ``B^T``.

    Raises:
        AlgebraError: the kind has no transpose.
    """
    raise AlgebraError(f"{type(value).__name__} has no transpose; register one with kdlgt.algebra.transpose.register")


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


@functools.singledispatch
def permute(value: Decomposition, order: Tensor) -> Decomposition:
    """Reorder the nodes: node ``i`` of the result is node ``order[i]`` of ``value``."""
    return map_tensors(value, lambda tensor: tensor[order])


@permute.register
def _(value: Sparse, order: Tensor) -> Decomposition:
    position = torch.empty_like(order)
    position[order] = torch.arange(order.numel(), device=order.device)
    return attrs.evolve(value, pairs=position[value.pairs])


@permute.register
def _(value: Sum, order: Tensor) -> Decomposition:
    return Sum(tuple(permute(term, order) for term in value.terms))
