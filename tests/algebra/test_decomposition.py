"""The algebra's laws, on random values of every kind."""

from __future__ import annotations

import functools
import itertools
import pickle
from collections.abc import Callable

import attrs
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from kdlgt.algebra import (
    Additive,
    Decomposition,
    Kernel,
    Lowered,
    Mixture,
    Multiplicative,
    Partition,
    Sparse,
    Sum,
    Zero,
    lower,
    scale,
    to_dense,
)
from kdlgt.errors import AlgebraError, ArgumentError

HEADS = 2


def multiplicative(n: int, generator: torch.Generator) -> Multiplicative:
    draw = functools.partial(torch.randn, dtype=torch.float64, generator=generator)
    return Multiplicative(draw(n, HEADS, 3), draw(n, 1, 3))


def additive(n: int, generator: torch.Generator) -> Additive:
    draw = functools.partial(torch.randn, dtype=torch.float64, generator=generator)
    return Additive(draw(n, 1), draw(n, HEADS))


def kernel(n: int, generator: torch.Generator) -> Kernel:
    draw = functools.partial(torch.rand, dtype=torch.float64, generator=generator)
    features = draw(n, HEADS, 3)
    features[..., 0] = torch.where(features[..., 0] < 0.5, 0.0, features[..., 0])
    return Kernel.from_features(features, draw(n, 1, 3))


def sparse(n: int, generator: torch.Generator) -> Sparse:
    pairs = torch.randint(n, (2, 2 * n), generator=generator).unique(dim=1)
    return Sparse(pairs, torch.randn(pairs.size(1), HEADS, dtype=torch.float64, generator=generator), n)


def partition(n: int, generator: torch.Generator) -> Partition:
    return Partition(torch.randint(3, (n,), generator=generator))


def zero(n: int, generator: torch.Generator) -> Zero:
    return Zero(n)


MAKERS: list[Callable[[int, torch.Generator], Decomposition]] = [
    multiplicative,
    additive,
    kernel,
    sparse,
    partition,
    zero,
]
SCALABLE = [multiplicative, additive, sparse, zero]
kinds = st.lists(st.sampled_from(MAKERS), min_size=1, max_size=5)
seeds = st.integers(0, 2**31)
sizes = st.integers(1, 7)


def make(chosen: list[Callable[[int, torch.Generator], Decomposition]], n: int, seed: int) -> list[Decomposition]:
    generator = torch.Generator().manual_seed(seed)
    return [maker(n, generator) for maker in chosen]


def total(values: list[Decomposition]) -> Decomposition:
    return functools.reduce(lambda a, b: a + b, values)


def assert_same(actual: Tensor, expected: Tensor) -> None:
    """Compare biases as exp(B): entries may be -inf, and heads may broadcast."""
    actual, expected = torch.broadcast_tensors(actual.double(), expected.double())
    torch.testing.assert_close(actual.exp(), expected.exp(), rtol=1e-9, atol=1e-12)


@settings(deadline=None)
@given(kinds, sizes, seeds)
def test_dense_of_a_sum_is_the_sum_of_the_densities(
    chosen: list[Callable[[int, torch.Generator], Decomposition]], n: int, seed: int
) -> None:
    values = make(chosen, n, seed)
    expected = functools.reduce(lambda a, b: a + b, [value.to_dense().double() for value in values])
    assert_same(total(values).to_dense(), expected)
    assert_same(lower(total(values)).to_dense(), expected)


@settings(deadline=None)
@given(kinds, sizes, seeds, st.randoms(use_true_random=False))
def test_the_order_of_terms_does_not_matter(
    chosen: list[Callable[[int, torch.Generator], Decomposition]], n: int, seed: int, random: object
) -> None:
    values = make(chosen, n, seed)
    assert_same(lower(total(values[::-1])).to_dense(), lower(total(values)).to_dense())


@settings(deadline=None)
@given(kinds, sizes, seeds)
def test_permuting_a_value_permutes_its_dense_form(
    chosen: list[Callable[[int, torch.Generator], Decomposition]], n: int, seed: int
) -> None:
    value = total(make(chosen, n, seed))
    order = torch.randperm(n, generator=torch.Generator().manual_seed(seed))
    dense = value.to_dense()
    assert_same(value.permute(order).to_dense(), dense[:, order][:, :, order])
    assert_same(lower(value.permute(order)).to_dense(), dense[:, order][:, :, order])


@settings(deadline=None)
@given(kinds, sizes, seeds)
def test_transposing_twice_is_the_identity_and_once_transposes(
    chosen: list[Callable[[int, torch.Generator], Decomposition]], n: int, seed: int
) -> None:
    value = total(make(chosen, n, seed))
    assert_same(value.transposed.to_dense(), value.to_dense().transpose(1, 2))
    assert_same(value.transposed.transposed.to_dense(), value.to_dense())


@settings(deadline=None)
@given(st.lists(st.sampled_from(SCALABLE), min_size=1, max_size=4), sizes, seeds, st.floats(-3, 3))
def test_scaling_scales_the_dense_form(
    chosen: list[Callable[[int, torch.Generator], Decomposition]], n: int, seed: int, factor: float
) -> None:
    value = total(make(chosen, n, seed))
    assert_same((factor * value).to_dense(), factor * value.to_dense())
    assert_same(lower(value * factor).to_dense(), factor * value.to_dense())


def test_scaling_by_a_number_per_head() -> None:
    value = total(make([multiplicative, additive, sparse], 5, 0))
    factor = torch.tensor([2.0, -0.5], dtype=torch.float64)
    assert_same(scale(value, factor).to_dense(), factor[:, None, None] * value.to_dense())


