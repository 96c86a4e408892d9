"""Sums and multiples of encodings, and what an encoding may return."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from torch_geometric.data import Data

from kdlgt.algebra import Decomposition, Multiplicative, Sum, to_dense
from kdlgt.attention import exact_attention, linear_attention
from kdlgt.errors import ArgumentError
from kdlgt.graph.generate import path
from kdlgt.rpe import MultiplicativeRPE, ScaledRPE, SumRPE, evaluate


class Ones(MultiplicativeRPE):
    """``B = 1``, by one column of ones."""

    def __init__(self, heads: int = 2) -> None:
        super().__init__(heads, 1)

    @property
    def structures(self) -> tuple[()]:
        """None."""
        return ()

    def forward(self, batch: Data, x: Tensor | None = None) -> Decomposition:
        """Ones."""
        column = torch.ones(int(batch.num_nodes or 0), self.heads, 1)
        return Multiplicative(column, column)


class Matrix(Ones):
    """Returns a matrix, which is no decomposition."""

    def forward(self, batch: Data, x: Tensor | None = None) -> Any:
        """A dense matrix."""
        return torch.ones(2, 3, 3)


def test_a_sum_is_flat_and_adds() -> None:
    value = evaluate(SumRPE([Ones(), SumRPE([Ones(), ScaledRPE(Ones(), 0.5)])]), path(3))
    assert isinstance(value, Sum)
    assert len(value.terms) == 3
    assert bool((to_dense(value) == 2.5).all())


@pytest.mark.parametrize("wrap", [lambda rpe: rpe, lambda rpe: SumRPE([rpe]), lambda rpe: ScaledRPE(rpe, 2.0)])
@pytest.mark.parametrize("exact", [False, True])
def test_an_encoding_that_returns_a_tensor_is_named(wrap: Any, exact: bool) -> None:
    with pytest.raises(ArgumentError, match=r"Matrix returned a Tensor; an encoding returns a value of kdlgt\.algebra"):
        evaluate(wrap(Matrix()), path(3), exact=exact)


def test_terms_have_equal_heads() -> None:
    with pytest.raises(ArgumentError, match=r"terms with heads \[2, 3\]"):
        SumRPE([Ones(2), Ones(3)])


@pytest.mark.parametrize("attention", [linear_attention, exact_attention])
def test_attention_takes_the_value_and_not_the_module(attention: Any) -> None:
    q = torch.zeros(3, 2, 4)
    with pytest.raises(ArgumentError, match=r"bias is a Ones; .* call an encoding on its batch first"):
        attention(q, q, q, Ones())
