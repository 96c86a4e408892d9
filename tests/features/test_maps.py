"""Every feature map: what it estimates, its variance, its range, its state."""

from __future__ import annotations

import copy
from collections.abc import Callable

import pytest
import torch

from kdlgt.attention import exact_attention, linear_attention
from kdlgt.errors import AlgebraError, ArgumentError
from kdlgt.features import (
    EluPlusOne,
    FavorPlus,
    FavorPlusPlus,
    FeatureMap,
    Hyperbolic,
    HyperbolicPlusPlus,
    LogFeatures,
    RandomProjection,
    Relu,
    Trigonometric,
)
from kdlgt.registry import load_plugins

SOFTMAX: list[type[RandomProjection]] = [FavorPlus, FavorPlusPlus, Hyperbolic, HyperbolicPlusPlus, Trigonometric]
ALL: list[Callable[[int, int, int], FeatureMap]] = [
    *[lambda dim, heads, r, cls=cls: cls(dim, r, heads) for cls in [*SOFTMAX, Relu]],
    lambda dim, heads, r: EluPlusOne(dim, heads),
]
NAMES = ["favor+", "favor++", "hyperbolic", "hyperbolic++", "trigonometric", "relu", "elu+1"]


def value(features: LogFeatures) -> torch.Tensor:
    return features.log.exp() if features.sign is None else features.log.exp() * features.sign


def products(cls: type[RandomProjection], q: torch.Tensor, k: torch.Tensor, draws: int) -> torch.Tensor:
    """phi(q).phi(k) over independent draws [draws]: each head is a draw."""
    features = cls(q.numel(), 2, draws, orthogonal=False).double()
    sides = [value(features(x.expand(draws, 1, -1), side)) for x, side in ((q, "query"), (k, "key"))]
    return (sides[0] * sides[1]).sum((1, 2))


@pytest.mark.parametrize("cls", SOFTMAX)
def test_softmax_maps_are_unbiased_with_the_variance_that_they_state(cls: type[RandomProjection]) -> None:
    """Mean within 4 standard errors of exp(q.k); variance within 15 % of the stated one, over 200,000 draws."""
    generator = torch.Generator().manual_seed(3)
    q, k = (0.35 * torch.randn(3, dtype=torch.float64, generator=generator) for _ in range(2))
    draws = 200_000
    found = products(cls, q, k, draws)
    exact = torch.exp(q @ k)
    assert abs(float(found.mean() - exact)) < 4 * float(found.std()) / draws**0.5
    # r = 2 features per draw.
    stated = cls(3, 2, 1).double().log_relative_variance(q[None], k[None]).exp().squeeze() / 2
    assert float(found.var() / exact.square() / stated) == pytest.approx(1.0, rel=0.15)


def test_the_constant_of_favor_plus_plus_minimises_the_variance() -> None:
    q, k = torch.full((6,), 0.4, dtype=torch.float64), torch.full((6,), 0.3, dtype=torch.float64)
    features = FavorPlusPlus(6, 4).double()
    features.adapt((q + k).square().sum()[None])
    best = features.log_relative_variance(q[None], k[None])
    assert float(best) < float(FavorPlus(6, 4).log_relative_variance(q, k))
    for change in (-0.02, 0.02):
        moved = copy.deepcopy(features)
        moved.constant += change
        assert float(moved.log_relative_variance(q[None], k[None])) > float(best)


def test_pairs_of_favor_plus_plus_are_the_best_of_their_family() -> None:
    """At least as good as both maps that it combines, whatever the size of the logits."""
    for size in (0.05, 0.4, 1.5):
        q, k = torch.full((1, 6), size, dtype=torch.float64), torch.full((1, 6), size, dtype=torch.float64)
        square = (q + k).square().sum()[None]
        variances = []
        for cls in (HyperbolicPlusPlus, FavorPlusPlus, Hyperbolic):
            features = cls(6, 4).double()
            features.adapt(square)
            variances.append(float(features.log_relative_variance(q, k)))
        assert variances[0] <= min(variances[1:]) + 1e-9, size


