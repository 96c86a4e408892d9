"""Exact attention against the formula."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import pytest
import torch

from kdlgt.algebra import Mixture, Partition, Sum, Zero
from kdlgt.attention import exact_attention
from kdlgt.errors import ArgumentError

Make = Callable[..., Any]


def formula(problem: Any, bias: Any, ptr: torch.Tensor) -> torch.Tensor:
    """``softmax(q k^T / sqrt(d) + B) v`` with the dense bias, -inf between graphs."""
    graph = Partition(torch.repeat_interleave(ptr.diff()))
    dense = Sum(
        (graph, bias if bias is not None else Zero(problem.nodes))
        if not isinstance(bias, Sum)
        else (graph, *bias.terms)
    )
    logits = torch.einsum("ihd,jhd->hij", problem.q, problem.k) / problem.q.size(2) ** 0.5 + dense.to_dense()
    return torch.einsum("hij,jhd->ihd", logits.softmax(-1), problem.v)


@pytest.mark.parametrize("implementation", ["fused", "dense"])
def test_equals_the_formula(make_problem: Make, kind: str, implementation: Literal["fused", "dense"]) -> None:
    problem = make_problem(23)
    bias = problem.bias(kind)
    ptr = torch.tensor([0, 9, 14, 23])
    actual = exact_attention(problem.q, problem.k, problem.v, bias, ptr=ptr, implementation=implementation)
    expected = formula(problem, bias, ptr)
    some_key = torch.isfinite(expected)
    assert bool(some_key.float().mean() > 0.9)
    torch.testing.assert_close(actual[some_key], expected[some_key])


def test_a_mixture_averages_softmaxes(make_problem: Make) -> None:
    problem = make_problem(8)
    column = problem.draw(8, 2, 3)
    valid = torch.tensor([[True, True, False]] * 4 + [[True, True, True]] * 4)
    ptr = torch.tensor([0, 8])
    actual = exact_attention(problem.q, problem.k, problem.v, Mixture(column, valid))
    from kdlgt.algebra import Additive

    parts = [formula(problem, Additive(torch.zeros(8, 1), column[..., m]), ptr) for m in range(3)]
    expected = sum(part * valid[:, m, None, None] for m, part in enumerate(parts)) / valid.sum(1)[:, None, None]
    torch.testing.assert_close(actual, expected)


def test_wide_values_and_wide_queries(make_problem: Make) -> None:
    problem = make_problem(6)
    wide = problem.draw(6, 2, 11)
    for value in (wide, wide[..., :1]):
        actual = exact_attention(problem.q, problem.k, value)
        logits = torch.einsum("ihd,jhd->hij", problem.q, problem.k) / 2
        torch.testing.assert_close(actual, torch.einsum("hij,jhd->ihd", logits.softmax(-1), value))


def test_an_unknown_implementation_is_refused(make_problem: Make) -> None:
    problem = make_problem(3)
    with pytest.raises(ArgumentError, match="'fused', 'dense'"):
        exact_attention(problem.q, problem.k, problem.v, implementation="flash")  # type: ignore[arg-type]
