"""Exact attention against the formula."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import pytest
import torch

from kdlgt.algebra import Kernel, Mixture, Partition, Sum, Zero, to_dense
from kdlgt.attention import exact_attention
from kdlgt.attention.exact import _kernel_product
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


@pytest.mark.parametrize(("steepness", "one_product"), [(1.0, True), (5.0, True), (100.0, False)])
def test_steep_kernels_are_summed_in_logs_and_others_in_one_product(steepness: float, one_product: bool) -> None:
    """Distances to anchors on a path, some anchors out of reach of everybody, one node out of reach of all."""
    distance = (torch.arange(12.0)[:, None] - torch.tensor([0.0, 5.0, 11.0, 0.0])).abs()
    log = -steepness * distance
    log[:, 3] = -torch.inf
    log[7] = -torch.inf
    side = log[:, None].requires_grad_()
    kernel = Kernel(side, side)
    blocks = side[None].transpose(1, 2)
    assert (_kernel_product(blocks, blocks) is not None) == one_product
    q, k, v = torch.zeros(12, 1, 2), torch.zeros(12, 1, 2), torch.eye(12)[:, None]
    seen = exact_attention(q, k, v, kernel)[:, 0]
    expected = torch.softmax(to_dense(kernel)[0], -1).nan_to_num(0.0)
    others = torch.arange(12) != 7
    torch.testing.assert_close(seen[others], expected[others])
    weight = torch.randn(11, 12, generator=torch.Generator().manual_seed(0))
    got, wanted = (torch.autograd.grad((rows[others] * weight).sum(), side)[0] for rows in (seen, expected))
    torch.testing.assert_close(got[others], wanted[others], atol=1e-5, rtol=1e-5)
    assert bool(torch.isfinite(got).all())
