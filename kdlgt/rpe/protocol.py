"""The RPE protocols: a module owns parameters, and calling it on a prepared batch returns a frozen decomposition.

The kind of an encoding says what its value lowers to (paper section 4.2): :class:`MultiplicativeRPE`,
:class:`AdditiveRPE`, :class:`KernelRPE` (a third exact family: exp(B) factorises), :class:`IneffectiveRPE` (full rank,
used through an approximation).
"""

from __future__ import annotations

import abc
import itertools
from collections.abc import Iterable

import torch
from torch import Tensor, nn
from torch_geometric.data import Data

from kdlgt.algebra import Decomposition, Sparse, Sum
from kdlgt.errors import ArgumentError, require_at_least
from kdlgt.graph import Structure, graph_ptr


class RPE(nn.Module, abc.ABC):
    """A relative positional encoding: ``rpe(batch, x)`` is the decomposition of its bias on that batch.

    Args:
        heads: number of attention heads H.

    Attributes:
        structures: what must be prepared on each graph; empty when nothing is.
        factor_width: number of columns m that the value adds to queries and keys, known at construction.
        needs_states: whether the value depends on the node states ``x`` (then each layer calls it anew).
    """

    factor_width: int = 0
    needs_states: bool = False

    def __init__(self, heads: int) -> None:
        super().__init__()
        require_at_least("heads", heads, 1)
        self.heads = heads

    @property
    def structures(self) -> tuple[Structure, ...]:
        """Structures to prepare."""
        return ()

    @abc.abstractmethod
    def forward(self, batch: Data, x: Tensor | None = None) -> Decomposition:
        """The decomposition of B on the nodes of ``batch``; ``x`` [N, channels] are the node states of the layer."""

    def exact(self, batch: Data, x: Tensor | None = None) -> Decomposition:
        """The value for exact (quadratic) attention: the same, unless the linear form is an approximation."""
        value: Decomposition = self(batch, x)
        return value

    def __add__(self, other: RPE) -> SumRPE:
        if not isinstance(other, RPE):
            return NotImplemented
        return SumRPE([*_terms(self), *_terms(other)])

    def __mul__(self, factor: float) -> ScaledRPE:
        if not isinstance(factor, int | float):
            return NotImplemented
        return ScaledRPE(self, float(factor))

    __rmul__ = __mul__


class MultiplicativeRPE(RPE):
    """An RPE whose value is ``B = Bq Bk^T``; its factor width is fixed at construction."""

    def __init__(self, heads: int, factor_width: int) -> None:
        super().__init__(heads)
        require_at_least("factor_width", factor_width, 1)
        self.factor_width = factor_width


class AdditiveRPE(RPE):
    """An RPE whose value is ``B_ij = b_i + b'_j``."""


class KernelRPE(RPE):
    """An RPE whose exponential factorises: ``exp(B) = F G^T`` with non-negative F, G."""


class IneffectiveRPE(RPE):
    """An RPE of full rank: ``forward`` is an approximation, ``exact`` the bias on all pairs within each graph.

    Subclasses implement :meth:`pair_bias` for the exact form.
    """

    @abc.abstractmethod
    def pair_bias(self, batch: Data, pairs: Tensor) -> Tensor:
        """Exact bias [P, H] on the (query, key) pairs [2, P], all within graphs."""

    def exact(self, batch: Data, x: Tensor | None = None) -> Decomposition:
        """The exact bias as a value over all pairs within graphs: O(sum of n^2)."""
        pairs = all_pairs(graph_ptr(batch))
        return Sparse(pairs, self.pair_bias(batch, pairs), int(batch.num_nodes or 0))


def all_pairs(ptr: Tensor) -> Tensor:
    """All (query, key) pairs within graphs [2, sum of n^2], row-major within each graph."""
    sizes = (ptr[1:] - ptr[:-1]).tolist()
    blocks = [
        torch.cartesian_prod(nodes, nodes).T if len(nodes) > 1 else nodes.expand(2, -1)
        for nodes in (
            torch.arange(start, start + size, device=ptr.device)
            for start, size in zip(ptr.tolist(), sizes, strict=False)
        )
    ]
    return torch.cat(blocks, dim=1) if blocks else torch.empty(2, 0, dtype=torch.long, device=ptr.device)


class SumRPE(RPE):
    """The sum of several encodings.

    Raises:
        ArgumentError: no encodings, or encodings with different numbers of heads.
    """

    def __init__(self, terms: Iterable[RPE]) -> None:
        given = list(terms)
        if len({term.heads for term in given}) != 1:
            raise ArgumentError(
                f"SumRPE: terms with heads {[term.heads for term in given]}; give at least one, all with equal heads"
            )
        super().__init__(given[0].heads)
        self.terms = nn.ModuleList(given)
        self.factor_width = sum(term.factor_width for term in given)
        self.needs_states = any(term.needs_states for term in given)

    @property
    def structures(self) -> tuple[Structure, ...]:
        """Structures of all terms."""
        return tuple(itertools.chain.from_iterable(term.structures for term in _terms(self)))

    def forward(self, batch: Data, x: Tensor | None = None) -> Decomposition:
        """The sum of the values of all terms."""
        return Sum(tuple(itertools.chain.from_iterable(_flat(evaluate(term, batch, x)) for term in _terms(self))))

    def exact(self, batch: Data, x: Tensor | None = None) -> Decomposition:
        """The sum of the exact values of all terms."""
        values = (evaluate(term, batch, x, exact=True) for term in _terms(self))
        return Sum(tuple(itertools.chain.from_iterable(map(_flat, values))))


class ScaledRPE(RPE):
    """A fixed multiple of an encoding."""

    def __init__(self, term: RPE, factor: float) -> None:
        super().__init__(term.heads)
        self.term = term
        self.factor = factor
        self.factor_width = term.factor_width
        self.needs_states = term.needs_states

    @property
    def structures(self) -> tuple[Structure, ...]:
        """Structures of the term."""
        return self.term.structures

    def forward(self, batch: Data, x: Tensor | None = None) -> Decomposition:
        """``factor * B``; :class:`~kdlgt.errors.AlgebraError` for a kernel."""
        return evaluate(self.term, batch, x) * self.factor

    def exact(self, batch: Data, x: Tensor | None = None) -> Decomposition:
        """``factor`` times the exact value of the term."""
        return evaluate(self.term, batch, x, exact=True) * self.factor


def evaluate(rpe: RPE, batch: Data, x: Tensor | None = None, *, exact: bool = False) -> Decomposition:
    """The encoding's value on a batch, or its exact form.

    Raises:
        ArgumentError: the encoding returned something else than a decomposition.
    """
    value: object = rpe.exact(batch, x) if exact else rpe(batch, x)
    if not isinstance(value, Decomposition):
        raise ArgumentError(
            f"{type(rpe).__name__} returned a {type(value).__name__}; an encoding returns a value of kdlgt.algebra, "
            "such as Multiplicative(query_factor, key_factor)"
        )
    return value


def _terms(rpe: RPE) -> list[RPE]:
    return [term for term in rpe.terms if isinstance(term, RPE)] if isinstance(rpe, SumRPE) else [rpe]


def _flat(value: Decomposition) -> tuple[Decomposition, ...]:
    return value.terms if isinstance(value, Sum) else (value,)