@pytest.mark.parametrize("cls", [Relu, EluPlusOne])
def test_maps_with_a_kernel_of_their_own_say_so(cls: type[FeatureMap]) -> None:
    features = cls(4) if cls is EluPlusOne else cls(4, 8)
    assert not features.estimates_softmax
    with pytest.raises(AlgebraError, match="does not estimate"):
        features.log_relative_variance(torch.zeros(4), torch.zeros(4))


def test_elementwise_maps_equal_their_formula() -> None:
    x = torch.linspace(-3, 3, 24, dtype=torch.float64).view(1, 6, 4)
    torch.testing.assert_close(value(EluPlusOne(4)(x, "key")), torch.nn.functional.elu(x) + 1)
    relu = Relu(4, 8).double()
    expected = (torch.relu(x @ relu.projection.transpose(1, 2)) + 1e-3) / 8**0.5
    torch.testing.assert_close(value(relu(x, "query")), expected)


@pytest.mark.parametrize("make", ALL, ids=NAMES)
@pytest.mark.parametrize("std", [0.25, 2.0, 64.0])
def test_finite_at_every_scale(make: Callable[[int, int, int], FeatureMap], std: float) -> None:
    generator = torch.Generator().manual_seed(0)
    q, k, v = (std * torch.randn(60, 2, 8, generator=generator) for _ in range(3))
    q.requires_grad_()
    output = linear_attention(q, k, v, features=make(8, 2, 16), ptr=torch.tensor([0, 1, 60]))
    output.sum().backward()
    assert q.grad is not None
    assert bool(torch.isfinite(output).all())
    assert bool(torch.isfinite(q.grad).all())


@pytest.mark.parametrize("make", ALL, ids=NAMES)
def test_a_graph_alone_equals_the_graph_in_a_batch(make: Callable[[int, int, int], FeatureMap]) -> None:
    generator = torch.Generator().manual_seed(0)
    q, k, v = (0.5 * torch.randn(305, 2, 8, dtype=torch.float64, generator=generator) for _ in range(3))
    features = make(8, 2, 16).double()
    both = linear_attention(q, k, v, features=features, ptr=torch.tensor([0, 5, 305]))
    alone = linear_attention(q[:5], k[:5], v[:5], features=features)
    torch.testing.assert_close(both[:5], alone)


@pytest.mark.parametrize("cls", [FavorPlus, FavorPlusPlus, Hyperbolic, HyperbolicPlusPlus])
def test_gradients(cls: type[RandomProjection]) -> None:
    features = cls(3, 4, 1).double()
    x = torch.randn(4, 1, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0)).requires_grad_()

    def attention(x: torch.Tensor) -> torch.Tensor:
        return linear_attention(x, x, x, features=features)

    assert torch.autograd.gradcheck(attention, x)


@pytest.mark.parametrize("cls", [*SOFTMAX, Relu])
def test_redrawing_is_seeded_and_leaves_the_global_state_alone(cls: type[RandomProjection]) -> None:
    state = torch.get_rng_state()
    features = cls(4, 8, 2)
    before = features.projection.clone()
    features.redraw(5)
    assert not torch.equal(features.projection, before)
    features.redraw(0)
    assert torch.equal(features.projection, before)
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize("cls", [Hyperbolic, HyperbolicPlusPlus, Trigonometric])
def test_an_odd_number_of_features_is_refused(cls: type[RandomProjection]) -> None:
    with pytest.raises(ArgumentError, match="multiple of 2"):
        cls(4, 7)


def test_all_are_plugins_of_their_kind() -> None:
    registry = load_plugins()
    assert set(NAMES) <= set(registry.feature_map_specs)
    generator = torch.Generator().manual_seed(0)
    q, k, v = (0.3 * torch.randn(30, 2, 4, generator=generator) for _ in range(3))
    exact = exact_attention(q, k, v)
    for name in NAMES:
        features = registry.feature_map(name, dim=4, heads=2)
        error = float((linear_attention(q, k, v, features=features) - exact).abs().mean())
        assert error < 0.2, name
