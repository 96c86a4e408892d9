"""Decompositions of a bias matrix ``B`` as frozen values, and the operations on them.

Every tensor has the nodes first and the heads second: ``[N, H, ...]``, where ``H`` may be 1 to mean *the same for all
heads*. Operations are ``functools.singledispatch`` functions, so a third party adds a kind, or an operation, by
registration.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Self, TypeVar

import attrs
import torch
from torch import Tensor

from kdlgt.algebra.traceable import traceable
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
    kind: Any = type(value)
    for field in attrs.fields(kind):
        content = getattr(value, field.name)
        if isinstance(content, Tensor):
            changed[field.name] = function(content)
        elif isinstance(content, tuple):
            changed[field.name] = tuple(map_tensors(term, function) for term in content)
    frozen: Any = value
    result: D = attrs.evolve(frozen, **changed)
    return result


def _convert(tensor: Tensor, target: torch.device | torch.dtype | str) -> Tensor:
    keeps_dtype = isinstance(target, torch.dtype) and not tensor.is_floating_point()
    return tensor if keeps_dtype else tensor.to(target)


@traceable
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


def split_coefficient(coefficient: Tensor) -> tuple[Tensor, Tensor]:
    """Two factors of equal size whose product is the coefficient, one for queries and one for keys.

    Random features vary with ``|q + k|^2``, so a coefficient on one side alone costs accuracy. The root is a constant
    to autograd: the product keeps the coefficient's gradient, also at zero, where a root has none.
    """
    root = coefficient.detach().abs().clamp_min(torch.finfo(coefficient.dtype).tiny).sqrt()
    return coefficient / root, root


def flatten(value: Decomposition) -> tuple[Decomposition, ...]:
    """The terms of a sum, or the value itself as its only term."""
    return value.terms if isinstance(value, Sum) else (value,)


@functools.singledispatch
def to_dense(value: Decomposition) -> Tensor:
    """Build ``B`` [H or 1, N, N]: O(H N^2) memory, for tests and the quadratic reference.

    Raises:
        AlgebraError: the kind has no dense form (:class:`Mixture`), or none is registered.
    """
    raise AlgebraError(f"{type(value).__name__} has no dense form; register one with kdlgt.algebra.to_dense.register")


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


@functools.singledispatch
def transpose(value: Decomposition) -> Decomposition:
    """The decomposition of ``B^T``.

    Raises:
        AlgebraError: the kind has no transpose.
    """
    raise AlgebraError(f"{type(value).__name__} has no transpose; register one with kdlgt.algebra.transpose.register")


@functools.singledispatch
def permute(value: Decomposition, order: Tensor) -> Decomposition:
    """Reorder the nodes: node ``i`` of the result is node ``order[i]`` of ``value``."""
    return map_tensors(value, lambda tensor: tensor[order])
