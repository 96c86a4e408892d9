"""The laws of the algebra, with foreign terms."""

from __future__ import annotations

import functools
import itertools
import operator
from collections.abc import Iterable

import torch
from torch import Tensor

from kdlgt.algebra import Additive, Decomposition, Kernel, Multiplicative, Sparse, lower
from kdlgt.algebra.decomposition import flatten
from kdlgt.attention import exact_attention
from kdlgt.errors import AlgebraError
from kdlgt.rpe import ScaledRPE, SumRPE
from kdlgt.testing.check import SkipCheck
from kdlgt.testing.compare import assert_same, dense, is_mixture, weights
from kdlgt.testing.graphs import random_order
from kdlgt.testing.rpe_case import HEADS, RPECase

SCALABLE = (Multiplicative, Additive, Sparse)


def foreign_terms(nodes: int) -> list[Decomposition]:
    """Random values of other kinds over the same nodes."""
    generator = torch.Generator().manual_seed(2)

    def draw(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    return [
        Multiplicative(draw(nodes, HEADS, 3), draw(nodes, 1, 3)),
        Additive(draw(nodes, 1), draw(nodes, HEADS)),
        Kernel(draw(nodes, HEADS, 2), draw(nodes, 1, 2)),
    ]


def _total(terms: Iterable[Decomposition]) -> Decomposition:
    return functools.reduce(operator.add, terms)


def sums(case: RPECase) -> None:
    """The value adds to foreign terms of every kind, in any order."""
    rpe = case.rpe()
    value = case.value(rpe, case.prepared(rpe, case.ordinary["grid 3x4"]))
    foreign = foreign_terms(value.num_nodes)
    orders = list(itertools.permutations([value, *foreign]))[::5]
    if is_mixture(value):
        _check_mixture_sums(foreign, orders)
        return
    expected = dense(value, HEADS) + sum(dense(term, HEADS) for term in foreign)
    for terms in orders:
        assert_same(dense(_total(terms), HEADS), expected, "the dense sum of foreign terms")
        assert_same(lower(_total(terms)).to_dense(), expected, "the lowered sum with foreign terms")
    assert_same(dense(SumRPE([rpe, rpe])(*_call(case)), HEADS), 2 * dense(value, HEADS), "the encoding plus itself")


def _check_mixture_sums(foreign: list[Decomposition], orders: list[tuple[Decomposition, ...]]) -> None:
    """An average of softmaxes has no dense form: the attention weights must not depend on the order."""
    expected = weights(_total(orders[0]), HEADS)
    for terms in orders:
        assert_same(weights(_total(terms), HEADS), expected, "attention weights of the sum in another order")


def _call(case: RPECase) -> tuple[object, Tensor | None]:
    module = case.rpe()
    data = case.prepared(module, case.ordinary["grid 3x4"])
    return data, case.states(module, data)


def scaling(case: RPECase) -> None:
    """The value scales, or refuses with an AlgebraError if it is a kernel, a partition or an average of softmaxes."""
    rpe = case.rpe()
    value = case.value(rpe, case.prepared(rpe, case.ordinary["grid 3x4"]))
    factor = torch.tensor([1.5, -0.5], dtype=torch.float64)
    if all(isinstance(term, SCALABLE) for term in flatten(value)):
        expected = dense(value, HEADS)
        assert_same(dense(value * factor, HEADS), factor[:, None, None] * expected, "the value times a factor per head")
        assert_same(dense(ScaledRPE(rpe, -2.0)(*_call(case)), HEADS), -2.0 * expected, "the scaled module")
        return
    try:
        scaled = dense(value * 2.0, HEADS)
    except AlgebraError:
        return
    assert_same(scaled, 2.0 * dense(value, HEADS), "the value times 2 (an AlgebraError is right where it cannot scale)")


def transposition(case: RPECase) -> None:
    """The transposed value is the transposed bias."""
    rpe = case.rpe()
    for name, graph in case.ordinary.items():
        value = case.value(rpe, case.prepared(rpe, graph))
        if is_mixture(value):
            raise SkipCheck("the value averages softmaxes, so it has no transpose")
        assert_same(dense(value.transposed, HEADS), dense(value, HEADS).mT, f"{name}: the transposed value")


def permutation(case: RPECase) -> None:
    """A reordered value is the reordered bias."""
    rpe = case.rpe()
    for name, graph in case.ordinary.items():
        data = case.prepared(rpe, graph)
        value = case.value(rpe, data)
        order = random_order(value.num_nodes)
        expected = case.observed(value, data)[:, order][:, :, order]
        assert_same(case.observed(value.permute(order), data), expected, f"{name}: the permuted value")


def exact_sum(case: RPECase) -> None:
    """Exact attention with the value and foreign terms is the softmax of the dense sum."""
    rpe = case.rpe()
    value = case.value(rpe, case.prepared(rpe, case.ordinary["grid 3x4"]))
    if is_mixture(value):
        raise SkipCheck("the value averages softmaxes, so the sum has no dense form")
    total = _total([*foreign_terms(value.num_nodes), value])
    generator = torch.Generator().manual_seed(0)
    q, k, v = torch.randn(3, value.num_nodes, HEADS, 4, generator=generator, dtype=torch.float64)
    logits = torch.einsum("ihd,jhd->hij", q, k) / 2 + dense(total, HEADS)
    expected = (logits.softmax(-1) @ v.transpose(0, 1)).transpose(0, 1)
    for implementation in ("dense", "fused"):
        got = exact_attention(q, k, v, total, implementation=implementation)
        assert_same(got, expected, f"exact attention ({implementation}) with the sum")
