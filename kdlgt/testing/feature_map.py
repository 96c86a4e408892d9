"""All checks of a feature map."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import attrs
import torch
from torch import Tensor

from kdlgt.attention import linear_attention
from kdlgt.features import FeatureMap, LogFeatures, Side
from kdlgt.registry import EXTENSIONS, FeatureMapSpec
from kdlgt.registry.validation import spec_faults
from kdlgt.testing.check import Check, CheckResult, SkipCheck, checks_of, run_checks
from kdlgt.testing.compare import assert_same
from kdlgt.testing.guard import NoSquare
from kdlgt.testing.purity import pickled, untouched_random_state
from kdlgt.testing.round_trip import check_round_trip
from kdlgt.testing.sweep import label, options_of

DIM, HEADS, NODES = 4, 2, 10
SCALES = (0.0, 0.1, 1.0, 8.0, 64.0)
DRAWS = 400
DEVIATIONS = 5.0
SIDES: tuple[Side, Side] = ("query", "key")


@attrs.frozen
class FeatureMapCase:
    """A feature map under test: what it claims, and the options that it is built with."""

    spec: FeatureMapSpec
    options: Any

    def map(self) -> FeatureMap:
        """A new map in float64, in evaluation mode."""
        return self.spec.factory(DIM, HEADS, self.options).double().eval()


def states(scale: float = 0.5, *, nodes: int = NODES, seed: int = 0) -> Tensor:
    """Random queries or keys [H, N, D]."""
    generator = torch.Generator().manual_seed(seed)
    return scale * torch.randn(HEADS, nodes, DIM, generator=generator, dtype=torch.float64)


def _values(features: LogFeatures) -> Tensor:
    """The features themselves."""
    values = features.log.exp()
    return values if features.sign is None else values * features.sign


def works(case: FeatureMapCase) -> None:
    """The spec is valid, the factory builds a feature map, and features are [H, N, r]."""
    faults = spec_faults(case.spec, EXTENSIONS["feature_map"])
    assert not faults, "; ".join(faults)
    made: object = case.spec.factory(DIM, HEADS, case.options)
    assert isinstance(made, FeatureMap), f"the factory returned {type(made).__name__}; expected FeatureMap"
    assert (made.dim, made.heads) == (DIM, HEADS), f"asked for dim, heads = {DIM, HEADS}; got {made.dim, made.heads}"
    for side in SIDES:
        features = case.map()(states(), side)
        expected = (HEADS, NODES, made.num_features)
        for name, tensor in (("log", features.log), ("sign", features.sign)):
            shape = expected if tensor is None else tuple(tensor.shape)
            assert shape == expected, f"{side}: {name} has shape {shape}; expected [H, N, num_features] = {expected}"


def tags(case: FeatureMapCase) -> None:
    """``positive`` and ``estimates_softmax`` say the truth, in the spec and on the module."""
    made = case.map()
    agree = made.estimates_softmax == case.spec.estimates_softmax
    assert agree, f"estimates_softmax: {made.estimates_softmax} on the map, {case.spec.estimates_softmax} on the spec"
    signs = [made(states(scale), side).sign for scale in SCALES for side in SIDES]
    positive = all(sign is None or bool((sign >= 0).all()) for sign in signs)
    assert positive or not made.positive, "tagged positive, but some features are negative"


def finite(case: FeatureMapCase) -> None:
    """Log-features are finite, or -inf for zero, at every scale; with positive features attention is too."""
    for scale in SCALES:
        made = case.map()
        q, k = states(scale), states(scale, seed=1)
        for side, x in zip(SIDES, (q, k), strict=True):
            log = made(x, side).log
            proper = not bool(log.isnan().any()) and not bool((log == torch.inf).any())
            assert proper, f"{side} at scale {scale}: log-features hold NaN or +inf; stay in logs until the end"
            alive = not made.positive or bool((log > -torch.inf).any(-1).all())
            assert alive, f"{side} at scale {scale}: all features of a node are zero; stay in logs until the end"
        if made.positive:
            output = linear_attention(q.transpose(0, 1), k.transpose(0, 1), states().transpose(0, 1), features=made)
            assert bool(output.isfinite().all()), f"attention at scale {scale} is not finite"


def kernel(case: FeatureMapCase) -> None:
    """``E[phi(x).phi(y)] = exp(x.y)`` over draws, where the spec says so."""
    if not case.spec.estimates_softmax:
        raise SkipCheck("the spec does not claim the softmax kernel")
    made = case.map()
    q, k = states(0.3), states(0.3, seed=1)
    draws = torch.stack([_sums(_kernel(made, q, k, seed)) for seed in range(DRAWS)])
    expected = _sums((q @ k.transpose(1, 2)).exp())
    standard_error = draws.std(0) / DRAWS**0.5
    deviation = (draws.mean(0) - expected).abs()
    off = deviation > DEVIATIONS * standard_error + 1e-9
    assert not bool(off.any()), (
        f"the mean of phi(x).phi(y) over {DRAWS} draws is off exp(x.y), summed over rows and columns, "
        f"by up to {float((deviation / standard_error.clamp_min(1e-30)).amax()):.1f} standard errors"
    )


def _kernel(made: FeatureMap, q: Tensor, k: Tensor, seed: int) -> Tensor:
    made.redraw(seed)
    return _values(made(q.clone(), "query")) @ _values(made(k.clone(), "key")).transpose(1, 2)


def _sums(matrix: Tensor) -> Tensor:
    """Row and column sums: single entries have tails too heavy for a mean over draws."""
    return torch.cat([matrix.sum(1), matrix.sum(2)], dim=1)


def precondition(case: FeatureMapCase) -> None:
    """``precondition`` leaves the softmax as it was."""
    q, k = states(), states(seed=1)
    weight = states(seed=2)[..., 0]
    query, key, moved = case.map().precondition(q.clone(), k.clone(), weight.clone())
    logits = query @ key.transpose(1, 2) + (0.0 if moved is None else moved[:, None, :])
    expected = (q @ k.transpose(1, 2) + weight[:, None, :]).softmax(-1)
    assert_same(logits.softmax(-1), expected, "softmax after precondition")


def isolation(case: FeatureMapCase) -> None:
    """The features of a node depend on that node alone, in evaluation and in training."""
    x = states()
    other = torch.cat([x[:, :3], 50.0 * x[:, 3:]], dim=1)
    for mode in (False, True):
        for side in SIDES:
            made = case.map().train(mode)
            first, second = (_values(made(given, side))[:, :3] for given in (x, other))
            assert_same(first, second, f"{side}: features of a node moved when other nodes changed")


def memory(case: FeatureMapCase) -> None:
    """No tensor of N^2 elements."""
    nodes = 1000
    made = case.map()
    x = states(nodes=nodes).requires_grad_()
    with NoSquare(nodes):
        for side in SIDES:
            _values(made(x, side)).sum().backward()


def gradcheck(case: FeatureMapCase) -> None:
    """The gradient is that of finite differences."""
    made = case.map()
    for side in SIDES:
        x = states(nodes=3).requires_grad_()
        torch.autograd.gradcheck(
            lambda given, side=side: _values(made(given, side)), (x,), fast_mode=True, atol=1e-6, rtol=1e-3
        )


def dtype(case: FeatureMapCase) -> None:
    """Features have the dtype of the inputs."""
    made = case.map()
    expected = _values(made(states(), "query"))
    features = copy.deepcopy(made).float()(states().float(), "query")
    assert features.log.dtype == torch.float32, f"float32 inputs gave features in {features.log.dtype}"
    assert_same(_values(features).double(), expected, "in float32 against float64", rtol=1e-3, atol=1e-4)


def saving(case: FeatureMapCase) -> None:
    """``state_dict``, ``pickle`` and ``deepcopy`` give the same features: draws are saved buffers."""
    made = case.map()
    made.redraw(7)
    expected = _values(made(states(), "query"))
    fresh = case.map()
    fresh.load_state_dict(made.state_dict())
    copies = {"state_dict": fresh, "deepcopy": copy.deepcopy(made), "pickle": pickled(made)}
    for name, other in copies.items():
        assert_same(_values(other(states(), "query")), expected, f"after {name}")


def determinism(case: FeatureMapCase) -> None:
    """Two maps with the same options are equal, and so are two calls."""
    first, second = case.map(), case.map()
    expected = _values(first(states(), "query"))
    for again in (first, second):
        assert_same(_values(again(states(), "query")), expected, "a second map or call with the same options")


def random_state(case: FeatureMapCase) -> None:
    """Construction, redraw and calls leave the global random state alone."""
    with untouched_random_state("construction"):
        made = case.map()
    with untouched_random_state("redraw"):
        made.redraw(1)
    for side in SIDES:
        with untouched_random_state(f"a call ({side})"):
            made(states(), side)


def inputs(case: FeatureMapCase) -> None:
    """A call leaves its inputs alone."""
    made = case.map()
    for side in SIDES:
        x = states()
        made(x, side)
        assert torch.equal(x, states()), f"a call changed its input ({side})"


def config(case: FeatureMapCase) -> None:
    """The options go through TOML, as in a config, and come back equal."""
    check_round_trip("feature_map", case.spec, case.options)


CHECKS: dict[str, Callable[[FeatureMapCase], None]] = {
    "works": works,
    "tags": tags,
    "finite": finite,
    "kernel": kernel,
    "precondition": precondition,
    "isolation": isolation,
    "memory": memory,
    "gradcheck": gradcheck,
    "dtype": dtype,
    "saving": saving,
    "config": config,
    "determinism": determinism,
    "random state": random_state,
    "inputs": inputs,
}
"""Every check by name; its docstring says what must hold."""


def feature_map_checks(spec: FeatureMapSpec, options: Any = None) -> list[Check]:
    """Every check of a feature map, on its defaults and each variation of its typed options, as callables."""
    chosen = options_of(spec) if options is None else [options]
    return [check for each in chosen for check in checks_of(FeatureMapCase(spec, each), CHECKS, label(each))]


def check_feature_map(spec: FeatureMapSpec, options: Any = None) -> list[CheckResult]:
    """Run every check of a feature map."""
    return run_checks(feature_map_checks(spec, options))
