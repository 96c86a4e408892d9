"""The health report: equal to dense matrices on sampled rows, linear in N, and not silent about collapse."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

import kdlgt.attention.health as health_module
from kdlgt.algebra import Mixture, lower
from kdlgt.attention import attention_health, exact_attention, linear_attention
from kdlgt.attention.health import AttentionHealth
from kdlgt.errors import ApproximationWarning, ArgumentError
from kdlgt.features import (
    Conditioned,
    EluPlusOne,
    FavorPlus,
    FavorPlusPlus,
    FeatureMap,
    Hyperbolic,
    HyperbolicPlusPlus,
    Relu,
    Trigonometric,
)

Make = Callable[..., Any]
SOFTMAX_MAPS = [FavorPlus, FavorPlusPlus, Hyperbolic, HyperbolicPlusPlus, Trigonometric]


def rows_of(attention: Callable[..., Tensor], problem: Any, bias: Any, **options: Any) -> Tensor:
    """The attention matrix [H, N, N]: attention of the identity."""
    nodes, heads = problem.q.shape[:2]
    identity = torch.eye(nodes, dtype=problem.q.dtype)[:, None].expand(-1, heads, -1)
    return attention(problem.q, problem.k, identity, bias, **options).transpose(0, 1)


def features_for(problem: Any, bias: Any, count: int = 16) -> FavorPlus:
    width = 0 if bias is None else lower(bias).factor_width
    return FavorPlus(problem.q.size(2) + width, count, problem.q.size(1))


def test_total_variation_is_that_of_the_two_attention_matrices(make_problem: Make, kind: str) -> None:
    problem = make_problem(40, std=0.7)
    bias, ptr = problem.bias(kind), torch.tensor([0, 15, 40])
    features = features_for(problem, bias)
    linear = rows_of(linear_attention, problem, bias, ptr=ptr, features=features)
    exact = rows_of(exact_attention, problem, bias, ptr=ptr).nan_to_num(nan=0.0)
    expected = (linear - exact).abs().sum(-1) / 2
    report = attention_health(problem.q, problem.k, bias, ptr=ptr, features=features, rows=40)
    torch.testing.assert_close(report.total_variation, expected[:, report.rows], rtol=1e-6, atol=1e-9)


def test_total_variation_of_a_mixture(make_problem: Make) -> None:
    problem = make_problem(12)
    column = problem.draw(12, 2, 3)
    valid = torch.ones(12, 3, dtype=torch.bool)
    valid[:4, 2] = False
    bias = Mixture(column, valid)
    features = features_for(problem, None)
    matrices = [
        rows_of(linear_attention, problem, bias, features=features),
        rows_of(exact_attention, problem, bias),
    ]
    expected = (matrices[0] - matrices[1]).abs().sum(-1) / 2
    report = attention_health(problem.q, problem.k, bias, features=features, rows=12)
    torch.testing.assert_close(report.total_variation, expected[:, report.rows])


@pytest.mark.parametrize("tile", [1, 1 << 22])
def test_effective_size_by_its_definition(make_problem: Make, tile: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health_module, "_TILE_ELEMENTS", tile)
    problem = make_problem(20)
    bias = problem.bias("kernel+additive")
    features = features_for(problem, bias)
    lowered = lower(bias)
    assert lowered.kernel is not None
    assert lowered.additive is not None
    query, key = (side.transpose(0, 1) / 4**0.25 for side in (problem.q, problem.k))
    phi, psi = (torch.exp(features(side, "query").log) for side in (query, key))
    sides = (lowered.kernel.log_query_features, lowered.kernel.log_key_features)
    kernel = torch.einsum("ihk,jhk->hij", *(side.exp().expand(-1, 2, -1) for side in sides))
    weights = phi * ((kernel * lowered.additive.column.T.exp()[:, None]) @ psi)
    expected = weights.sum(-1).square() / weights.square().sum(-1)
    report = attention_health(problem.q, problem.k, bias, features=features, rows=20)
    torch.testing.assert_close(report.effective_size, expected[:, report.rows])


@pytest.mark.parametrize("features", SOFTMAX_MAPS)
def test_log_c_is_the_error_of_an_entry(features: type[FavorPlus]) -> None:
    """c is the relative root mean square error of ``phi(q).phi(k)`` over draws of independent projections."""
    query, key = torch.tensor([[[0.4, -0.2, 0.1]]]), torch.tensor([[[0.3, 0.2, -0.4]]])
    draws = 20_000
    drawn = features(3, 8, draws, orthogonal=False)
    one = features(3, 8, orthogonal=False)
    sides = [drawn(side.expand(draws, 1, 3), name) for side, name in ((query, "query"), (key, "key"))]
    signed = [torch.exp(side.log) * (1 if side.sign is None else side.sign) for side in sides]
    estimates = (signed[0] * signed[1]).sum(-1)
    exact = float(torch.exp((query * key).sum()))
    measured = float(((estimates / exact - 1) ** 2).mean().sqrt())
    report = attention_health(query, key, features=one, scale=1.0, warn=False)
    assert report.log_c_max is not None
    assert math.exp(float(report.log_c_max)) == pytest.approx(measured, rel=0.05)


def test_the_largest_c_and_lemma_1() -> None:
    generator = torch.Generator().manual_seed(0)
    q, k = (0.3 * torch.randn(600, 2, 4, generator=generator) for _ in range(2))
    report = attention_health(q, k, features=FavorPlus(4, 64, 2), rows=600)
    scaled = [side.transpose(0, 1).double() / 4**0.25 for side in (q, k)]
    square = torch.cdist(scaled[0], -scaled[1]).square()
    c = ((square.exp() - 1) / 64).sqrt().amax((1, 2))
    assert report.log_c_max is not None
    assert report.log_c is not None
    assert report.lemma_factor is not None
    torch.testing.assert_close(report.log_c_max.exp(), c, rtol=1e-6, atol=0)
    torch.testing.assert_close(report.lemma_factor, (1 + c) / (1 - c), rtol=1e-6, atol=0)
    assert bool((report.log_c <= report.log_c_max[:, None]).all())
    far = attention_health(9 * q, k, features=FavorPlus(4, 64, 2), warn=False)
    assert far.to_dict()[0]["lemma_factor"] is None, "c >= 1: no bound"


@pytest.mark.parametrize("std", [8.0, 64.0])
@pytest.mark.parametrize("count", [16, 64, 256])
@pytest.mark.parametrize("features", SOFTMAX_MAPS)
def test_a_collapsed_approximation_says_so(features: type[FavorPlus], count: int, std: float) -> None:
    generator = torch.Generator().manual_seed(0)
    q, k = (std * torch.randn(200, 2, 16, generator=generator) for _ in range(2))
    with pytest.warns(ApproximationWarning, match=r"collapsed in heads \[0, 1\]"):
        report = attention_health(q, k, features=features(16, count, 2))
    assert report.collapsed == (True, True)
    assert float(report.effective_size.median()) < 2, "seen by effective sample size alone"
    assert bool(torch.isfinite(report.effective_size).all() & torch.isfinite(report.total_variation).all())


@pytest.mark.parametrize("count", [16, 64, 256])
@pytest.mark.parametrize("features", SOFTMAX_MAPS)
def test_a_good_approximation_does_not_warn(features: type[FavorPlus], count: int) -> None:
    generator = torch.Generator().manual_seed(0)
    q, k = (0.5 * torch.randn(200, 2, 16, generator=generator) for _ in range(2))
    report = attention_health(q, k, features=features(16, count, 2))
    assert report.collapsed == (False, False)


@pytest.mark.parametrize(
    ("size", "variation", "collapsed"), [(1, 0.1, False), (1, 0.4, True), (9, 0.4, False), (9, 1, True)]
)
def test_few_features_are_no_collapse_where_they_suffice(size: float, variation: float, collapsed: bool) -> None:
    report = AttentionHealth(
        num_features=32,
        rows=torch.arange(5),
        effective_size=torch.full((1, 5), float(size)),
        total_variation=torch.full((1, 5), float(variation)),
        log_c=None,
        log_c_max=None,
        estimates_softmax=True,
    )
    assert report.collapsed == (collapsed,)


@pytest.mark.parametrize("features", [EluPlusOne(4, 2), Relu(4, 16, 2)])
def test_a_map_with_a_kernel_of_its_own_has_no_error_of_entries(features: FeatureMap, make_problem: Make) -> None:
    problem = make_problem(30)
    report = attention_health(problem.q, problem.k, features=features)
    assert report.log_c is None
    assert report.lemma_factor is None
    assert not any(report.collapsed)
    assert report.to_dict()[0]["log_c_quantiles"] is None


def test_measuring_gathers_no_moments(make_problem: Make) -> None:
    problem = make_problem(30)
    features = Conditioned(FavorPlus(4, 16, 2)).train()
    attention_health(problem.q, problem.k, features=features)
    assert features.training
    assert float(features.pending.abs().max()) == 0


def test_rows_are_drawn_from_the_generator(make_problem: Make) -> None:
    problem = make_problem(100)
    state = torch.get_rng_state()
    draws = [
        attention_health(problem.q, problem.k, rows=5, generator=torch.Generator().manual_seed(seed)).rows.tolist()
        for seed in (1, 1, 2)
    ]
    assert draws[0] == draws[1] != draws[2]
    assert len(set(draws[0])) == 5
    assert torch.equal(torch.get_rng_state(), state)


def test_small_chunks_change_nothing(make_problem: Make, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    problem = make_problem(30)
    bias = problem.bias(kind)
    features = features_for(problem, bias)
    whole = attention_health(problem.q, problem.k, bias, features=features)
    monkeypatch.setattr(health_module, "_TILE_ELEMENTS", 1)
    monkeypatch.setattr(health_module, "_ROW_ELEMENTS", 1)
    parts = attention_health(problem.q, problem.k, bias, features=features)
    assert torch.equal(whole.rows[: len(parts.rows)].sort().values, parts.rows.sort().values)
    torch.testing.assert_close(parts.total_variation, whole.total_variation)
    torch.testing.assert_close(parts.effective_size, whole.effective_size)
    assert parts.log_c_max is not None
    assert whole.log_c_max is not None
    torch.testing.assert_close(parts.log_c_max, whole.log_c_max)


def test_one_node_and_zero_vectors() -> None:
    zero = torch.zeros(1, 2, 4)
    report = attention_health(zero, zero, features=FavorPlus(4, 8, 2))
    assert float(report.total_variation.max()) == 0
    torch.testing.assert_close(report.effective_size, torch.full((2, 1), 8.0, dtype=torch.float64))
    assert math.isfinite(report.to_dict()[0]["log_c_quantiles"]["0.5"])


def test_arguments_out_of_range_are_refused(make_problem: Make) -> None:
    problem = make_problem(6)
    with pytest.raises(ArgumentError, match="rows = 0"):
        attention_health(problem.q, problem.k, rows=0)
    with pytest.raises(ArgumentError, match="dim=5"):
        attention_health(problem.q, problem.k, features=FavorPlus(5, 8, 2))


def test_a_hundred_thousand_nodes() -> None:
    """Rows of 100,000 entries, and no matrix of N rows."""
    generator = torch.Generator().manual_seed(0)
    q, k = (0.5 * torch.randn(100_000, 1, 8, generator=generator) for _ in range(2))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        report = attention_health(q, k, features=FavorPlus(8, 32), rows=4)
    assert report.total_variation.shape == (1, 4)
    assert 0 < float(report.total_variation.max()) < 0.5