@pytest.mark.parametrize("maker", [kernel, partition])
def test_scaling_a_kernel_is_an_error_that_says_what_to_do(
    maker: Callable[[int, torch.Generator], Decomposition],
) -> None:
    value = total(make([multiplicative, maker], 4, 0))
    with pytest.raises(AlgebraError, match="Scale the encoding's own parameter"):
        value * 2.0


@pytest.mark.parametrize("maker", MAKERS[:4])
def test_gradients_of_the_lowered_dense_form(maker: Callable[[int, torch.Generator], Decomposition]) -> None:
    value = make([maker], 4, 1)[0]
    names = {
        Multiplicative: ("query_factor", "key_factor"),
        Additive: ("row", "column"),
        Kernel: ("log_query_features", "log_key_features"),
        Sparse: ("values",),
    }[type(value)]
    tensors = [getattr(value, name).clamp_min(-5).detach().requires_grad_() for name in names]

    def dense(*fields: Tensor) -> Tensor:
        changed = attrs.evolve(value, **dict(zip(names, fields, strict=True)))  # type: ignore[misc]
        return lower(changed + Zero(4)).to_dense()

    assert torch.autograd.gradcheck(dense, tensors)


def test_an_empty_kernel_row_has_a_zero_gradient_and_not_nan() -> None:
    log = torch.full((3, 1, 2), -torch.inf, dtype=torch.float64, requires_grad=True)
    dense = Kernel(log, torch.zeros(3, 1, 2, dtype=torch.float64)).to_dense()
    assert bool((dense == -torch.inf).all())
    torch.where(torch.isfinite(dense), dense, 0.0).sum().backward()
    assert log.grad is not None
    assert bool((log.grad == 0).all())


def test_moving_keeps_integers_and_converts_floats() -> None:
    value = total(make([multiplicative, sparse, partition], 4, 2)).to(torch.float32)
    assert isinstance(value, Sum)
    first, second, third = value.terms
    assert isinstance(first, Multiplicative)
    assert isinstance(second, Sparse)
    assert isinstance(third, Partition)
    assert (first.query_factor.dtype, second.values.dtype) == (torch.float32, torch.float32)
    assert (second.pairs.dtype, third.part.dtype) == (torch.int64, torch.int64)


def test_values_are_frozen_and_pickle() -> None:
    value = total(make([multiplicative, kernel], 4, 3))
    with pytest.raises(AttributeError):
        value.terms = ()  # type: ignore[attr-defined]
    assert_same(pickle.loads(pickle.dumps(value)).to_dense(), value.to_dense())


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: Multiplicative(torch.zeros(3, 2), torch.zeros(3, 2)), r"query_factor has shape \(3, 2\)"),
        (lambda: Multiplicative(torch.zeros(3, 2, 4), torch.zeros(3, 2, 5)), "must agree"),
        (lambda: Multiplicative(torch.zeros(3, 2, 4), torch.zeros(3, 3, 4)), "2 heads, key_factor has 3"),
        (lambda: Kernel.from_features(-torch.ones(2, 1, 1), torch.ones(2, 1, 1)), "minimum of -1"),
        (lambda: Sparse(torch.zeros(2, 3, dtype=torch.long), torch.zeros(4, 1), 5), r"expected \(2, 4\)"),
        (lambda: Partition(torch.zeros(3)), "expected integers"),
        (lambda: Mixture(torch.zeros(3, 1, 2), torch.ones(3, 3, dtype=torch.bool)), r"expected \(3, 2\)"),
        (lambda: Sum(()), "no terms"),
        (lambda: Zero(3) + Zero(4), r"\[3, 4\] nodes"),
    ],
)
def test_bad_values_are_refused(build: Callable[[], object], message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        build()


def test_adding_something_else_is_a_type_error() -> None:
    with pytest.raises(TypeError):
        Zero(3) + 1  # type: ignore[operator]


def test_a_mixture_has_no_dense_form_and_two_do_not_add() -> None:
    mixture = Mixture(torch.zeros(3, 1, 2), torch.ones(3, 2, dtype=torch.bool))
    with pytest.raises(AlgebraError, match="no bias"):
        mixture.to_dense()
    with pytest.raises(AlgebraError, match="two mixtures"):
        lower(mixture + mixture)


def test_wide_kernel_products_warn() -> None:
    wide = Kernel(torch.zeros(2, 1, 40), torch.zeros(2, 1, 40))
    with pytest.warns(UserWarning, match="40 x 40 = 1600"):
        lower(wide + wide)


def test_a_third_party_kind_costs_one_registration() -> None:
    @attrs.frozen(eq=False)
    class Constant(Decomposition):
        value: float
        nodes: int

        @property
        def num_nodes(self) -> int:
            return self.nodes

        @property
        def num_heads(self) -> int:
            return 1

    with pytest.raises(AlgebraError, match=r"lower.register"):
        lower(Constant(1.0, 4))

    @lower.register(Constant)
    def _(value: Constant) -> Lowered:
        row = torch.full((value.nodes, 1), value.value, dtype=torch.float64)
        return lower(Additive(row, torch.zeros_like(row)))

    other = make([multiplicative], 4, 0)[0]
    assert_same(lower(Constant(1.5, 4) + other).to_dense(), to_dense(other) + 1.5)


@pytest.mark.parametrize("pair", list(itertools.combinations(MAKERS, 2)))
def test_every_pair_of_kinds_adds(pair: tuple[Callable[[int, torch.Generator], Decomposition], ...]) -> None:
    a, b = make(list(pair), 6, 5)
    assert_same(lower(a + b).to_dense(), a.to_dense().double() + b.to_dense().double())
